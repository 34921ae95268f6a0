// The page: photos in, answers out; classes and photos that are added to them. Names only ever become text.

import { startCamera, openCamera } from "./camera.js";
import { byId, colour, complain, folded, make, percent, photos as inWords, reconcile, say } from "./dom.js";
import { chosen, dropped, droppable, pasted } from "./gathering.js";
import { Classifier } from "./classifier.js";
import { loadEncoder } from "./network.js";
import { prepared } from "./photos.js";
import * as store from "./store.js";
import { table } from "./table.js";

const TOP = 3;
const NONE = "none of these";
let classifier;
let embed;
let numbered = 0;
let tried = []; // {number, name, row, thumbnail}, the newest first

const digest = () => classifier.description.encoder.digest;

async function start() {
  const answer = await fetch("./head.json");
  if (!answer.ok) throw new Error(`head.json cannot be loaded: ${answer.status} ${answer.statusText}`);
  const description = await answer.json();
  classifier = new Classifier(description);
  embed = await loadEncoder(description);
  try {
    classifier.setAdded(await store.load(digest()));
  } catch (error) {
    complain(`Photos that were added before cannot be read: ${error.message}`);
  }
  byId("reject").checked = classifier.canReject && (store.rejection() ?? description.reject);
  byId("reject").disabled = !classifier.canReject;
  listen();
  show();
  document.querySelector("main").hidden = false;
  say("Ready.");
}

function listen() {
  byId("problem-close").addEventListener("click", () => { byId("problem").hidden = true; });
  byId("reject").addEventListener("change", ({ target }) => {
    store.keepRejection(target.checked);
    show();
  });
  startCamera(tryOut, described);
  byId("try-camera").addEventListener("click", () => openCamera(null));
  byId("table").addEventListener("click", download);
  byId("try-choose").addEventListener("click", () => byId("try-files").click());
  byId("try-files").addEventListener("change", (event) => tryOut(taken(event)));
  byId("try-clear").addEventListener("click", () => {
    tried = [];
    show();
    say("The list is empty.");
    byId("try-choose").focus();
  });
  byId("add").addEventListener("submit", (event) => {
    event.preventDefault();
    if (mayBeCalled(byId("add-name").value.trim())) byId("add-files").click();
  });
  byId("add-files").addEventListener("change", (event) => teach(byId("add-name").value.trim(), taken(event)));
  byId("restore").addEventListener("click", async () => {
    await learn([]);
    say("It is the classifier that was exported again.");
    byId("classes-title").focus();
  });
  droppable(byId("tries"), async (event) => tryOut((await dropped(event.dataTransfer)).map(({ file }) => file)));
  document.addEventListener("paste", (event) => {
    const files = pasted(event);
    if (!files.length) return;
    event.preventDefault();
    void tryOut(files);
  });
}

/** The photos of a file input, which is then ready for the same ones again. */
function taken({ target }) {
  const files = chosen(target.files).map(({ file }) => file);
  target.value = "";
  return files;
}

/** Photos with their rows of features, one after another; what cannot be read is named, and the others go on. */
async function embedded(files) {
  const done = [];
  const problems = [];
  document.body.setAttribute("aria-busy", "true");
  for (const [place, file] of files.entries()) {
    say(`Photo ${place + 1} of ${files.length}…`);
    await new Promise((next) => { setTimeout(next); }); // lets the page show it
    try {
      const { pixels, thumbnail } = await prepared(file, classifier.description.preprocessing);
      done.push({ name: file.name, thumbnail, row: await embed(pixels) });
    } catch (error) {
      problems.push(error.message);
    }
  }
  document.body.removeAttribute("aria-busy");
  if (problems.length) complain(problems.join("; "));
  return done;
}

async function tryOut(files) {
  if (!files.length) {
    complain("There are no photos to classify.");
    return;
  }
  const done = await embedded(files);
  for (const photo of done) tried.unshift({ ...photo, number: (numbered += 1) });
  show();
  if (done.length === 1) say(`${done[0].name}: ${verdict(classifier.answer(done[0].row))}`);
  else say(`${inWords(done.length)} classified.`);
}

/** What a photo of the camera shows, in words. */
async function described(file) {
  const { pixels } = await prepared(file, classifier.description.preprocessing);
  return verdict(classifier.answer(await embed(pixels)));
}

