// The start of every view: the address says which one.

import { byId, el, fill } from "./dom.js";
import { askForKey, setUpKey } from "./key.js";
import { State } from "./state.js";

const VIEWS = {
  "/": () => import("./search.js"),
  "/context": () => import("./context.js"),
  "/document": () => import("./document.js"),
  "/documents": () => import("./documents.js"),
};

/** Show what went wrong, and ask for a key where one is missing. */
export function showProblem(error, where = byId("main")) {
  if (error.status === 401) askForKey();
  fill(
    where,
    el("div", { class: "notice bad", role: "alert" }, el("strong", {}, error.title ?? "Something went wrong"), " ", error.message),
  );
}

async function start() {
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === location.pathname) link.setAttribute("aria-current", "page");
  }
  document.querySelector("header nav").addEventListener("click", carrySearch);
  const { show } = await VIEWS[location.pathname]();
  try {
    await show(byId("main"));
  } catch (error) {
    showProblem(error);
  }
}

/** Let the other view of a search show the same search. */
function carrySearch({ target }) {
  if (!["/", "/context"].includes(target.dataset?.view) || !["/", "/context"].includes(location.pathname)) return;
  const params = new State().search();
  for (const name of ["max_tokens", "format"]) params.delete(name);
  target.search = params.toString();
}

setUpKey(() => location.reload());
start();
