// New photos: dropped, pasted or chosen; what the classifier says of each, why, and a way to teach it better.

import { byId, colour, complain, make, percent, reconcile, say, thumbnail } from "./dom.js";
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
  await upload("/api/classify", items, ({ answers }) => {
    last = answers[0];
    void page.refresh();
  });
  await page.refresh();
  if (last) say(files.length === 1 ? `${last.name}: ${verdict(last)}` : `${files.length} photos are classified.`);
}

export function verdict(answer) {
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
    make("img", { class: "tried", src: thumbnail(number), alt: name, title: name }),
    make("div", { class: "answer" }),
    make("form", { class: "teach", onsubmit: (event) => teach(event, number) },
      make("label", { for: `teach-${number}` }, "It is"),
      make("select", { id: `teach-${number}` }),
      make("button", {}, "Teach it"),
      make("button", { type: "button", class: "quiet", "aria-label": `Put away ${name}`,
        onclick: () => page.act(() => send("/api/tried/forget", { photos: [number] })) }, "Put away")));
}

async function teach(event, number) {
  event.preventDefault();
  const label = event.target.querySelector("select").value;
  if (await page.act(() => send("/api/tried/teach", { photos: [number], label }))) {
    say(`It is learned as ${label}.`);
  }
}

function updateAnswer(item, answer, places) {
  const parts = item.querySelector(".answer");
  // While it is learning, what it said before stays.
  if (answer.label || !page.state.learning || !parts.hasChildNodes()) parts.replaceChildren(...answerParts(answer, places));
  const select = item.querySelector("select");
  const names = [...places.keys()];
  if (select.options.length !== names.length || names.some((name, at) => select.options[at].value !== name)) {
    const before = select.value;
    select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    select.value = names.includes(before) ? before : (answer.label ?? names[0]);
  }
}

export function answerParts(answer, places) {
  if (!answer.label) {
    const reason = page.state.learning ? "It is learning: the answer follows." : "No answer: there is no classifier at this moment.";
    return [make("p", { class: "hint" }, reason)];
  }
  const parts = [
    make("p", { class: answer.none_of_these ? "verdict none" : `verdict ${colour(places.get(answer.label) ?? 0)}` },
      answer.none_of_these ? "none of these" : answer.label),
  ];
  if (answer.taught) parts.push(make("p", { class: "hint" }, `You put it into ${answer.taught}.`));
  parts.push(make("ul", { class: "bars", "aria-label": "Likeliest classes" },
    ...answer.top.map(([label, probability]) => bar(label, probability, places))));
  if (answer.reason) {
    parts.push(make("p", { class: "reason" },
      make("img", { src: thumbnail(answer.reason.number), alt: "" }),
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
