// The same request elsewhere: as a link, curl, Python, a call of the MCP server, or plain JSON.

import { key } from "./api.js";
import { copy, el, fill } from "./dom.js";
import { bodyOf } from "./state.js";

const MOST_TOKENS = 9000; // of an answer of the MCP server

const dialog = el("dialog", { class: "dialog", "aria-labelledby": "share-title" });

/** A button that opens the dialog for a verb with the parameters of a view. */
export function shareButton(verb, paramsOf) {
  return el("button", { type: "button", class: "quiet", onclick: () => open(verb, paramsOf()) }, "Use elsewhere");
}

function open(verb, params) {
  if (!dialog.isConnected) document.body.append(dialog);
  const twin = `/v1/${verb}?${params}`;
  const body = bodyOf(params);
  fill(dialog, el("h2", { id: "share-title" }, "Use elsewhere"),
    el("p", {}, el("a", { href: twin }, "JSON of this view"), key.get() ? " (needs the key in a header)" : ""),
    block("Link to this page", location.href),
    block("curl", curl(verb, body)),
    block("Python", python(verb, body)),
    block("MCP", mcp(verb, body)),
    el("div", { class: "buttons" }, el("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close")));
  dialog.showModal();
}

function block(name, text) {
  const button = el("button", { type: "button", class: "quiet small", "aria-label": `Copy as ${name}`, onclick: () => copy(text, button) }, "Copy");
  return el("section", { class: "code" }, el("header", {}, el("h3", {}, name), button),
    el("pre", { tabindex: "0", "data-as": name }, text));
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a command for a shell. */
export function curl(verb, body) {
  const authorisation = key.get() ? ` -H "Authorization: Bearer $LAGOTTO_API_KEY"` : "";
  return `curl -s ${location.origin}/v1/${verb}${authorisation} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
}

/** The request as Python. */
export function python(verb, { query, ...settings }) {
  const args = Object.entries(settings).map(([name, value]) => `, ${name}=${literal(value)}`).join("");
  const call = `kb.${verb}(${literal(query ?? "")}${args})`;
  const use = verb === "context" ? `print(${call}.context_pack)` : `for hit in ${call}:\n    print(f"{hit.score:.3f}  {hit.citation}")`;
  return `import lagotto\n\nkb = lagotto.open("${location.origin}")\n${use}`;
}

function literal(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item)}`).join(", ")}}`;
  return JSON.stringify(value);
}

/** The call of a tool of `lagotto mcp`. */
export function mcp(verb, body) {
  const { query, top_k, collection, filters, max_tokens: budget } = body;
  const known = { query, top_k, collection, filters, max_tokens: budget && Math.min(budget, MOST_TOKENS) };
  const args = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined));
  return JSON.stringify({ name: verb === "context" ? "context" : "search", arguments: args }, null, 2);
}
