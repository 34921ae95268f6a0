// How far to trust the classifier, in words, and what would help.

import { byId, make, percent, photos, say, thumbnail } from "./dom.js";
import { openPhoto } from "./classes.js";
import { send } from "./server.js";

const LISTED = 6;

let page;

export function startTrust(given) {
  page = given;
}

export function showTrust({ trust, classes, learning }) {
  const parts = trust ? findings(trust) : learning ? [] : [make("p", { class: "hint" }, missing(classes))];
  byId("trust-body").replaceChildren(...parts);
}

function missing(classes) {
  const filled = classes.filter((each) => each.photos.length).length;
  if (!classes.length) return "Make two classes and give them photos: then it learns, at once.";
  return filled ? "One more class with a photo, and it learns." : "Two classes with photos, and it learns.";
}

function findings(trust) {
  const parts = [];
  if (trust.low === null) {
    parts.push(make("p", { class: "headline small" }, sentence(trust.in_words)));
  } else {
    parts.push(
      make("p", { class: "headline" }, trust.in_words.replaceAll(" %", "\u00a0%")),
      range(trust),
      make("p", { class: "hint" },
        `${trust.right} of ${photos(trust.tested)} were classified rightly by the others, each without itself. `
        + "Of new photos like these, this share should be right."),
    );
  }
  if (trust.untested.length && trust.low !== null) {
    parts.push(make("p", {}, `Not tested, with fewer than 3 different photos: ${some(trust.untested)}.`));
  }
  parts.push(make("p", { class: "advice" }, make("strong", {}, trust.weakest), " would gain most from another photo."));
  parts.push(list("Taken for another", trust.confusions, (each) =>
    make("li", {}, `${photos(each.photos)} of ${each.label} taken for ${each.taken_for}`)));
  parts.push(list("Suspicious photos", trust.suspects, suspect));
  parts.push(list("Copies of one photo", trust.copies, copies));
  return parts.filter(Boolean);
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
const some = (names) => names.slice(0, LISTED).join(", ") + more(names);
const more = (all) => (all.length > LISTED ? `, and ${all.length - LISTED} more` : "");

/** The interval as a part of a line from 0 to 100 %. The words say the same, so it is only for the eye. */
function range({ low, high }) {
  const inner = make("span");
  inner.style.left = `${100 * low}%`;
  inner.style.right = `${100 - 100 * high}%`;
  return make("div", { class: "range", "aria-hidden": "true" }, inner);
}

function list(title, items, line) {
  if (!items.length) return null;
  const rest = items.length > LISTED ? [make("li", {}, `and ${items.length - LISTED} more`)] : [];
  return make("div", {}, make("h3", {}, title),
    make("ul", { class: "findings" }, ...items.slice(0, LISTED).map(line), ...rest));
}

function suspect({ photo: number, label, looks_like, probability }) {
  const photo = page.state.photos.get(number) ?? { number, name: "" }; // gone while it is learning
  return make("li", {},
    make("button", { type: "button", class: "photo", "aria-label": `${photo.name}: move or delete`,
      onclick: () => openPhoto(photo.number) }, make("img", { src: thumbnail(photo.number), alt: "" })),
    make("span", {}, `${photo.name}, in ${label}, looks like ${looks_like} (${percent(probability)})`),
    make("button", { type: "button",
      onclick: async () => {
        if (await page.act(() => send("/api/photos/move", { photos: [photo.number], label: looks_like }))) {
          say(`${photo.name} is moved to ${looks_like}.`);
        }
      } }, `Move to ${looks_like}`));
}

function copies(numbers) {
  const group = numbers.map((number) => page.state.photos.get(number) ?? { number, name: "" });
  return make("li", {},
    ...group.slice(0, LISTED).map((photo) => make("img", { src: thumbnail(photo.number), alt: photo.name, title: photo.name })),
    make("span", {}, `${photos(group.length)} alike, which count once`),
    make("button", { type: "button",
      onclick: async () => {
        const rest = group.slice(1).map((photo) => photo.number);
        if (await page.act(() => send("/api/photos/remove", { photos: rest }))) say("One of the copies is left.");
      } }, "Keep one"));
}
