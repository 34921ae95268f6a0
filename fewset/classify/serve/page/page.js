// The page: asks the server how things stand, and shows it. Each part of the page has a file of its own.

import { byId, complain, make, say, working } from "./dom.js";
import { ask, send } from "./server.js";
import { addPhotos, showClasses, startClasses } from "./classes.js";
import { showPicture } from "./picture.js";
import { offerEarlier, showSaved, startProject } from "./project.js";
import { described, showTries, startTries, tryOut } from "./tries.js";
import { showTrust, startTrust } from "./trust.js";
import { startCamera } from "./camera.js";
import { startNext } from "./next.js";

const PATIENCE = 0.3; // seconds: what is learned sooner is shown together with the photos
const POLL = 1000; // milliseconds between two looks whether it has learned
let running = null;
let again = false;
let polling = 0;
let learned = null; // called when it has learned

const page = {
  state: { classes: [], photos: new Map(), trust: null, learning: false },

  /** Show how things stand now. Calls that come while one is under way are answered by one that follows. */
  refresh() {
    if (running) {
      again = true;
      return running;
    }
    clearTimeout(polling);
    running = (async () => {
      try {
        do {
          again = false;
          await show();
        } while (again);
        if (page.state.learning) polling = setTimeout(page.refresh, POLL);
      } catch (error) {
        showLearning(false);
        complain(error.message);
      } finally {
        running = null;
      }
    })();
    return running;
  },

  /** Do something and show what came of it; whether it worked. */
  async act(what) {
    try {
      await what();
      byId("problem").hidden = true;
      return true;
    } catch (error) {
      complain(error.message);
      return false;
    } finally {
      await page.refresh().then(offerEarlier);
    }
  },
};

async function show() {
  document.body.setAttribute("aria-busy", "true");
  try {
    const before = page.state;
    const state = (page.state = await ask(`/api/state?patience=${PATIENCE}`));
    state.photos = new Map(state.classes.flatMap(({ name: label, photos }) =>
      photos.map((photo) => [photo.number, { ...photo, label }])));
    showLearning(state.learning);
    if (state.learning) {
      if (before.learning && before.revision === state.revision) return; // all of it is shown
      Object.assign(state, { trust: before.trust, can_reject: before.can_reject }); // until it has learned
    }
    showActions(state);
    showClasses(state);
    if (!state.learning || !state.trust) showTrust(state);
    await Promise.all([showTries(state), state.learning ? null : showPicture(state), showSaved(state)]);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

/** Say that it is learning, as long as it is. */
function showLearning(learning) {
  byId("trust").setAttribute("aria-busy", String(learning));
  byId("learning").hidden = !learning;
  if (learning && !learned) {
    void working("It is learning…", () => new Promise((done) => (learned = done)));
  } else if (!learning && learned) {
    learned();
    learned = null;
  }
}

function showActions(state) {
  const undo = byId("undo");
  undo.disabled = state.undo === null;
  undo.title = state.undo ? `Undo ${state.undo} (Ctrl+Z)` : "Nothing to undo";
  byId("made-with").textContent = `made with the encoder ${state.encoder}`;
  const ready = Boolean(state.trust) || state.learning; // a download waits until it has learned
  byId("downloads").replaceChildren(...Object.entries(state.downloads).map(([name, title]) =>
    make("button", { type: "button", class: name === "classifier" ? "primary" : null, disabled: !ready,
      id: `download-${name}`, onclick: () => download(name) }, title)));
}

async function undo() {
  let undone = "";
  if (await page.act(async () => ({ undone } = await send("/api/undo")))) say(`Undone: ${undone}.`);
}

/** A link with the file, which says by an error of its own when there is none. */
async function download(name) {
  try {
    const response = await working("The download is being made…",
      () => fetch(`/api/downloads/${encodeURIComponent(name)}`));
    if (!response.ok) throw new Error((await response.json()).detail);
    const file = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))?.[1] ?? name;
    const link = make("a", { href: URL.createObjectURL(await response.blob()), download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say(`${file} is downloaded.`);
  } catch (error) {
    complain(error.message);
  }
}

async function photosTaken(files, label) {
  if (!files.length) return;
  if (label === null) await tryOut(files);
  else await addPhotos(files.map((file) => ({ file, label })));
}

startClasses(page);
startTries(page);
startNext(page);
startTrust(page);
startCamera(photosTaken, described);
startProject(page);
byId("undo").addEventListener("click", undo);
byId("problem-close").addEventListener("click", () => (byId("problem").hidden = true));
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (event.key === "z" && (event.ctrlKey || event.metaKey) && !typing && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    if (!byId("undo").disabled) undo();
  }
});
// What is dropped beside everything must not replace the page.
for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
page.refresh().then(offerEarlier);
