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
    const [low, high] = [trust.low, trust.high].map((bound) => Math.round(100 * bound));
    parts.push(
      make("p", { class: "headline" }, `Right on ${low} to ${high} of 100 new photos`),
      range(trust),
      make("p", { class: "hint" },
        `${trust.right} of your ${photos(trust.tested)} were classified correctly when each was left out. `
        + `${sentence(trust.in_words).replaceAll(" %", "\u00a0%")}`),
    );
  }
  if (trust.occasions) parts.push(make("p", {}, sentence(trust.occasions)));
  if (trust.untested.length && trust.low !== null) {
    parts.push(make("p", {}, `Not tested, with fewer than ${trust.least}: ${some(trust.untested)}.`));
  }
  parts.push(make("p", { class: "advice" }, make("strong", {}, trust.weakest), " would gain most from another photo."));
  parts.push(list("Taken for another class", trust.confusions, (each) =>
    make("li", {}, `${photos(each.photos)} of ${each.label} taken for ${each.taken_for}`)));
  const contradictory = (group) => new Set(known(group).map(({ label }) => label)).size > 1;
  const contradictions = trust.copies.filter(contradictory);
  const apart = trust.suspects.filter(({ photo }) => !contradictions.flat().includes(photo));
  parts.push(list("Contradictions: one photo in several classes", contradictions, contradiction));
  parts.push(list("Suspicious photos", apart, suspect));
  parts.push(list("Copies of one photo", trust.copies.filter((group) => !contradictory(group)), copies));
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

/** The photos of these numbers; some may be gone while it is learning. */
const known = (numbers) => numbers.map((number) => page.state.photos.get(number)).filter(Boolean);

const images = (group) => group.slice(0, LISTED).map((photo) =>
  make("button", { type: "button", class: "photo", "aria-label": `${photo.name}, in ${photo.label}: move or delete`,
    onclick: () => openPhoto(photo.number) }, make("img", { src: thumbnail(photo.number), alt: "", title: photo.name })));

function copies(numbers) {
  const group = known(numbers);
  return make("li", {}, ...images(group),
    make("span", {}, `${photos(group.length)} alike, which count once`),
    removal("Keep one", group.slice(1), "One of the copies is left."));
}

/** Copies in several classes: all but those of one class must go. */
function contradiction(numbers) {
  const group = known(numbers);
  const labels = [...new Set(group.map(({ label }) => label))];
  const names = `${labels.slice(0, -1).join(", ")} and ${labels.at(-1)}`;
  return make("li", {}, ...images(group),
    make("span", {}, `The same photo is in ${names}. It can be of one class only.`),
    make("div", { class: "toolbar" }, ...labels.slice(0, LISTED).map((label) =>
      removal(`It is ${label}`, group.filter((photo) => photo.label !== label), `The photo is in ${label} only.`))));
}

const removal = (text, group, result) =>
  make("button", { type: "button",
    onclick: async () => {
      const numbers = group.map(({ number }) => number);
      if (await page.act(() => send("/api/photos/remove", { photos: numbers }))) say(result);
    } }, text);
