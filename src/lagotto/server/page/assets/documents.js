// The documents of the base: add files, watch their tasks, list and remove documents.

import { ask, upload } from "./api.js";
import { announce, choice, el, fill, labelled, vary } from "./dom.js";
import { wholeAddress } from "./locations.js";
import { State } from "./state.js";

const AT_ONCE = 2; // uploads
const OFTEN = 700; // milliseconds between two looks at tasks that are not done
const DONE = ["succeeded", "failed", "cancelled"];
const PAGE = 50;

/** Show the view. */
export async function show(main) {
  const [options, { collections }] = await Promise.all([ask("/v1/options"), ask("/v1/collections")]);
  const state = new State();
  const list = new DocumentList(state, collections, options.scopes.includes("write"));
  const writes = options.scopes.includes("write");
  const tasks = writes ? new Tasks(() => list.load()) : null;
  fill(main, el("h1", {}, "Documents"),
    writes ? el("div", { class: "halves" }, uploads(collections, tasks), tasks.element)
      : el("p", { class: "notice" }, "This key can read. To add documents, use one with the scope write."),
    list.element);
  addEventListener("popstate", () => list.goBack());
  await Promise.all([list.load(), tasks?.load()]);
}

function uploads(collections, tasks) {
  const names = el("datalist", { id: "collections" }, collections.map(({ name }) => el("option", { value: name })));
  const collection = el("input", { type: "text", value: "default", list: "collections", spellcheck: "false" });
  const input = el("input", { type: "file", multiple: true, class: "unseen", id: "files", onchange: () => send([...input.files]) });
  const rows = el("ul", { class: "files", "aria-label": "Files being sent" });
  const zone = el("label", { class: "drop", for: "files" }, el("span", {}, el("strong", {}, "Choose files"), " or drop them here"),
    el("span", { class: "hint" }, "PDF, Office, HTML, Markdown, mail, code and more. Sending a file again replaces it."));
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => { event.preventDefault(); zone.classList.remove("over"); send([...event.dataTransfer.files]); });
  return el("section", { "aria-labelledby": "add" }, el("h2", { id: "add" }, "Add files"),
    labelled("Collection", collection), names, input, zone, rows);

  async function send(files) {
    input.value = "";
    const waiting = files.map((file) => [file, fileRow(file, rows)]);
    const work = async () => {
      while (waiting.length) {
        const [file, row] = waiting.shift();
        await sendOne(file, row, collection.value.trim(), tasks);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }
}

function fileRow(file, rows) {
  const bar = el("progress", { max: 1, value: 0, "aria-label": `Progress of ${file.name}` });
  const status = el("span", { class: "hint" }, "waiting");
  rows.prepend(el("li", {}, el("span", { class: "name" }, file.name), bar, status));
  return { bar, status };
}

async function sendOne(file, { bar, status }, collection, tasks) {
  try {
    const task = await upload(file, { collection }, (share) => {
      bar.value = share;
      status.textContent = share < 1 ? `${Math.round(100 * share)} % sent` : "sent";
    });
    bar.removeAttribute("value"); // how long reading and embedding take is not known
    status.textContent = "being added";
    const done = await tasks.finished(task.id);
    bar.value = 1;
    status.textContent = outcome(done);
  } catch (error) {
    bar.value = 0;
    status.textContent = error.message;
    status.classList.add("problem");
  }
  announce(`${file.name}: ${status.textContent}`);
}

function outcome({ state, report, error }) {
  const { added, updated, unchanged, failures } = report;
  const parts = [added && `${added} added`, updated && `${updated} updated`, unchanged && `${unchanged} unchanged`, failures.length && failures[0].reason];
  return parts.filter(Boolean).join(", ") || error || state;
}

/** The tasks of this key, the latest first; looked at again while one is not done. */
class Tasks {
  constructor(onDone) {
    this.onDone = onDone;
    this.body = el("ul", { class: "tasks" });
    this.waiting = new Map();
    this.element = el("section", { "aria-labelledby": "tasks" }, el("h2", { id: "tasks" }, "Tasks"), this.body);
  }

  /** The task once it is done. */
  finished(id) {
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.load();
    });
  }

  async load() {
    clearTimeout(this.next);
    const { tasks } = await ask("/v1/tasks?limit=20");
    fill(this.body, tasks.length ? tasks.map((task) => this.#row(task)) : el("li", { class: "hint" }, "None yet."));
    for (const task of tasks.filter(({ state }) => DONE.includes(state))) {
      if (!this.waiting.has(task.id)) continue;
      this.waiting.get(task.id)(task);
      this.waiting.delete(task.id);
      this.onDone();
    }
    if (tasks.some(({ state }) => !DONE.includes(state))) this.next = setTimeout(() => this.load(), OFTEN);
  }

  #row(task) {
    const names = task.files.map(({ name }) => name).join(", ");
    const cancel = DONE.includes(task.state) ? null
      : el("button", { type: "button", class: "quiet small", "aria-label": `Cancel ${names}`, onclick: async () => { await ask(`/v1/tasks/${task.id}/cancel`, { method: "POST" }); this.load(); } }, "Cancel");
    return el("li", {}, el("span", { class: `state ${task.state}` }, task.state), el("span", { class: "name" }, names),
      el("span", { class: "hint" }, `${new Date(task.created_at * 1000).toLocaleTimeString()}${DONE.includes(task.state) ? ` · ${outcome(task)}` : ""}`), cancel);
  }
}