/** The answers as `fewset predict --csv` writes them. */
function download() {
  const text = table(tried.map(({ name, row }) => ({ name, ...classifier.answer(row) })), TOP, rejected, NONE);
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "answers.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Whether a class may have this name; says why not. */
function mayBeCalled(label) {
  if (label === NONE) complain(`“${NONE}” means that a photo is of no class; choose another name.`);
  return label !== "" && label !== NONE;
}

async function teach(label, files) {
  if (!mayBeCalled(label)) return;
  const done = await embedded(files);
  if (!done.length) return;
  await learn([...classifier.added, ...done.map((photo) => ({ ...photo, label }))]);
  byId("add-name").value = "";
  say(`${inWords(done.length)} added to ${label}.`);
}

/** Learn from other photos than before, and keep them. */
async function learn(added) {
  classifier.setAdded(added);
  show();
  try {
    await store.save(digest(), classifier.added);
  } catch (error) {
    complain(`This browser does not keep the added photos: ${error.message}`);
  }
}

const rejected = (answer) => byId("reject").checked && answer.unlike;

function verdict(answer) {
  const [best] = answer.top;
  return rejected(answer) ? `${NONE} (nearest: ${best.label})` : `${best.label}, ${percent(best.probability)}`;
}

function show() {
  byId("told").textContent = `It knows ${classifier.classes.length} classes from ${inWords(classifier.photos.length)}.`;
  byId("try-tools").hidden = !tried.length;
  byId("changed").hidden = !classifier.added.length;
  reconcile(byId("answers"), tried, ({ number }) => number, ({ name, thumbnail }) =>
    make("li", { class: "card" },
      make("img", { class: "tried", src: thumbnail, alt: name, title: name }),
      make("div", { class: "answer" })),
  (item, { row }) => item.querySelector(".answer").replaceChildren(...answerParts(classifier.answer(row))));
  byId("class-names").replaceChildren(...classifier.classes.map((label) => make("option", { value: label })));
  showCards();
}

const showCards = () => byId("class-cards").replaceChildren(...classifier.classes.map(card));


function answerParts(answer) {
  const [best] = answer.top;
  const none = rejected(answer);
  const { nearest } = answer;
  return [
    make("p", { class: none ? "verdict none" : `verdict ${colour(best.place)}` }, none ? NONE : best.label),
    ...(none ? [] : [make("ul", { class: "bars", "aria-label": "Likeliest classes" }, ...answer.top.slice(0, TOP).map(bar))]),
    make("p", { class: "reason" },
      nearest.thumbnail ? make("img", { src: nearest.thumbnail, alt: "" }) : null,
      make("span", {}, `Most like ${nearest.name}, in ${nearest.label}.`)),
  ];
}

function bar({ label, place, probability }) {
  const inner = make("span");
  inner.style.width = `${100 * probability}%`;
  return make("li", { class: colour(place), "data-probability": probability },
    make("span", { class: "bar-text" }, make("span", {}, label), make("span", {}, percent(probability))),
    make("span", { class: "bar", "aria-hidden": "true" }, inner));
}

function card(label, place) {
  const own = classifier.photos.filter((photo) => photo.label === label);
  const fold = make("button", { type: "button", class: "fold quiet" });
  const shown = folded(label, own, fold, showCards);
  return make("section", { class: `card ${colour(place)}`, "aria-label": `Class ${label}` },
    make("div", { class: "card-head" },
      make("strong", {}, label), make("span", { class: "count" }, inWords(own.length))),
    make("ul", { class: "photos" }, ...shown.map(thumbnail)), fold);
}

function thumbnail(photo) {
  return make("li", {},
    photo.thumbnail ? make("img", { src: photo.thumbnail, alt: photo.name, title: photo.name }) : photo.name,
    photo.added ? make("button", { type: "button", "aria-label": `Remove ${photo.name} from ${photo.label}`,
      onclick: () => remove(photo) }, "×") : null);
}

async function remove(photo) {
  await learn(classifier.added.filter((each) => each !== photo));
  say(`${photo.name} is removed from ${photo.label}.`);
  byId("classes-title").focus();
}

start().catch((error) => complain(error.message));
