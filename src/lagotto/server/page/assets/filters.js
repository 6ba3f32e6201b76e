// Filters by the values that exist. The filter is one JSON object; checkboxes are a way to write it.

import { ask } from "./api.js";
import { debounced, el, fill } from "./dom.js";

const FEW = 8; // values shown of a field before one asks for more
const HIDDEN = ["collection"]; // has a control of its own

/** The filter of a search: values of fields to tick, and its JSON form to edit. */
export class Filters {
  constructor(state, onChange) {
    Object.assign(this, { state, onChange, fields: [], complete: true });
    this.element = el("details", { class: "panel filters", open: Boolean(state.get("filters")), ontoggle: () => this.#open() });
    this.draw();
    if (this.element.open) this.load();
  }

  /** Ask which fields and values there are. */
  async load() {
    if (!this.element.open) return;
    const collection = this.state.get("collection");
    const answer = await ask(`/v1/fields${collection ? `?${new URLSearchParams({ collection })}` : ""}`);
    this.fields = answer.fields.filter(({ name, values_total: total, documents }) => !HIDDEN.includes(name) && (total < documents || total <= FEW));
    this.complete = answer.complete;
    this.counted = answer.counted;
    this.draw();
  }

  get filter() {
    try {
      return JSON.parse(this.state.get("filters") ?? "{}");
    } catch {
      return {};
    }
  }

  draw() {
    const chosen = Object.keys(this.filter).length;
    const note = this.complete ? null : el("p", { class: "hint" }, `Values of the first ${this.counted.toLocaleString()} documents.`);
    fill(this.element, el("summary", {}, "Filters", chosen ? el("span", { class: "count" }, String(chosen)) : null),
      this.fields.map((field) => this.#field(field)), note, this.#json());
  }

  #open() {
    if (this.element.open && !this.fields.length) this.load();
  }

  #field({ name, values, values_total: total }) {
    const chosen = [this.filter[name] ?? []].flat();
    const list = el("ul", {}, values.slice(0, FEW).map((value) => this.#value(name, value, chosen)));
    const more = values.length > FEW
      ? el("button", { type: "button", class: "link", onclick: () => { list.append(...values.slice(FEW).map((value) => this.#value(name, value, chosen))); more.remove(); } },
        `${values.length - FEW} more${total > values.length ? ` of ${(total - FEW).toLocaleString()}` : ""}`)
      : null;
    return el("fieldset", { class: "facet" }, el("legend", {}, name), list, more);
  }

  #value(name, { value, documents }, chosen) {
    const input = el("input", { type: "checkbox", checked: chosen.includes(value), onchange: () => this.#tick(name, value, input.checked) });
    return el("li", {}, el("label", {}, input, el("span", { class: "value" }, String(value)), el("span", { class: "number" }, documents.toLocaleString())));
  }

  #tick(name, value, wanted) {
    const filter = this.filter;
    const others = [filter[name] ?? []].flat().filter((other) => other !== value && typeof other !== "object");
    const values = wanted ? [...others, value] : others;
    if (values.length) filter[name] = values;
    else delete filter[name];
    this.#set(filter);
    this.json.value = text(filter);
  }

  #json() {
    this.json = el("textarea", { rows: "2", spellcheck: "false", placeholder: '{"year": {"$gte": 2020}}' });
    this.json.value = text(this.filter);
    const problem = el("span", { class: "problem", role: "alert" });
    const read = debounced(() => {
      try {
        this.#set(JSON.parse(this.json.value || "{}"));
        problem.textContent = "";
      } catch {
        problem.textContent = "This is not JSON yet.";
      }
    }, 400);
    this.json.addEventListener("input", read);
    return el("label", { class: "field" }, el("span", { class: "label" }, "As JSON"), this.json, problem);
  }

  #set(filter) {
    this.state.set({ filters: text(filter) });
    this.onChange();
  }
}

const text = (filter) => (Object.keys(filter).length ? JSON.stringify(filter) : "");
