// A document, open at the passage that was cited, with its neighbours and its outline.

import { ask } from "./api.js";
import { copy, el, fill } from "./dom.js";
import { documentAddress, whereabouts } from "./locations.js";
import { flowing, quietParts } from "./prose.js";
import { unitsOf } from "./spans.js";
import { State } from "./state.js";

const MOST_FLOWING = 500_000; // characters of a text whose lines are looked at one by one

/** Show the view: the document of a citation, or one by collection and id. */
export async function show(main) {
  const state = new State();
  const cite = state.get("cite");
  const cited = cite ? await ask(`/v1/resolve?${new URLSearchParams({ citation: cite })}`) : null;
  const [collection, id] = cite ? namesIn(cite) : [state.get("collection") ?? "default", state.get("id") ?? ""];
  const path = `${encodeURIComponent(id)}?${new URLSearchParams({ collection })}`;
  const [doc, { chunks }] = await Promise.all([ask(`/v1/documents/${path}`), ask(`/v1/chunks/${path}`)]);
  document.title = `${doc.title || doc.source || doc.id} – Lagotto`;
  const around = neighbours(chunks, cited?.passage);
  const text = new DocumentText(doc, cited?.passage, around);
  fill(main,
    el("div", { class: "with-side reading" },
      el("aside", { class: "side", "aria-label": "Outline" }, outline(doc, text), facts(doc)),
      el("article", { class: "reader" }, head(doc, cited, cite), pager(around, doc), text.element)));
  text.scrollToCited();
}

function namesIn(cite) {
  const [names] = cite.split("#");
  return names.split("/").map(decodeURIComponent);
}

function head(doc, cited, cite) {
  const twin = cite
    ? `/v1/resolve?${new URLSearchParams({ citation: cite })}`
    : `/v1/documents/${encodeURIComponent(doc.id)}?${new URLSearchParams({ collection: doc.collection })}`;
  const where = { ...cited?.passage, document_source: doc.source, document_title: doc.title, collection: doc.collection };
  const button = cite ? el("button", { type: "button", class: "quiet small", onclick: () => copy(cite, button) }, "Copy citation") : null;
  return el("header", {},
    el("h1", {}, doc.title || doc.source || doc.id),
    whereabouts(where),
    el("p", { class: "acts" }, button, el("a", { href: twin }, "JSON")),
    cited?.changed ? changed(cited) : null);
}

function changed({ passage }) {
  const now = passage
    ? "What is marked is the text at that position now."
    : "The cited position is no longer in the document.";
  return el("div", { class: "notice bad", role: "alert" }, el("strong", {}, "This text has changed since it was cited. "), now);
}

/** The chunks before and after a passage; those of the level that searches find. */
function neighbours(chunks, passage) {
  if (!passage) return {};
  const flat = chunks.filter(({ level }) => level !== "parent").sort((a, b) => a.start - b.start);
  return {
    before: flat.filter(({ end, start }) => end <= passage.start || start < passage.start).at(-1),
    after: flat.find(({ start, end }) => start >= passage.end || (end > passage.end && start > passage.start)),
  };
}

function pager({ before, after }, doc) {
  if (!before && !after) return null;
  const to = (chunk, text, rel) => chunk
    ? el("a", { href: documentAddress({ ...chunk, collection: doc.collection, document_id: doc.id }), rel }, text) : el("span");
  return el("nav", { class: "pager", "aria-label": "Neighbouring passages" }, to(before, "← Passage before", "prev"), to(after, "Passage after →", "next"));
}

function outline({ headings, pages }, text) {
  const entries = headings.length
    ? headings.map(({ title, level, start }) => [title, level, start])
    : pages.map(({ number, label, start }) => [`Page ${label ?? number}`, 1, start]);
  if (!entries.length) return null;
  return el("nav", { class: "outline", "aria-label": "Outline" }, el("h2", {}, "Outline"),
    el("ol", {}, entries.map(([title, level, start]) =>
      el("li", { class: `level-${Math.min(level, 4)}` }, el("a", { href: `#at-${start}`, onclick: () => text.reveal(start) }, title)))));
}

function facts(doc) {
  const rows = [["Collection", doc.collection], ["Id", doc.id], ["Kind", doc.kind], ["Language", doc.language], ["Source", doc.source],
    ...Object.entries(doc.metadata).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])];
  return el("details", { class: "panel facts" }, el("summary", {}, "About this document"),
    el("dl", {}, rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

/** The text, cut where a heading, a page, the cited passage or a neighbour starts or ends. */
class DocumentText {
  constructor(doc, passage, { before, after }) {
    this.element = el("div", { class: "document-text", lang: doc.language, dir: "auto", tabindex: "-1" });
    const at = unitsOf(doc.text);
    const span = (region) => (region ? [at(region.start), at(region.end)] : null);
    const spans = { cited: span(passage), before: span(before), after: span(after) };
    const anchors = new Map([...doc.headings, ...doc.pages].map(({ start }) => [at(start), start]));
    const headings = new Map(doc.headings.map(({ start, level }) => [at(start), level]));
    const pages = new Map(doc.pages.map(({ start, number, label }) => [at(start), label ?? number]));
    const cuts = new Set([0, doc.text.length, ...anchors.keys(), ...Object.values(spans).filter(Boolean).flat()]);
    for (const start of headings.keys()) cuts.add(lineEnd(doc.text, start));
    const sorted = [...cuts].sort((a, b) => a - b);
    const ends = new Set([...headings.keys()].map((start) => lineEnd(doc.text, start)));
    const flows = ([from, , kind]) => kind !== "soft" || !(ends.has(from) || anchors.has(from + 1));
    const isProse = doc.text.length < MOST_FLOWING && doc.kind !== "code";
    const quiet = isProse ? quietParts(doc.text).filter(flows) : [];
    let reached = 0; // the first quiet part that may be in the next piece
    sorted.slice(0, -1).forEach((start, index) => {
      if (pages.has(start)) this.element.append(el("span", { class: "page-mark" }, `Page ${pages.get(start)}`));
      const end = sorted[index + 1];
      while (reached < quiet.length && quiet[reached][1] <= start) reached += 1;
      let after = reached;
      while (after < quiet.length && quiet[after][0] < end) after += 1;
      this.element.append(piece(flowing(doc.text.slice(start, end), start, quiet.slice(reached, after)), {
        anchor: anchors.get(start), level: headings.get(start), kind: kindOf(start, spans),
      }));
    });
  }

  scrollToCited() {
    this.element.querySelector("mark")?.scrollIntoView({ block: "center" });
  }

  reveal(start) {
    this.element.querySelector(`#at-${start}`)?.scrollIntoView();
  }
}

function kindOf(start, { cited, before, after }) {
  const inside = (span) => span && start >= span[0] && start < span[1];
  if (inside(cited)) return "cited";
  return inside(before) || inside(after) ? "near" : "";
}

function piece(nodes, { anchor, level, kind }) {
  const id = anchor === undefined ? null : `at-${anchor}`;
  const inner = kind === "cited" ? el("mark", { class: "cited" }, nodes) : kind === "near" ? el("span", { class: "near" }, nodes) : nodes;
  if (level) return el("span", { class: `heading level-${Math.min(level, 4)}`, role: "heading", "aria-level": Math.min(level + 1, 6), id }, inner);
  return el("span", { id }, inner);
}

function lineEnd(text, start) {
  const end = text.indexOf("\n", start);
  return end < 0 ? text.length : end;
}
