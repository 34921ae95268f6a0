// The classes and their photos: cards that photos are dropped on, and a dialog for one photo.

import { byId, colour, complain, folded, make, photos, reconcile, say, thumbnail } from "./dom.js";
import { MOVED, chosen, dropped, droppable } from "./gathering.js";
import { send, upload } from "./server.js";
import { openCamera } from "./camera.js";

let page; // {state, refresh, act}
let steps = 0;

export function startClasses(given) {
  page = given;
  byId("new-class").addEventListener("submit", async (event) => {
    event.preventDefault();
    const input = byId("new-class-name");
    const name = input.value.trim();
    if (await page.act(() => send("/api/classes", { name }))) {
      input.value = "";
      say(`The class ${name} is made; add photos to it.`);
    }
  });
  byId("add-folders").addEventListener("click", () => byId("folders").click());
  byId("folders").addEventListener("change", (event) => {
    addToFolders(chosen(event.target.files));
    event.target.value = "";
  });
  droppable(byId("classes"), async (event) => {
    if (!event.dataTransfer.types.includes(MOVED)) addToFolders(await dropped(event.dataTransfer));
  });
  byId("photo-dialog").addEventListener("close", closePhoto);
}

/** Photos whose folders are their classes. */
async function addToFolders(found) {
  const inFolders = found.filter(({ folder }) => folder.trim());
  if (!inFolders.length) {
    complain(
      found.length
        ? "These photos are in no folder: drop them on a class."
        : "There are no photos in the drop.",
    );
    return;
  }
  await addPhotos(inFolders.map(({ file, folder }) => ({ file, label: folder.slice(0, 200) })));
}

async function addTo(label, files) {
  if (!files.length) complain("There are no photos in the drop.");
  else await addPhotos(files.map((file) => ({ file, label })));
}

export async function addPhotos(items) {
  const step = `${Date.now()}-${steps++}`; // they are undone together
  await upload("/api/photos", items.map((item) => ({ ...item, step })), () => void page.refresh());
  await page.refresh();
}

export function showClasses(state) {
  const suspects = new Map((state.trust?.suspects ?? []).map((each) => [each.photo, each]));
  const places = new Map(state.classes.map((each, place) => [each.name, place]));
  const weakest = state.trust && state.classes.length > 1 ? state.trust.weakest : null;
  reconcile(byId("class-cards"), state.classes, (each) => each.name, createCard, (card, each) => {
    card.className = `card ${colour(places.get(each.name))}`;
    card.querySelector(".count").textContent = photos(each.photos.length);
    card.querySelector(".weak").hidden = each.name !== weakest;
    card.querySelector(".empty").hidden = each.photos.length > 0;
    const shown = folded(each.name, each.photos, card.querySelector(".fold"), () => showClasses(page.state));
    reconcile(card.querySelector("ul"), shown, (photo) => photo.number, createPhoto, (item, photo) => {
      const suspect = suspects.get(photo.number);
      const doubt = suspect ? `, looks like ${suspect.looks_like}` : "";
      item.classList.toggle("suspect", Boolean(suspect));
      const button = item.querySelector("button");
      button.setAttribute("aria-label", `${photo.name}${doubt}: move or delete`);
      button.title = `${photo.name}${doubt}`;
    });
  });
}

function createCard({ name }) {
  const input = make("input", {
    type: "file", accept: "image/*", multiple: true, hidden: true, "aria-label": `Photos of ${name}`,
    onchange: (event) => {
      addTo(name, chosen(event.target.files).map(({ file }) => file));
      event.target.value = "";
    },
  });
  const title = make("input", {
    class: "name", value: name, maxlength: 200, "aria-label": `Name of the class ${name}`, autocomplete: "off",
    onchange: () => rename(name, title),
    onkeydown: (event) => {
      if (event.key === "Enter") title.blur();
      if (event.key === "Escape") title.value = name;
    },
  });
  const card = make("section", { "aria-label": `Class ${name}`, tabindex: "-1" },
    make("div", { class: "card-head" }, make("span", { class: "swatch", "aria-hidden": "true" }), title,
      make("span", { class: "count" })),
    make("ul", { class: "photos", "aria-label": `Photos of ${name}` }),
    make("button", { type: "button", class: "fold quiet", hidden: true }),
    make("p", { class: "empty" }, "Drop photos here."),
    make("p", { class: "weak", hidden: true }, "Another photo of this class would help most."),
    make("div", { class: "toolbar" },
      make("button", { type: "button", onclick: () => input.click(), "aria-label": `Add photos to ${name}` },
        "Add photos…"),
      make("button", { type: "button", "aria-label": `Photograph ${name} with the camera`,
        onclick: () => openCamera(name) }, "Camera…"),
      make("button", { type: "button", class: "quiet", "aria-label": `Delete the class ${name}`,
        onclick: async () => {
          if (await page.act(() => send("/api/classes/remove", { name }))) {
            say(`The class ${name} is deleted. Undo brings it back.`);
            byId("classes-title").focus();
          }
        } }, "Delete"),
      input));
  droppable(card, async (event) => {
    const moved = event.dataTransfer.getData(MOVED);
    if (moved) page.act(() => send("/api/photos/move", { photos: [Number(moved)], label: name }));
    else addTo(name, (await dropped(event.dataTransfer)).map(({ file }) => file));
  });
  return card;
}

async function rename(name, input) {
  const new_name = input.value.trim();
  if (!new_name || new_name === name) input.value = name;
  else if (await page.act(() => send("/api/classes/rename", { name, new_name }))) {
    say(`${name} is now called ${new_name}.`);
  } else input.value = name;
}

function createPhoto(photo) {
  const image = make("img", { src: thumbnail(photo.number), alt: "", loading: "lazy", draggable: "false" });
  const button = make("button", { type: "button", class: "photo", draggable: "true",
    onclick: () => openPhoto(photo.number),
    ondragstart: (event) => {
      event.dataTransfer.setData(MOVED, String(photo.number));
      event.dataTransfer.effectAllowed = "move";
    } }, image);
  return make("li", {}, button);
}

let opened = null;

/** The dialog for one photo. */
export function openPhoto(number) {
  const photo = page.state.photos.get(number);
  if (!photo) return;
  opened = number;
  const others = page.state.classes.map((each) => each.name).filter((name) => name !== photo.label);
  byId("photo-target").replaceChildren(...others.map((name) => make("option", { value: name }, name)));
  byId("photo-target").disabled = !others.length;
  showPhoto(photo.name, number, `In the class ${photo.label}.`, true);
}

/** The dialog for a photo that was tried, to look at. */
export const viewPhoto = (number, name) => showPhoto(name, number, "", false);

function showPhoto(name, number, where, editable) {
  byId("photo-name").textContent = name;
  byId("photo-image").src = thumbnail(number);
  byId("photo-image").alt = name;
  byId("photo-class").textContent = where;
  byId("photo-edit").hidden = !editable;
  const dialog = byId("photo-dialog");
  dialog.returnValue = "close";
  dialog.showModal();
}

async function closePhoto() {
  const { returnValue: chosenAction } = byId("photo-dialog");
  const number = opened;
  const label = byId("photo-target").value;
  if (chosenAction === "move" && label) {
    if (await page.act(() => send("/api/photos/move", { photos: [number], label }))) {
      say(`The photo is moved to ${label}.`);
    }
  } else if (chosenAction === "remove") {
    if (await page.act(() => send("/api/photos/remove", { photos: [number] }))) {
      say("The photo is deleted. Undo brings it back.");
      byId("classes-title").focus();
    }
  }
}
