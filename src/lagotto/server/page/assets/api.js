// Requests to the server that the page came from, with the key that this tab knows.

const STORED = "lagotto.key";

export const key = {
  get: () => sessionStorage.getItem(STORED),
  set: (secret) => sessionStorage.setItem(STORED, secret),
  forget: () => sessionStorage.removeItem(STORED),
};

/** What the server answers instead: problem details (RFC 9457). */
export class Problem extends Error {
  constructor(details) {
    super(details.detail || details.title);
    this.status = details.status;
    this.title = details.title;
  }
}

export const headers = () => (key.get() ? { Authorization: `Bearer ${key.get()}` } : {});

/** The answer to a request as JSON; a Problem if there is none. */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const sent = { ...headers(), ...(body ? { "Content-Type": "application/json" } : {}) };
  let answer;
  try {
    answer = await fetch(path, {
      method, signal, headers: sent, cache: "no-store", body: body ? JSON.stringify(body) : undefined,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, title: "No answer", detail: "The server can't be reached." });
  }
  const content = await answer.json();
  if (!answer.ok) throw new Problem(content);
  return content;
}

/** Requests of which only the latest counts: a new one cancels the one before. */
export class Latest {
  #running = null;

  async ask(path, options = {}) {
    this.cancel();
    const running = (this.#running = new AbortController());
    try {
      return await ask(path, { ...options, signal: running.signal });
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    } finally {
      if (this.#running === running) this.#running = null;
    }
  }

  cancel() {
    this.#running?.abort();
    this.#running = null;
  }
}

/** Send a file, with its progress from 0 to 1; the task that will add it. */
export function upload(file, fields, onProgress) {
  const form = new FormData();
  form.append("file", file, file.name);
  for (const [name, value] of Object.entries(fields)) if (value) form.append(name, value);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/v1/documents");
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.onprogress = (event) => onProgress(event.total ? event.loaded / event.total : 0);
    request.onload = () =>
      request.status === 202 ? resolve(request.response) : reject(new Problem(request.response ?? { title: "Failed" }));
    request.onerror = () => reject(new Problem({ status: 0, title: "No answer", detail: "The server can't be reached." }));
    request.send(form);
  });
}
