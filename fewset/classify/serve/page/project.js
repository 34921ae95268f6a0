// The file that the work is saved to: when that was, and earlier work to continue with.

import { byId, complain, make, photos, say } from "./dom.js";
import { ask, send } from "./server.js";

const LOOK = 2000; // milliseconds between two looks whether it is saved
const LISTED = 4; // classes that are named

let page;
let looking = 0;

export async function startProject(given) {
  page = given;
  byId("open").addEventListener("click", () => choose());
  byId("open-again").addEventListener("click", () => choose());
  byId("open-close").addEventListener("click", () => byId("open-dialog").close());
  byId("open-choose").addEventListener("click", () => byId("open-file").click());
  byId("open-file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    const form = new FormData();
    form.append("file", file, file.name);
    open(file.name, () => ask("/api/project/upload", { method: "POST", body: form }));
  });
}

/** Say when the work was saved; look again as long as a change is not in the file. */
export async function showSaved(state) {
  clearTimeout(looking);
  if (state.classes.length) byId("again").hidden = true;
  const { saved_at: at, unsaved, problem } = await ask("/api/project");
  const time = at && new Date(1000 * at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const waiting = unsaved && (state.learning || Boolean(state.trust));
  let text = time ? `Saved at ${time}` : "";
  if (problem) text = `Not saved: ${problem}`;
  else if (waiting) text = "Saving…";
  else if (unsaved && state.photos.size) text = "Not saved yet: that takes two classes with photos";
  byId("saved").textContent = text;
  byId("saved").classList.toggle("bad", Boolean(problem));
  if (waiting) looking = setTimeout(() => showSaved(page.state).catch((error) => complain(error.message)), LOOK);
}

/** Offer earlier work as long as the page is empty. */
export async function offerEarlier() {
  const earlier = await ask("/api/project/earlier");
  byId("again").hidden = !earlier.length || page.state.classes.length > 0;
}

async function choose() {
  const earlier = await ask("/api/project/earlier");
  byId("earlier").replaceChildren(...earlier.map(({ file, saved, classes, photos: count }) =>
    make("li", {},
      make("span", {}, `${saved}: ${named(classes)}; ${photos(count)}`),
      make("button", { type: "button", "aria-label": `Open the work of ${saved}`,
        onclick: () => open(`the work of ${saved}`, () => send("/api/project/open", { file })) }, "Open"))));
  if (!earlier.length) byId("earlier").replaceChildren(make("li", {}, "There is no earlier work on this computer."));
  byId("open-dialog").showModal();
}

async function open(name, what) {
  byId("open-dialog").close();
  if (await page.act(what)) say(`This is ${name}.`);
}

function named(classes) {
  const more = classes.length > LISTED ? ` and ${classes.length - LISTED} more` : "";
  return classes.slice(0, LISTED).join(", ") + more;
}
