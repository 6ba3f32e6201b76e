// The settings of a search as controls: mode, preset, reranker, fusion and weights.

import { choice, el, fill, labelled } from "./dom.js";
import { LEGS } from "./fusion.js";

const MODES = [["hybrid", "Hybrid"], ["semantic", "Semantic"], ["keyword", "Keyword"]];
const METHODS = [
  ["linear/absolute", "Weighted mean of scores"],
  ["linear/theoretical", "Mean, share of the best"],
  ["linear/minmax", "Mean, min–max"],
  ["linear/zscore", "Mean, z-score"],
  ["linear/sigmoid", "Mean, sigmoid"],
  ["linear/none", "Sum of raw scores"],
  ["rrf/", "Reciprocal ranks (RRF)"],
];
const SLIDERS = {
  semantic: ["w_vec", "Semantic"], text: ["w_text", "Text"], fuzzy: ["w_fuzzy", "Fuzzy"], exact: ["w_exact", "Exact"],
};
const MOST = 2;

/** The controls of one side. `onChange(changes)` gets parameters; `live` is true while one drags. */
export class Settings {
  constructor(side, options, state, onChange) {
    Object.assign(this, { side, options, state, onChange });
    this.element = el("div", { class: "settings" });
    this.sliders = {};
    this.draw();
  }

  get params() {
    return this.state.search(this.side);
  }

  /** The scoring in effect: that of the base or preset, with the parameters. */
  scoring() {
    const params = this.params;
    const preset = this.options.presets.find(({ name }) => name === params.get("prefs"));
    const start = { ...(preset ?? this.options).settings.scoring };
    for (const name of Object.keys(start)) {
      const text = params.get(`scoring.${name}`);
      if (text !== null) start[name] = typeof start[name] === "string" ? text : text === "true" || Number(text);
    }
    return start;
  }

  draw() {
    const params = this.params;
    const mode = params.get("mode") ?? "hybrid";
    fill(
      this.element,
      el("fieldset", { class: "segments" }, el("legend", { class: "label" }, "Mode"),
        el("div", {}, MODES.map(([value, text]) => this.#radio(value, text, mode)))),
      labelled("Preset", choice(
        [["", "None (defaults)"], ...this.options.presets.map(({ name }) => [name, name])],
        params.get("prefs") ?? "",
        { onchange: (event) => this.#changePreset(event.target.value) },
      )),
      labelled("Reranker", choice(
        [["", "None"], ...this.options.rerankers.map((name) => [name, name])],
        params.get("rerank.reranker") ?? "",
        { onchange: (event) => this.#change({ "rerank.reranker": event.target.value }) },
      )),
      this.#weights(),
    );
  }

  #radio(value, text, chosen) {
    const input = el("input", {
      type: "radio", name: `mode-${this.side}`, value, checked: value === chosen,
      onchange: () => this.#change({ mode: value === "hybrid" ? "" : value }),
    });
    return el("label", {}, input, el("span", {}, text));
  }

  #weights() {
    const scoring = this.scoring();
    const method = scoring.blend === "rrf" ? "rrf/" : `linear/${scoring.normalize}`;
    this.note = el("p", { class: "hint", id: `fusion-note-${this.side}` });
    const reset = el("button", { type: "button", class: "quiet small", onclick: () => this.#reset() }, "Reset weights");
    return el(
      "details",
      { class: "panel weights", open: this.state.get("panel") === "weights", ontoggle: (event) => this.#toggle(event) },
      el("summary", {}, "Fusion and weights"),
      labelled("Fusion", choice(METHODS, method, { onchange: (event) => this.#changeMethod(event.target.value) })),
      LEGS.map((leg) => this.#slider(leg, scoring)),
      scoring.blend === "rrf" ? this.#ranksConstant(scoring) : null,
      this.note,
      reset,
    );
  }

  #slider(leg, scoring) {
    const [name, text] = SLIDERS[leg];
    const automatic = scoring[name] === null;
    const output = el("output", {}, automatic ? "auto" : Number(scoring[name]).toFixed(2));
    const input = el("input", {
      type: "range", min: 0, max: Math.max(MOST, scoring[name] ?? 0), step: 0.05, "aria-label": `Weight of ${text.toLowerCase()}`,
      "aria-valuetext": output.textContent,
      oninput: () => {
        output.textContent = Number(input.value).toFixed(2);
        input.setAttribute("aria-valuetext", output.textContent);
        this.#change({ ...this.#allWeights(), [`scoring.${name}`]: input.value }, true);
      },
    });
    input.value = automatic ? MOST / 2 : scoring[name];
    this.sliders[leg] = input;
    return el("div", { class: `slider ${leg}${automatic ? " automatic" : ""}` },
      el("span", { class: "label" }, el("i", { class: "dot", "aria-hidden": "true" }), text), input, output);
  }

  /** All of them: one alone would share a preset's keyword weight with the others. */
  #allWeights() {
    const legs = ["semantic", "text", "fuzzy"];
    return Object.fromEntries(legs.map((leg) => [`scoring.${SLIDERS[leg][0]}`, this.sliders[leg].value]));
  }

  #ranksConstant(scoring) {
    const input = el("input", { type: "number", min: 1, max: 1000, value: scoring.rrf_k,
      oninput: () => input.checkValidity() && this.#change({ "scoring.rrf_k": input.value }, true) });
    return labelled("Constant k", input);
  }

  /** Say where the order comes from. */
  say(text) {
    if (this.note) this.note.textContent = text;
  }

  #toggle(event) {
    const wanted = event.target.open ? "weights" : "";
    if ((this.state.get("panel") ?? "") !== wanted) {
      this.state.set({ panel: wanted }, { replace: true });
      this.onChange({ live: false });
    }
  }

  #changeMethod(value) {
    const [blend, normalize] = value.split("/");
    this.#change({ "scoring.blend": blend, "scoring.normalize": normalize });
    this.draw();
  }

  #changePreset(name) {
    this.#change({ ...this.#noScoring(), prefs: name });
    this.draw();
  }

  #reset() {
    this.#change(this.#noScoring());
    this.draw();
  }

  #noScoring() {
    const names = [...this.params.keys()].filter((name) => name.startsWith("scoring."));
    return Object.fromEntries(names.map((name) => [name, ""]));
  }

  #change(changes, live = false) {
    const named = Object.entries(changes).map(([name, value]) => [this.state.named(this.side, name), value]);
    this.state.set(Object.fromEntries(named), { replace: live });
    this.onChange({ live });
  }
}
