// "Why not this document?": where a document that one expected is, and what it lacks.

import { ask, Latest } from "./api.js";
import { breakdownTable } from "./breakdown.js";
import { debounced, el, fill, labelled } from "./dom.js";

const MOST = 1000; // documents whose titles are offered; others are known by their ids
const PAUSE = 300; // milliseconds without a change of the search or the document

/** A box for a document, by its title or id; its answer follows the search. */
export class WhyNot {
  constructor(state) {
    this.state = state;
    this.latest = new Latest();
    this.names = new Map();
    this.offered = el("datalist", { id: "why-documents" });
    this.answer = el("div", { class: "answer", role: "status" });
    this.input = el("input", { type: "text", spellcheck: "false", autocomplete: "off", placeholder: "title or id", list: "why-documents" });
    this.ask = debounced(() => this.#ask(), PAUSE);
    this.input.addEventListener("input", () => {
      state.set({ why: this.input.value }, { replace: true });
      this.ask();
    });
    this.element = el("details", { class: "panel", open: Boolean(state.get("why")), ontoggle: () => this.load() },
      el("summary", {}, "Why not this document?"), labelled("Document", this.input), this.offered, this.answer);
    this.draw();
  }

  /** Show what the address says. */
  draw() {
    this.input.value = this.state.get("why") ?? "";
    this.ask();
  }

  /** Offer the documents that there are. */
  async load() {
    if (!this.element.open) return;
    const collection = this.state.get("collection");
    const params = new URLSearchParams({ limit: MOST, ...(collection ? { collection } : {}) });
    const { documents } = await ask(`/v1/documents?${params}`);
    const ids = documents.map(({ id }) => id);
    this.names = new Map();
    for (const { collection: home, id, title, source } of documents) {
      const called = title || source || id;
      const ambiguous = ids.indexOf(id) !== ids.lastIndexOf(id);
      this.names.set(this.names.has(called) ? `${called} (${id})` : called, { id, home: ambiguous ? home : null });
    }
    fill(this.offered, [...this.names.keys()].map((value) => el("option", { value })));
    this.ask();
  }

  async #ask() {
    const wanted = this.input.value.trim();
    if (!wanted || !this.state.get("q")?.trim()) {
      this.latest.cancel();
      return fill(this.answer);
    }
    const { id, home } = this.names.get(wanted) ?? { id: wanted, home: null };
    const params = this.state.search("a");
    params.set("document", id);
    if (home) params.set("collection", home);
    try {
      const answer = await this.latest.ask(`/v1/why-not?${params}`);
      if (answer === null) return;
      fill(this.answer, el("p", {}, el("strong", {}, answer.found ? "It is there: " : ""), `${answer.reason}.`),
        answer.breakdown ? breakdownTable({ breakdown: answer.breakdown }, { narrow: true }) : null);
    } catch (error) {
      fill(this.answer, el("p", { class: "problem" }, error.message));
    }
  }
}
