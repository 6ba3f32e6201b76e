// The context pack of a query: its text, and what was kept, cut and dropped for the budget.

import { Latest } from "./api.js";
import { showProblem } from "./app.js";
import { choice, copy, debounced, el, fill, labelled, vary } from "./dom.js";
import { documentAddress, wholeAddress } from "./locations.js";
import { shareButton } from "./share.js";
import { State } from "./state.js";

const ROLES = { primary: "Hit", parent: "Parent", sibling: "Beside a hit", cross_page: "Next page" };
const USUAL = 2000;

/** Show the view. */
export async function show(main) {
  new ContextView(main);
  addEventListener("popstate", () => new ContextView(main));
}

class ContextView {
  constructor(main) {
    this.state = new State();
    this.latest = new Latest();
    this.result = el("div", { class: "pack" });
    const changed = debounced(() => this.#ask(), 150);
    const input = (name, properties) => {
      const control = el("input", { ...properties, oninput: () => { this.state.set({ [name]: control.value }, { replace: true }); changed(); } });
      control.value = this.state.get(name) ?? properties.value ?? "";
      return control;
    };
    const query = input("q", { type: "search", class: "query", "aria-label": "Question", placeholder: "A question to collect evidence for", autocomplete: "off" });
    const budget = input("max_tokens", { type: "number", min: 1, max: 100000, step: 1, value: USUAL });
    const format = choice([["plain", "Plain"], ["markdown", "Markdown"], ["xml", "XML"]], this.state.get("format") ?? "plain",
      { onchange: (event) => { this.state.set({ format: event.target.value }); this.#ask(); } });
    fill(main, el("h1", { class: "unseen" }, "Context pack"),
      el("div", { class: "search-head" }, el("form", { role: "search", class: "ask", onsubmit: (event) => { event.preventDefault(); this.#ask(); } }, query),
        el("div", { class: "tools" }, shareButton("context", () => this.#params()))),
      el("div", { class: "row" }, labelled("Budget in tokens", budget), labelled("Format", format)),
      this.result);
    if (this.state.get("q")) this.#ask();
    else query.focus();
  }

  #params() {
    const params = this.state.search();
    if (!params.get("max_tokens")) params.set("max_tokens", USUAL);
    return params;
  }

  async #ask() {
    if (!this.state.get("q")?.trim()) return fill(this.result);
    const params = this.#params();
    try {
      const pack = await this.latest.ask(`/v1/context?${params}`);
      if (pack !== null) fill(this.result, this.#pack(pack, Number(params.get("max_tokens"))));
    } catch (error) {
      showProblem(error, this.result);
    }
  }

  #pack(pack, most) {
    const { trace } = pack;
    return [
      this.#bar(pack, most),
      trace.notes.map((note) => el("p", { class: "notice" }, note)),
      el("div", { class: "halves" },
        el("section", { "aria-labelledby": "kept" }, el("h2", { id: "kept" }, "Kept"), el("ol", { class: "chunks" }, pack.selected_chunks.map(chunkItem)),
          el("h2", { id: "dropped" }, "Dropped"), dropped(trace.dropped)),
        this.#text(pack)),
    ];
  }

  #bar({ tokens, selected_chunks: chunks, trace }, most) {
    const shares = chunks.map((chunk) => chunk.text.length);
    const total = shares.reduce((sum, share) => sum + share, 0) || 1;
    const used = Math.min(1, tokens / most);
    const lost = trace.dropped.reduce((sum, { token_count: count }) => sum + count, 0);
    return el("figure", { class: "budget" },
      el("figcaption", {}, el("strong", {}, `${tokens.toLocaleString()} of ${most.toLocaleString()} tokens`),
        ` · ${chunks.length} kept · ${trace.truncated.length} cut · ${trace.dropped.length} dropped${lost ? ` (${lost.toLocaleString()} tokens)` : ""}`),
      el("div", { class: "budget-bar", role: "img", "aria-label": `${Math.round(used * 100)} percent of the budget is used` },
        chunks.map((chunk, index) => vary(el("span", { class: `role-${chunk.role}${chunk.truncated ? " cut" : ""}`, title: `[${chunk.marker}] ${ROLES[chunk.role]}` }),
          "--share", (used * shares[index]) / total))),
      el("ul", { class: "key" }, Object.entries(ROLES).filter(([role]) => chunks.some((chunk) => chunk.role === role))
        .map(([role, name]) => el("li", {}, el("i", { class: `dot role-${role}`, "aria-hidden": "true" }), name))));
  }

  #text(pack) {
    const button = el("button", { type: "button", class: "quiet small", onclick: () => copy(pack.context_pack, button) }, "Copy");
    return el("section", { class: "code", "aria-labelledby": "pack-text" }, el("header", {}, el("h2", { id: "pack-text" }, "The text of the pack"), button),
      el("pre", { tabindex: "0", class: "tall" }, pack.context_pack || "Empty."));
  }
}

function chunkItem(chunk) {
  return el("li", {}, el("i", { class: `dot role-${chunk.role}`, "aria-hidden": "true" }),
    el("span", { class: "marker" }, `[${chunk.marker}]`), " ",
    el("a", { href: documentAddress(chunk) }, chunk.document_title || chunk.document_source || chunk.document_id),
    el("span", { class: "hint" }, ` ${[ROLES[chunk.role], chunk.heading_path.at(-1), chunk.truncated ? "cut at a sentence to fit" : null].filter(Boolean).join(" · ")}`));
}

function dropped(items) {
  if (!items.length) return el("p", { class: "hint" }, "Nothing: all that was found fits.");
  const reasons = [...new Set(items.map(({ reason }) => reason))];
  return reasons.map((reason) => {
    const rows = items.filter((item) => item.reason === reason).map((item) => el("li", {},
      el("i", { class: `dot role-${item.role}`, "aria-hidden": "true" }),
      el("a", { href: wholeAddress(item.collection, item.document_id) }, item.document_title || item.document_id),
      el("span", { class: "hint" }, ` ${ROLES[item.role]} · ${item.token_count} tokens`)));
    return [el("p", { class: "hint" }, `Why: ${reason}.`), el("ol", { class: "chunks" }, rows)];
  });
}
