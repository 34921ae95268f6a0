// New photos: dropped, pasted or chosen; what the classifier says of each, why, and a way to teach it better.

import { byId, colour, complain, make, percent, photos, reconcile, say, thumbnail } from "./dom.js";
import { openPhoto, viewPhoto } from "./classes.js";
import { chosen, dropped, droppable, pasted } from "./gathering.js";
import { ask, send, upload } from "./server.js";
import { openCamera } from "./camera.js";

let page;

export function startTries(given) {
  page = given;
  byId("try-choose").addEventListener("click", () => byId("try-files").click());
  byId("try-files").addEventListener("change", (event) => {
    tryOut(chosen(event.target.files).map(({ file }) => file));
    event.target.value = "";
  });
  byId("try-camera").addEventListener("click", () => openCamera(null));
  byId("try-clear").addEventListener("click", async () => {
    const numbers = [...byId("answers").children].map((item) => Number(item.dataset.key));
    if (await page.act(() => send("/api/tried/forget", { photos: numbers }))) {
      say("The list is empty.");
      byId("try-choose").focus();
    }
  });
  byId("reject").addEventListener("change", (event) =>
    page.act(() => send("/api/reject", { share: event.target.checked ? page.state.usual_share : null })));
  droppable(byId("tries"), async (event) =>
    tryOut((await dropped(event.dataTransfer)).map(({ file }) => file)));
  document.addEventListener("paste", (event) => {
    const files = pasted(event);
    if (!files.length) return;
    event.preventDefault();
    tryOut(files);
  });
}

/** Have photos classified, and keep them in the list. */
export async function tryOut(files) {
  if (!files.length) {
    complain("There are no photos to classify.");
    return;
  }
  if (!page.state.trust && !page.state.learning) {
    complain("There is no classifier yet: give two classes photos first.");
    return;
  }
  const items = files.map((file) => ({ file, keep: "true" }));
  let last = null;
  const count = await upload("/api/classify", items, ({ answers }) => {
    last = answers[0];
    void page.refresh();
  });
  await page.refresh();
  if (last) say(files.length === 1 ? `${last.name}: ${verdict(last)}` : classified(count, files.length));
}

/** What a photo shows, in words; it is not kept. */
export async function described(file) {
  const form = new FormData();
  form.append("photos", file, file.name);
  const { answers } = await ask("/api/classify", { method: "POST", body: form });
  return verdict(answers[0]);
}

function classified(count, all) {
  const photosOf = count === all ? photos(count) : `${count} of ${photos(all)}`;
  return `${photosOf} ${count === 1 ? "is" : "are"} classified.`;
}

function verdict(answer) {
  if (!answer.label) return "no answer yet";
  if (answer.none_of_these) return `none of these (nearest: ${answer.label})`;
  return `${answer.label}, ${percent(answer.probability)}`;
}

export async function showTries(state) {
  byId("reject").checked = state.share !== null;
  byId("reject").disabled = Boolean(state.trust) && !state.can_reject;
  const { answers } = await ask(state.learning ? "/api/tried?patience=0" : "/api/tried");
  answers.reverse(); // the newest first
  const places = new Map(state.classes.map((each, place) => [each.name, place]));
  byId("try-tools").hidden = !answers.length;
  reconcile(byId("answers"), answers, (answer) => answer.number, createAnswer, (item, answer) =>
    updateAnswer(item, answer, places));
}

function createAnswer({ number, name }) {
  return make("li", { class: "card" },
    make("button", { type: "button", class: "tried", "aria-label": `${name}: larger`, onclick: () => viewPhoto(number, name) },
      make("img", { src: thumbnail(number), alt: name, title: name })),
    make("div", { class: "answer" }),
    make("form", { class: "teach", onsubmit: (event) => teach(event, number) },
      make("label", { for: `teach-${number}` }, "It is"),
      make("select", { id: `teach-${number}`, required: true,
        onchange: ({ target }) => { target.dataset.chosen = target.value; } }),
      make("button", {}, "Teach it"),
      make("button", { type: "button", class: "quiet", "aria-label": `Put away ${name}`,
        onclick: () => page.act(() => send("/api/tried/forget", { photos: [number] })) }, "Put away")));
}

async function teach(event, number) {
  event.preventDefault();
  const select = event.target.querySelector("select");
  const label = select.value;
  delete select.dataset.chosen;
  if (await page.act(() => send("/api/tried/teach", { photos: [number], label }))) {
    say(`It is learned as ${label}.`);
  }
}

function updateAnswer(item, answer, places) {
  const parts = item.querySelector(".answer");
  // While it is learning, what it said before stays.
  if (answer.label || !page.state.learning || !parts.hasChildNodes()) parts.replaceChildren(...answerParts(answer, places));
  showChoice(item.querySelector("select"), answer, [...places.keys()]);
}

/** The class that the user has chosen; else the one that the photo was put into, or that it is taken for now. */
function showChoice(select, answer, names) {
  const options = ["", ...names];
  if (select.options.length !== options.length || options.some((name, at) => select.options[at].value !== name)) {
    select.replaceChildren(...options.map((name) => make("option", { value: name }, name || "choose…")));
  }
  const { chosen: before } = select.dataset;
  if (!names.includes(before)) delete select.dataset.chosen;
  if (!answer.label && page.state.learning) return; // as what it said before, it stays
  select.value = select.dataset.chosen ?? answer.taught ?? ((!answer.none_of_these && answer.label) || "");
}

function answerParts(answer, places) {
  if (!answer.label) {
    const reason = page.state.learning ? "It is learning: the answer follows." : "No answer: there is no classifier at this moment.";
    return [make("p", { class: "hint" }, reason)];
  }
  const parts = [
    make("p", { class: answer.none_of_these ? "verdict none" : `verdict ${colour(places.get(answer.label) ?? 0)}` },
      answer.none_of_these ? "none of these" : answer.label),
  ];
  if (answer.taught) parts.push(make("p", { class: "hint" }, `You put it into ${answer.taught}.`));
  if (!answer.none_of_these) {
    parts.push(make("ul", { class: "bars", "aria-label": "Likeliest classes" },
      ...answer.top.map(([label, probability]) => bar(label, probability, places))));
  }
  if (answer.reason) {
    parts.push(make("p", { class: "reason" },
      make("button", { type: "button", class: "photo", "aria-label": `${answer.reason.name}: larger`,
        onclick: () => openPhoto(answer.reason.number) }, make("img", { src: thumbnail(answer.reason.number), alt: "" })),
      make("span", {}, `Most like ${answer.reason.name}, in ${answer.reason.label}.`)));
  }
  return parts;
}

function bar(label, probability, places) {
  const inner = make("span");
  inner.style.width = `${100 * probability}%`;
  return make("li", { class: colour(places.get(label) ?? 0) },
    make("span", { class: "bar-text" }, make("span", {}, label), make("span", {}, percent(probability))),
    make("span", { class: "bar", "aria-hidden": "true" }, inner));
}
