// Texts as people read them: the marks of Markdown step back, and lines that were broken to fit a
// column flow on. Nothing is parsed: elements are put around pieces of the text.

import { el } from "./dom.js";
import { marked } from "./spans.js";

const HEADING = /^\s{0,3}#{1,6}\s+/;
const RULE = /^[\s|:=*_-]{3,}$/; // below the head of a table, or between two parts
const ROW = /^\s*\|.*\||\|\s*$/;
const OWN_LINE = /^\s*(?:#{1,6}\s|[-*+•]\s|\d+[.)]\s|[>|]|```|~~~)/; // never the rest of a sentence
const FENCE = /^\s*(?:```|~~~)/;
const FULL = 50; // characters of a line that may have been broken for want of room

/** An excerpt as lines: headings, rows and items of lists on their own, spans marked. */
export function summary(text, spans) {
  const lines = [];
  let open = null; // the paragraph or item that the next line may belong to
  let fenced = false;
  for (const { line, start } of linesOf(text)) {
    const inside = spans.filter(([from, to]) => from >= start && to <= start + line.length).map(([from, to]) => [from - start, to - start]);
    const mark = line.match(HEADING)?.[0].length ?? 0;
    const own = fenced || mark || ROW.test(line) || OWN_LINE.test(line);
    if (FENCE.test(line)) fenced = !fenced;
    if (!line.trim() || RULE.test(line) || FENCE.test(line)) open = null;
    else if (open && !own) open.append(" ", ...marked(line, inside));
    else {
      const shown = mark ? marked(line.slice(mark), moved(inside, -mark)) : ROW.test(line) ? cells(line, inside) : marked(line, inside);
      if (!shown.length) continue; // a row of empty cells
      const inner = /^\s{2,}\S/.test(line) && !mark;
      const block = el(mark ? "b" : "span", { class: inner ? "line inner" : "line" }, shown);
      lines.push(block);
      open = mark || ROW.test(line) ? null : block;
    }
  }
  return lines;
}

function cells(line, spans) {
  const nodes = [];
  let start = 0;
  for (const cell of line.split("|")) {
    const inside = spans.filter(([from, to]) => from >= start && to <= start + cell.length);
    if (cell.trim()) {
      if (nodes.length) nodes.push(el("span", { class: "sep" }, " · "));
      nodes.push(marked(cell, moved(inside, -start)));
    }
    start += cell.length + 1;
  }
  return nodes;
}

const moved = (spans, by) => spans.map(([start, end]) => [start + by, end + by]);

/** What of a whole text is not for the eye: [start, end, class], in order. Its length stays. */
export function quietParts(text) {
  const parts = [];
  let fenced = false;
  const lines = linesOf(text);
  lines.forEach(({ line, start }, index) => {
    const isFence = FENCE.test(line);
    if (!fenced && !isFence) {
      const mark = line.match(HEADING)?.[0].length ?? 0;
      if (mark) parts.push([start, start + mark, "syntax"]);
      else if (ROW.test(line) && RULE.test(line)) parts.push([start, start + line.length, "syntax"]);
      else if (ROW.test(line)) for (const { index: at } of line.matchAll(/\|/g)) parts.push([start + at, start + at + 1, "syntax"]);
      const next = lines[index + 1]?.line ?? "";
      if (!mark && line.length >= FULL && !/ {2}$/.test(line) && next.trim() && !ROW.test(line) && !OWN_LINE.test(next) && !/^(?: {4}|\t)/.test(next)) {
        const end = start + line.length;
        parts.push([end, end + 1 + next.match(/^\s*/)[0].length, "soft"]);
      }
    }
    if (isFence) fenced = !fenced;
  });
  return parts;
}

function linesOf(text) {
  let start = 0;
  return text.split("\n").map((line) => {
    const entry = { line, start };
    start += line.length + 1;
    return entry;
  });
}

/** The nodes of a text from `start` on, with its quiet parts. */
export function flowing(text, start, parts) {
  const nodes = [];
  let last = 0;
  for (const [from, to, kind] of parts) {
    const [begin, end] = [Math.max(from - start, last), Math.min(to - start, text.length)];
    if (end <= begin) continue;
    nodes.push(text.slice(last, begin), el("span", { class: kind }, text.slice(begin, end)));
    last = end;
  }
  nodes.push(text.slice(last));
  return nodes;
}
