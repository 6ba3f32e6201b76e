// The search view: the query, its settings, and the results of one side or of two.

import { ask, Latest } from "./api.js";
import { showProblem } from "./app.js";
import { arrows } from "./compare.js";
import { announce, choice, debounced, el, fill, labelled } from "./dom.js";
import { Filters } from "./filters.js";
import { canFuse, refuse } from "./fusion.js";
import { judgedFor } from "./judge.js";
import { ResultList } from "./results.js";
import { Settings } from "./settings.js";
import { shareButton } from "./share.js";
import { State } from "./state.js";
import { WhyNot } from "./why_not.js";

const TYPING = 120; // milliseconds without a key before the search
const SETTLED = 350; // milliseconds without a move of a slider before the server is asked
const FIRST = 20;
const MOST_HIGHLIGHTED = 500; // results whose words the server looks up; the browser marks the others
const MORE = 5; // times as many results when the end of the list is near

/** Show the view. */
export async function show(main) {
  const view = new SearchView(main); // one can type before the rest is there
  const [options, { collections }] = await Promise.all([ask("/v1/options"), ask("/v1/collections")]);
  view.start(options, collections);
}

class SearchView {
  constructor(main) {
    this.state = new State();
    this.sides = [];
    this.input = el("input", {
      type: "search", id: "query", class: "query", placeholder: "Ask, or type words to look for", autocomplete: "off",
      spellcheck: "false", "aria-label": "Search", enterkeyhint: "search",
    });
    this.input.value = this.state.get("q") ?? "";
    this.columns = el("div", { class: "columns" });
    this.#draw(main);
    const typed = debounced(() => this.search(), TYPING);
    this.input.addEventListener("input", () => {
      this.state.set({ q: this.input.value }, { replace: true });
      typed();
    });
    if (!this.input.value) this.input.focus();
  }

  /** Show the settings, and search for what the address or the user says. */
  start(options, collections) {
    Object.assign(this, { options, collections });
    this.filters = new Filters(this.state, () => this.search());
    this.whyNot = new WhyNot(this.state);
    this.#arrange();
    addEventListener("popstate", () => this.#goBack());
    this.search();
  }

  #draw(main) {
    const form = el("form", { role: "search", class: "ask", onsubmit: (event) => { event.preventDefault(); this.search(); } }, this.input);
    this.aside = el("aside", { class: "side", "aria-label": "Settings of the search" });
    this.compareButton = el("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => this.#compare() }, "Compare");
    const tools = el("div", { class: "tools" }, this.compareButton, shareButton("retrieve", () => this.state.search("a")));
    fill(main, el("h1", { class: "unseen" }, "Search"),
      el("div", { class: "search-head" }, form, tools),
      el("div", { class: "with-side" }, this.aside, this.columns));
  }

  /** One column, or two with settings of their own. */
  #arrange() {
    const comparing = this.state.get("compare") === "1";
    this.compareButton.setAttribute("aria-pressed", String(comparing));
    this.columns.classList.toggle("two", comparing);
    this.sides = (comparing ? ["a", "b"] : ["a"]).map((side) => new Side(side, this));
    const narrow = matchMedia("(max-width: 60rem)").matches;
    const collection = labelled("Collection", choice(
      [["", "All"], ...this.collections.map(({ name, documents }) => [name, `${name} (${documents.toLocaleString()})`])],
      this.state.get("collection") ?? "",
      { onchange: (event) => { this.state.set({ collection: event.target.value }); this.filters.load(); this.whyNot.load(); this.search(); } },
    ));
    fill(this.aside, el("details", { class: "drawer", open: !narrow }, el("summary", {}, "Settings and filters"),
      el("div", { class: "drawer-body" }, collection, comparing ? null : this.sides[0].settings.element, this.filters.element, this.whyNot.element)));
    fill(this.columns, this.sides.map((side) => side.element));
  }

  #compare() {
    const comparing = this.state.get("compare") === "1";
    this.state.set({ compare: comparing ? "" : "1" });
    this.#arrange();
    this.search();
  }

  #goBack() {
    this.state.reload();
    this.input.value = this.state.get("q") ?? "";
    this.filters.draw();
    this.whyNot.draw();
    this.#arrange();
    this.search();
  }

  async search() {
    document.title = this.input.value ? `${this.input.value} – Lagotto` : "Lagotto";
    this.whyNot?.ask();
    await Promise.all(this.sides.map((side) => side.search()));
    this.compare();
  }

  /** Show how the ranks of the second side differ from those of the first. */
  compare() {
    if (this.sides.length === 2) arrows(this.sides[0].list, this.sides[1].list);
  }
}

/** What there is to search, before a search. */
function welcome(collections) {
  const documents = collections.reduce((sum, collection) => sum + collection.documents, 0);
  if (!documents) {
    return [el("p", { class: "large" }, "There are no documents yet."),
      el("p", {}, el("a", { href: "/documents" }, "Add files"), " here, or run ", el("code", {}, "lagotto add FOLDER"), ".")];
  }
  const shown = collections.length === 1 ? "1 collection" : `${collections.length.toLocaleString()} collections`;
  return [
    el("p", { class: "large" }, `${documents.toLocaleString()} ${documents === 1 ? "document" : "documents"} in ${shown}`),
    el("p", {}, "Results come while you type. Each one says by which leg it was found, and why it has its rank."),
  ];
}

