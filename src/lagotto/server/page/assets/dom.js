// Elements from data. Text is always text: nothing here, or anywhere on the page, parses markup.

const SAFE_ADDRESS = /^(?:\/(?!\/)|\?|#|https?:\/\/)/i;

/** An element. Names with `on` are listeners; `href` is left out unless it is a web address. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href") setAddress(element, String(value));
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function setAddress(element, address) {
  if (SAFE_ADDRESS.test(address)) element.setAttribute("href", address);
}

export const byId = (id) => document.getElementById(id);

/** Show a list of nodes instead of what was there. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** A label with a control inside, so that a click on either reaches it. */
export function labelled(text, control, properties = {}) {
  return el("label", { class: "field", ...properties }, el("span", { class: "label" }, text), control);
}

/** A select with options [value, text]. */
export function choice(options, chosen, properties = {}) {
  const select = el("select", properties, options.map(([value, text]) => el("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
  return select;
}

/** Set a CSS variable; the policy of the page has no room for style attributes. */
export function vary(element, name, value) {
  element.style.setProperty(name, value);
  return element;
}

/** Copy text, and say so on the button for a moment. */
export async function copy(text, button) {
  await navigator.clipboard.writeText(text);
  const before = button.textContent;
  button.textContent = "Copied";
  announce("Copied");
  setTimeout(() => (button.textContent = before), 1200);
}

/** Tell those who listen instead of looking. */
export function announce(text) {
  byId("announcements").textContent = text;
}

/** Call with the latest arguments once nothing has called for a while. */
export function debounced(call, milliseconds) {
  let waiting;
  const later = (...values) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => call(...values), milliseconds);
  };
  later.cancel = () => clearTimeout(waiting);
  return later;
}
