// Where a passage is: its source, page and section, and the address that opens it.

import { el } from "./dom.js";

/** The address of a document, open at the passage of a hit or citation. */
export function documentAddress(hit) {
  return `/document?${new URLSearchParams({ cite: hit.key ?? plainKey(hit) })}`;
}

/** The key of a passage without the hash of its text, which would tell whether it has changed. */
export function plainKey({ collection, document_id: id, start, end }) {
  return `${encodeURIComponent(collection)}/${encodeURIComponent(id)}#${start}-${end}`;
}

/** The address of a document as a whole. */
export function wholeAddress(collection, id) {
  return `/document?${new URLSearchParams({ collection, id })}`;
}

/** Source, page, section and collection in one line. */
export function whereabouts(hit) {
  const parts = [
    hit.document_source && hit.document_source !== hit.document_title ? source(hit.document_source) : null,
    range("page", "pages", hit.pages),
    range("line", "lines", hit.lines),
    range("row", "rows", hit.row_range),
    section(hit),
    hit.collection && hit.collection !== "default" ? el("span", { class: "tag" }, hit.collection) : null,
  ].filter(Boolean);
  return el("p", { class: "where" }, parts.flatMap((part, index) => (index ? [el("span", { class: "sep", "aria-hidden": "true" }, " · "), part] : [part])));
}

/** The headings of a passage; the first is often the title, which stands above. */
function section({ heading_path: path = [], document_title: title }) {
  const shown = path[0] === title ? path.slice(1) : path;
  return shown.length ? el("span", { class: "section" }, shown.join(" › ")) : null;
}

function source(name) {
  if (/^https?:\/\//i.test(name)) return el("a", { href: name, rel: "noopener noreferrer", target: "_blank" }, name);
  const short = name.split("/").slice(-2).join("/");
  return el("span", { class: "source", title: name }, short.length < name.length ? `…/${short}` : name);
}

function range(one, several, numbers) {
  if (!numbers) return null;
  const [first, last] = numbers;
  return el("span", {}, first === last ? `${one} ${first}` : `${several} ${first}–${last}`);
}