/** One list of results with its settings. */
class Side {
  constructor(side, view) {
    this.side = side;
    this.view = view;
    this.latest = new Latest();
    this.answer = null;
    this.settings = new Settings(side, view.options, view.state, ({ live }) => this.#changed(live));
    this.status = el("p", { class: "status", role: "status" });
    this.notes = el("div", { class: "notes" });
    this.blank = el("div", { class: "empty-state" });
    this.list = new ResultList({
      queryOf: () => view.input.value,
      mayJudge: view.options.scopes.includes("write"),
      more: () => this.#more(),
    });
    this.settled = debounced(() => this.search(), SETTLED);
    this.judged = debounced(() => this.#judged(), SETTLED);
    const comparing = view.state.get("compare") === "1";
    const head = comparing ? [el("h2", {}, side === "a" ? "A" : "B"), this.settings.element] : [el("h2", { class: "unseen" }, "Results")];
    this.element = el("section", { class: `column side-${side}`, "aria-label": comparing ? `Results ${side.toUpperCase()}` : "Results" },
      head, this.status, this.notes, this.blank, this.list.element);
  }

  /** The query string of the request. */
  params(count) {
    const params = this.view.state.search(this.side);
    const tuning = this.view.state.get("panel") === "weights" || this.view.state.get("compare") === "1";
    params.set("top_k", count);
    if (count <= MOST_HIGHLIGHTED) params.set("highlight", "true");
    if (tuning) params.set("explain", "candidates");
    return params;
  }

  async search() {
    this.settled.cancel();
    if (!this.view.input.value.trim()) return this.#clear();
    await this.#ask(FIRST);
  }

  async #ask(count) {
    const started = performance.now();
    this.element.setAttribute("aria-busy", "true");
    let answer;
    try {
      answer = await this.latest.ask(`/v1/retrieve?${this.params(count)}`);
    } catch (error) {
      this.list.show([]);
      this.status.textContent = "";
      showProblem(error, this.notes);
      fill(this.blank);
      this.element.removeAttribute("aria-busy");
      return;
    }
    if (answer === null) return; // a later search took its place
    this.element.removeAttribute("aria-busy");
    this.answer = answer;
    this.list.show(answer.hits, { grown: count > MOST_HIGHLIGHTED, mayGrow: answer.hits.length === count && count < this.view.options.max_top_k });
    this.#describe(performance.now() - started);
    this.settings.say(this.#canTune() ? "Moving a weight fuses again in the browser, at once." : "");
    performance.mark("lagotto-results");
    if (this.list.mayJudge && answer.hits.length) this.judged();
  }

  async #judged() {
    const judged = await judgedFor(this.answer?.query ?? "");
    if (judged.size) this.list.showJudged(judged);
  }

  async #more() {
    const wanted = Math.min(this.view.options.max_top_k, this.list.length * MORE);
    if (wanted > this.list.length && this.answer) {
      await this.#ask(wanted);
      this.view.compare();
    }
  }

  #describe(milliseconds) {
    const { hits, degraded, stats } = this.answer;
    const count = hits.length === 1 ? "1 passage" : `${hits.length.toLocaleString()} passages`;
    this.status.textContent = `${hits.length ? count : "Nothing found"} · ${Math.round(milliseconds)} ms`;
    fill(this.blank, hits.length ? null : el("p", {}, this.#advice()));
    announce(this.status.textContent);
    const corrected = Object.entries(stats.corrections);
    fill(this.notes,
      corrected.map(([word, terms]) => el("p", { class: "notice" }, `No document has “${word}”: searched for ${terms.slice(0, 3).join(", ")} as well.`)),
      degraded.map((note) => el("p", { class: "notice" }, note)));
  }

  /** What may help if nothing was found. */
  #advice() {
    const narrowing = ["filters", "collection", "min_score"].filter((name) => this.view.state.get(name));
    return narrowing.length
      ? "Nothing in the base matches this with the filters and the collection that are set. Take one of them away?"
      : "Nothing in the base matches this. Try other words, or the mode Hybrid, which also finds what is worded otherwise.";
  }

  #clear() {
    this.latest.cancel();
    this.answer = null;
    this.list.show([]);
    fill(this.notes);
    this.status.textContent = "";
    this.element.removeAttribute("aria-busy");
    fill(this.blank, welcome(this.view.collections));
  }

  #canTune() {
    return this.answer !== null && canFuse(this.answer, this.settings.scoring());
  }

  /** While a slider moves, the browser fuses; when it rests, the server is asked as well. */
  #changed(live) {
    if (this.side === "a") this.view.whyNot.ask();
    if (!live) return void this.search().then(() => this.view.compare());
    if (this.#canTune()) {
      this.list.show(refuse(this.answer, this.settings.scoring()), { fused: true });
      this.view.compare();
      performance.mark("lagotto-fused");
    }
    this.settled();
  }
}
