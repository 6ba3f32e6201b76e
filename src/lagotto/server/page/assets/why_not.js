// "Why not this document?": where a document that one expected is, and what it lacks.

import { Latest } from "./api.js";
import { breakdownTable } from "./breakdown.js";
import { debounced, el, fill, labelled } from "./dom.js";

/** A box for the id of a document. */
export class WhyNot {
  constructor(state) {
    this.state = state;
    this.latest = new Latest();
    this.answer = el("div", { class: "answer", role: "status" });
    const input = el("input", { type: "text", spellcheck: "false", autocomplete: "off", placeholder: "id of a document" });
    input.value = state.get("why") ?? "";
    const ask = debounced(() => this.#ask(input.value.trim()), 300);
    input.addEventListener("input", () => {
      state.set({ why: input.value }, { replace: true });
      ask();
    });
    this.element = el("details", { class: "panel", open: Boolean(input.value) }, el("summary", {}, "Why not this document?"),
      labelled("Document", input), this.answer);
    if (input.value && state.get("q")) this.#ask(input.value);
  }

  async #ask(document) {
    if (!document || !this.state.get("q")) return fill(this.answer);
    const params = this.state.search("a");
    params.set("document", document);
    try {
      const found = await this.latest.ask(`/v1/explain?${params}`);
      if (found === null) return;
      fill(this.answer, el("p", {}, el("strong", {}, found.found ? "It is there: " : ""), `${found.reason}.`),
        found.breakdown ? breakdownTable({ breakdown: found.breakdown }) : null);
    } catch (error) {
      fill(this.answer, el("p", { class: "problem" }, error.message));
    }
  }
}