/** Documents by collection, a page at a time. */
class DocumentList {
  constructor(state, collections, writes) {
    Object.assign(this, { state, writes });
    this.rows = el("ul", { class: "documents" });
    this.more = el("button", { type: "button", class: "quiet", onclick: () => this.#next() }, "More");
    this.pick = choice([["", "All"], ...collections.map(({ name, documents }) => [name, `${name} (${documents.toLocaleString()})`])],
      state.get("collection") ?? "", { onchange: (event) => { state.set({ collection: event.target.value }); this.load(); } });
    this.twin = el("a", {}, "JSON");
    this.element = el("section", { class: "listing", "aria-labelledby": "listing" },
      el("header", {}, el("h2", { id: "listing" }, "In the base"), labelled("Collection", this.pick), this.twin), this.rows, this.more);
  }

  async load() {
    this.after = null;
    fill(this.rows);
    await this.#next();
  }

  goBack() {
    this.state.reload();
    this.pick.value = this.state.get("collection") ?? "";
    return this.load();
  }

  async #next() {
    const params = new URLSearchParams({ limit: PAGE });
    const collection = this.state.get("collection");
    if (collection) params.set("collection", collection);
    this.twin.setAttribute("href", `/v1/documents?${params}`);
    if (this.after) params.set("after", this.after);
    const answer = await ask(`/v1/documents?${params}`);
    if (!this.after) fill(this.rows);
    this.rows.append(...answer.documents.map((item) => this.#row(item)));
    if (!this.rows.childElementCount) this.rows.append(el("li", { class: "hint" }, "No documents."));
    this.after = answer.next;
    this.more.hidden = !answer.next;
  }

  #row({ id, collection, title, source, kind, language }) {
    const name = title || source || id;
    const remove = el("button", { type: "button", class: "quiet small", "aria-label": `Remove ${name}`, onclick: () => sure() }, "Remove");
    const row = el("li", {}, el("a", { href: wholeAddress(collection, id) }, name),
      el("span", { class: "hint" }, [collection, kind, language].filter(Boolean).join(" · ")), this.writes ? remove : null);
    return row;

    async function sure() {
      if (remove.textContent === "Remove") return void (remove.textContent = "Really remove?");
      await ask(`/v1/documents/${encodeURIComponent(id)}?${new URLSearchParams({ collection })}`, { method: "DELETE" });
      row.remove();
      announce(`${name} removed`);
    }
  }
}
