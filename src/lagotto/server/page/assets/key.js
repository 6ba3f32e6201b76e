// The key of this tab: entered once, kept until the tab is closed, sent to this server alone.

import { ask, key } from "./api.js";
import { byId, el, labelled } from "./dom.js";

const dialog = el("dialog", { class: "dialog narrow", "aria-labelledby": "key-title" });

/** Prepare the dialog and its button; `onChange` is called when there is another key. */
export function setUpKey(onChange) {
  const input = el("input", {
    type: "password", autocomplete: "off", spellcheck: "false", required: true, placeholder: "lgt_…", id: "key-input",
  });
  const problem = el("p", { class: "problem", role: "alert" });
  const forget = el("button", { type: "button", class: "quiet", onclick: () => change(null) }, "Forget it");
  const form = el(
    "form",
    { method: "dialog", onsubmit: (event) => { event.preventDefault(); enter(input, problem, change); } },
    el("h2", { id: "key-title" }, "Key"),
    el("p", {}, "For servers that ask for one. It stays in this tab, and is gone when you close it."),
    labelled("Key", input),
    problem,
    el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Use this key"), forget,
      el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel")),
  );
  dialog.append(form);
  document.body.append(dialog);
  byId("key-button").addEventListener("click", () => askForKey());
  show();

  function change(secret) {
    if (secret) key.set(secret);
    else key.forget();
    input.value = "";
    dialog.close();
    show();
    onChange();
  }

  function show() {
    const known = Boolean(key.get());
    byId("key-button").textContent = known ? "Key ✓" : "Key";
    byId("key-button").setAttribute("aria-label", known ? "Key: one is in use. Change it" : "Enter a key");
    forget.hidden = !known;
  }
}

/** Open the dialog. */
export function askForKey() {
  if (!dialog.open) dialog.showModal();
}

async function enter(input, problem, change) {
  const before = key.get();
  key.set(input.value.trim());
  try {
    await ask("/v1/options");
    problem.textContent = "";
    change(key.get());
  } catch (error) {
    if (before) key.set(before);
    else key.forget();
    problem.textContent = error.message;
  }
}
