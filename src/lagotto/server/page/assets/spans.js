// Offsets of the server count characters; those of JavaScript strings count UTF-16 units.

/** From offsets in characters to offsets in a string. */
export function unitsOf(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (offset) => offset;
  const long = []; // the offsets, in characters, of those that take two units
  let offset = 0;
  for (const char of text) {
    if (char.length === 2) long.push(offset);
    offset += 1;
  }
  return (wanted) => wanted + countBelow(long, wanted);
}

function countBelow(sorted, limit) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Spans as [start, end] in the units of a string. */
export function inUnits(text, spans) {
  const at = unitsOf(text);
  return spans.map(([start, end]) => [at(start), at(end)]);
}

/** The words of a text that other texts were matched by, and those of the query. */
export function wordSpans(text, words) {
  if (!words.size) return [];
  const spans = [];
  for (const match of text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
    if (words.has(match[0].toLowerCase())) spans.push([match.index, match.index + match[0].length]);
  }
  return spans;
}

/** The nodes of a text with <mark> around its spans. */
export function marked(text, spans) {
  const nodes = [];
  let last = 0;
  for (const [start, end] of spans) {
    if (start > last) nodes.push(text.slice(last, start));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, end);
    nodes.push(mark);
    last = end;
  }
  nodes.push(text.slice(last));
  return nodes;
}

/** The part of a text with the most spans, about `size` units long, and the spans in it. */
export function excerpt(text, spans, size) {
  if (text.length <= size) return { text, spans, before: false, after: false };
  let best = 0;
  let most = -1;
  for (const [from] of spans) {
    const inside = spans.filter(([start, end]) => start >= from && end <= from + size).length;
    if (inside > most) [best, most] = [from, inside];
  }
  const last = Math.max(0, ...spans.filter(([, end]) => end <= best + size).map(([, end]) => end));
  const from = last <= size ? 0 : Math.max(0, Math.min(best - size / 5, text.length - size));
  const start = wordStart(text, Math.floor(from));
  const end = wordEnd(text, Math.min(text.length, start + size));
  return {
    text: text.slice(start, end),
    spans: spans.filter(([from, to]) => from >= start && to <= end).map(([from, to]) => [from - start, to - start]),
    before: start > 0,
    after: end < text.length,
  };
}

function wordStart(text, from) {
  if (from === 0) return 0;
  const space = text.indexOf(" ", from);
  return space < 0 || space > from + 40 ? from : space + 1;
}

function wordEnd(text, to) {
  if (to === text.length) return to;
  const space = text.lastIndexOf(" ", to);
  return space < to - 40 ? to : space;
}
