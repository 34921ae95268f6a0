// Requests to the server, and the upload of many photos with progress.

import { byId, complain, say, photos } from "./dom.js";

const AT_ONCE = 4;
const PAUSE = 2000;
const TRIES = 30; // a minute

const later = (time) => new Promise((done) => setTimeout(done, time));

/** The answer of the server as JSON; an error in its words. */
export async function ask(path, options = {}) {
  for (let tries = 1; ; tries += 1) {
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error("the server does not answer; is `fewset serve` still running?");
    }
    if (response.status === 503 && tries < TRIES) {
      await later(PAUSE); // too much is waiting there
      continue;
    }
    if (!response.ok) throw new Error(await problem(response));
    return response.status === 204 ? null : response.json();
  }
}

export const send = (path, body = {}) =>
  ask(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

async function problem(response) {
  try {
    const { detail } = await response.json();
    return typeof detail === "string" ? detail : detail.map((each) => each.msg).join("; ");
  } catch {
    return `the server answered ${response.status}`;
  }
}

/**
 * Upload {file, …fields} a few at a time, showing how far it is; how many succeeded. Errors are reported, and the
 * rest goes on.
 */
export async function upload(path, items, onEach) {
  const waiting = [...items];
  const problems = [];
  const total = (progress.total += items.length);
  if (total) progress.show();
  const work = async () => {
    for (let item = waiting.shift(); item; item = waiting.shift()) {
      const { file, ...fields } = item;
      const form = new FormData();
      for (const [name, value] of Object.entries(fields)) form.append(name, value);
      form.append("photos", file, file.name || "pasted.png");
      try {
        await onEach(await ask(path, { method: "POST", body: form }), item);
      } catch (error) {
        problems.push(error.message);
        progress.failed += 1;
      }
      progress.advance();
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, work));
  if (problems.length) {
    const more = problems.length > 3 ? `, and ${problems.length - 3} more` : "";
    complain(`${photos(problems.length)} could not be taken: ${problems.slice(0, 3).join("; ")}${more}`);
  }
  return items.length - problems.length;
}

const progress = {
  total: 0,
  done: 0,
  failed: 0,
  show() {
    byId("progress").hidden = false;
    byId("progress-text").textContent = `${this.done} of ${photos(this.total)}`;
    byId("progress-bar").max = this.total;
    byId("progress-bar").value = this.done;
  },
  advance() {
    this.done += 1;
    this.show();
    if (this.done < this.total) return;
    say(`${photos(this.total - this.failed)} done`);
    this.total = this.done = this.failed = 0;
    byId("progress").hidden = true;
  },
};
