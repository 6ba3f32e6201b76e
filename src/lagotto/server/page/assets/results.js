// A list of hits. Long lists are shown in blocks; those far from the screen are taken out again.

import { breakdownTable, contributions } from "./breakdown.js";
import { copy, el, fill, vary } from "./dom.js";
import { judgeButtons } from "./judge.js";
import { documentAddress, plainKey, whereabouts } from "./locations.js";
import { summary } from "./prose.js";
import { excerpt, inUnits, marked, wordSpans } from "./spans.js";

const BLOCK = 50; // hits of one block
const AT_ONCE = 4; // hits that are drawn before anything else
const SHOWN = 380; // characters of a passage before it is opened
const NEAR = "1500px"; // how far from the screen blocks are kept

/** The hits of one search, best first. */
export class ResultList {
  constructor({ queryOf, mayJudge, more }) {
    Object.assign(this, { queryOf, mayJudge, more });
    this.hits = [];
    this.words = new Set();
    this.moves = new Map();
    this.element = el("div", { class: "results", role: "feed", "aria-label": "Results", hidden: true });
    this.end = el("div", { class: "end" });
    this.watch = new IntersectionObserver((seen) => seen.forEach((entry) => this.#seen(entry)), { rootMargin: NEAR });
  }

  get length() {
    return this.hits.length;
  }

  /** Show hits instead of those before; what is the same stays as it is. */
  show(hits, { mayGrow = false, fused = false, grown = false } = {}) {
    if (!fused && !grown) this.words = matchedWords(hits, this.queryOf());
    this.hits = hits;
    this.element.hidden = !hits.length; // a feed without articles is none
    this.moves = new Map();
    this.watch.disconnect();
    const blocks = [];
    for (let first = 0; first < hits.length; first += BLOCK) blocks.push(this.#block(first));
    fill(this.element, blocks, mayGrow ? this.end : null);
    blocks.slice(0, 1).forEach((block) => this.#draw(block, fused ? BLOCK : AT_ONCE));
    for (const block of blocks) this.watch.observe(block);
    if (mayGrow && (fused || hits.length <= AT_ONCE)) this.watch.observe(this.end);
  }

  /** Show how far each hit moved; `moves` has a text and a class by chunk. */
  showMoves(moves) {
    this.moves = moves;
    for (const row of this.element.querySelectorAll("article")) this.#move(row, row.dataset.chunk);
  }

  /** Press the thumbs of hits that were judged before. */
  showJudged(judged) {
    const byChunk = new Map(this.hits.map((hit) => [hit.chunk_id, hit]));
    for (const hit of this.hits) hit.judged = judged.get(plainKey(hit)) ?? hit.judged ?? null;
    for (const row of this.element.querySelectorAll("article")) {
      row.querySelector(".thumbs")?.press(byChunk.get(row.dataset.chunk)?.judged ?? null);
    }
  }

  #block(first) {
    const block = el("div", { class: "block" });
    block.first = first;
    const count = Math.min(BLOCK, this.hits.length - first);
    return vary(block, "--rows", count);
  }

  #seen({ target, isIntersecting }) {
    if (target === this.end) {
      if (isIntersecting) this.more();
    } else if (isIntersecting) this.#draw(target);
    else if (target.childElementCount && this.hits.length > 2 * BLOCK) this.#empty(target);
  }

  /** Draw a block: its first hits now, and those that no screen has room for in the next frame. */
  #draw(block, now = BLOCK) {
    if (block.childElementCount) return;
    block.classList.remove("empty");
    const hits = this.hits.slice(block.first, block.first + BLOCK);
    fill(block, hits.slice(0, now).map((hit) => this.#row(hit)));
    if (hits.length <= now) return this.element.removeAttribute("aria-busy");
    this.element.setAttribute("aria-busy", "true");
    requestAnimationFrame(() => setTimeout(() => {
      if (!block.isConnected) return;
      block.append(...hits.slice(now).map((hit) => this.#row(hit)));
      this.element.removeAttribute("aria-busy");
      if (this.end.isConnected) this.watch.observe(this.end); // not before: it was near the screen
    }));
  }

  #empty(block) {
    vary(block, "--height", `${block.offsetHeight}px`);
    block.classList.add("empty");
    fill(block);
  }

  #row(hit) {
    const id = `hit-${hit.chunk_id}-${hit.rank}`;
    const row = el(
      "article",
      { class: "hit", "data-chunk": hit.chunk_id, "aria-labelledby": id, "aria-posinset": hit.rank, "aria-setsize": this.hits.length, tabindex: "-1" },
      el("header", {},
        el("span", { class: "rank" }, el("span", { class: "unseen" }, "Rank "), String(hit.rank)),
        el("h3", { id }, el("a", { href: documentAddress(hit) }, hit.document_title || hit.document_source || hit.document_id)),
        el("span", { class: "score", title: "Score, from 0 to 1" }, hit.score.toFixed(3))),
      whereabouts(hit),
      this.#passage(hit),
      contributions(hit),
      this.#foot(hit),
    );
    this.#move(row, hit.chunk_id);
    return row;
  }

  #passage(hit) {
    const spans = hit.highlights?.length ? inUnits(hit.content, hit.highlights) : wordSpans(hit.content, this.words);
    const cut = excerpt(hit.content, spans, SHOWN);
    const lines = summary(cut.text, cut.spans);
    if (cut.before) lines.at(0)?.prepend("… ");
    if (cut.after) lines.at(-1)?.append(" …");
    const text = el("p", { class: "passage", dir: "auto" }, lines);
    if (!cut.before && !cut.after) return text;
    const whole = el("button", { type: "button", class: "link", "aria-expanded": "false", onclick: () => {
      fill(text, marked(hit.content, spans));
      text.classList.add("whole");
      whole.remove();
    } }, "Whole passage");
    return el("div", {}, text, whole);
  }

  #foot(hit) {
    const why = el("details", { class: "why", ontoggle: () => {
      if (why.open && why.childElementCount === 1) why.append(breakdownTable(hit));
    } }, el("summary", {}, "Why this result"));
    const cite = el("button", { type: "button", class: "link", onclick: () => copy(hit.key, cite), hidden: !hit.key }, "Copy citation");
    return el("footer", {}, why, el("span", { class: "acts" }, cite, this.mayJudge ? judgeButtons(hit, this.queryOf()) : null));
  }

  #move(row, chunk) {
    row.querySelector(".move")?.remove();
    const move = this.moves.get(chunk);
    if (move) row.querySelector(".rank").append(el("span", { class: `move ${move.kind}`, title: move.title }, move.text, el("span", { class: "unseen" }, ` (${move.title})`)));
  }
}

/** The words by which hits matched, so that other passages can be marked as well. */
function matchedWords(hits, query) {
  const words = new Set(query.toLowerCase().match(/[\p{L}\p{N}\p{M}]{3,}/gu) ?? []);
  for (const { content, highlights } of hits.slice(0, 50)) {
    for (const [start, end] of inUnits(content, highlights ?? [])) words.add(content.slice(start, end).toLowerCase());
  }
  return words;
}
