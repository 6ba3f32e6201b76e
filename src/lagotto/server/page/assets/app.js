// The start of every view: the address says which one.

import { byId, el, fill } from "./dom.js";
import { askForKey, setUpKey } from "./key.js";

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
  const { show } = await VIEWS[location.pathname]();
  try {
    await show(byId("main"));
  } catch (error) {
    showProblem(error);
  }
}

setUpKey(() => location.reload());
start();
