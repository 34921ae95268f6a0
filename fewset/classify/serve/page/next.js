// The next photos to name: of the new photos, those whose label would help most, with one key for each class.

import { byId, complain, make, say, thumbnail } from "./dom.js";
import { ask, send } from "./server.js";

const KEYS = "123456789";
const MOST = 100; // that the server suggests at once

const title = make("h2", { id: "next-title" });
const image = make("img", { alt: "" });
const hint = make("p", { class: "hint" }, "Press the number of its class, or S to skip it.");
const choices = make("div", { class: "toolbar" });
const skip = make("button", { type: "button", class: "quiet", onclick: () => skipPhoto() }, make("kbd", {}, "S"), " Skip");
const close = make("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close");
const dialog = make("dialog", { id: "next-dialog", "aria-labelledby": "next-title", onkeydown: (event) => pressed(event) },
  title, image, hint, choices, make("div", { class: "toolbar" }, skip, close));

let page;
let shown = null; // the photo that waits for its name
let skipped = new Set();

export function startNext(given) {
  page = given;
  document.body.append(dialog);
  byId("try-tools").prepend(make("button", { type: "button", id: "next-open", onclick: open }, "Name the most useful ones…"));
}

async function open() {
  skipped = new Set();
  dialog.showModal();
  await showNext();
}

async function showNext() {
  shown = null;
  dialog.setAttribute("aria-busy", "true");
  try {
    const found = await ask(`/api/next?count=${Math.min(skipped.size + 1, MOST)}`);
    shown = found.find(({ number }) => !skipped.has(number)) ?? null;
  } catch (error) {
    dialog.close();
    complain(error.message);
    return;
  } finally {
    dialog.removeAttribute("aria-busy");
  }
  title.textContent = shown ? shown.name : "There are no more photos to name";
  for (const part of [image, hint, choices, skip]) part.hidden = !shown;
  if (!shown) return close.focus();
  image.src = thumbnail(shown.number);
  choices.replaceChildren(...page.state.classes.map(({ name: label }, place) =>
    make("button", { type: "button", onclick: () => name(label) },
      KEYS[place] ? make("kbd", {}, KEYS[place]) : null, ` ${label}`)));
  choices.firstElementChild.focus();
}

async function name(label) {
  const photo = shown;
  if (!photo) return; // the one before is still on its way
  shown = null;
  if (!await page.act(() => send("/api/tried/teach", { photos: [photo.number], label }))) return dialog.close();
  say(`${photo.name} is learned as ${label}.`);
  await showNext();
}

async function skipPhoto() {
  if (!shown) return;
  skipped.add(shown.number);
  await showNext();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const label = event.key && page.state.classes[KEYS.indexOf(event.key)]?.name;
  if (label !== undefined) name(label);
  else if (event.key.toLowerCase() === "s") skipPhoto();
}
