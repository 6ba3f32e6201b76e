// All state is in the address, under the names that the API has for it: the query string of a view
// is that of its JSON twin, but for what concerns the page alone.

const OF_PAGE = ["panel", "compare", "why"];
const SIDE_B = "b.";

/** The parameters of the address. */
export class State {
  constructor() {
    this.params = new URLSearchParams(location.search);
  }

  get(name) {
    return this.params.get(name);
  }

  /** Set or, with an empty value, remove parameters. */
  set(changes, { replace = false } = {}) {
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") this.params.delete(name);
      else this.params.set(name, value);
    }
    const address = `${location.pathname}${this.params.size ? `?${this.params}` : ""}`;
    history[replace ? "replaceState" : "pushState"](null, "", address);
  }

  /** Read the address again, after the browser went back. */
  reload() {
    this.params = new URLSearchParams(location.search);
  }

  /** The parameters of a search: side A, or what B shares with it and has of its own. */
  search(side = "a") {
    const params = new URLSearchParams();
    for (const [name, value] of this.params) {
      if (!OF_PAGE.includes(name) && !name.startsWith(SIDE_B) && (side === "a" || isShared(name))) {
        params.set(name, value);
      }
    }
    if (side === "b") {
      for (const [name, value] of this.params) {
        if (name.startsWith(SIDE_B)) params.set(name.slice(SIDE_B.length), value);
      }
    }
    return params;
  }

  /** The names of parameters of one side. */
  named(side, name) {
    return side === "b" && !isShared(name) ? SIDE_B + name : name;
  }
}

const isShared = (name) => ["q", "filters", "collection"].includes(name);

const SETTING = /^[a-z]\w*(\.[a-z]\w*)*$/; // what else a link may bring is no name of a setting

/** A query string as the body of the same request, as the server reads it. */
export function bodyOf(params) {
  const body = {};
  for (const [name, value] of params) {
    if (!SETTING.test(name)) continue;
    const path = (name === "q" ? "query" : name).split(".");
    const last = path.pop();
    let group = body;
    for (const part of path) group = inner(group, part);
    if (isGroup(group)) group[last] = plain(value, last);
  }
  return body;
}

const isGroup = (value) => typeof value === "object" && value !== null;

/** A group in a group; nothing that objects have of their own, like a constructor. */
function inner(group, name) {
  if (isGroup(group) && !Object.hasOwn(group, name)) group[name] = {};
  return group?.[name];
}

const TEXTS = ["query", "collection", "citation", "document", "prefs"]; // whatever they look like

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the server says what is wrong with it
  }
}

function plain(value, name) {
  if (TEXTS.includes(name)) return value;
  if (/^[[{]/.test(value)) return parsed(value) ?? value;
  if (value === "true" || value === "false") return value === "true";
  return value.trim() !== "" && Number.isFinite(Number(value)) ? Number(value) : value;
}
