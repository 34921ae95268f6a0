// The photos on a plane, with the prototypes of the classes before and after adaptation.

import { byId, colour, draw, make, percent, thumbnail } from "./dom.js";
import { openPhoto } from "./classes.js";
import { ask } from "./server.js";

const WIDTH = 400;
const HEIGHT = 300;
const MARGIN = 26;
const THUMBNAILS = 150; // more photos are dots
const LABELS = 12; // more classes have no names in the picture
const LONGEST = 14; // letters of a name there
const LETTER = 7.2; // about the width of one
const LINE = 20;
const NEAR = 15; // of the places for a name: those within two lines of the diamond

export async function showPicture(state) {
  const place = byId("picture");
  if (!state.trust) {
    place.replaceChildren(make("p", { class: "hint" }, "Once it has learned, photos that look alike to it are close together here."));
    return;
  }
  const picture = await ask("/api/picture");
  const places = new Map(state.classes.map((each, at) => [each.name, at]));
  for (const each of picture.photos) Object.assign(each, state.photos.get(each.number));
  place.replaceChildren(drawing(picture, places), legend(picture, places), ...words(picture));
}

function drawing({ photos, prototypes }, places) {
  const points = [...photos.map(({ place }) => place), ...prototypes.flatMap(({ before, after }) => [before, after])];
  const scale = fit(points);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": "picture-title" });
  const small = photos.length <= THUMBNAILS;
  for (const photo of photos) svg.append(photoMark(photo, scale(photo.place), colour(places.get(photo.label)), small));
  for (const { label, before, after } of prototypes) {
    const [from, to] = [scale(before), scale(after)];
    const mark = colour(places.get(label));
    svg.append(
      draw("line", { class: `adaptation ${mark}`, x1: from.x, y1: from.y, x2: to.x, y2: to.y }),
      draw("circle", { class: `before ${mark}`, cx: from.x, cy: from.y, r: 5.5 }),
      draw("path", { class: `after ${mark}`, d: `M${to.x} ${to.y - 7.5}l6.5 7.5-6.5 7.5-6.5-7.5z` }),
    );
  }
  if (prototypes.length <= LABELS) svg.append(...labels(prototypes.map(({ label, before, after }) =>
    ({ label, from: scale(before), to: scale(after) })), photos.map(({ place }) => scale(place))));
  return svg;
}

/** The names near their diamonds: each where it covers no other name, ring or diamond, and no photo if possible. */
function labels(marks, photos) {
  const images = photos.map(({ x, y }) => box(x, y, 11));
  const taken = marks.flatMap(({ from, to }) => [box(from.x, from.y, 7), box(to.x, to.y, 8)]);
  return marks.map(({ label, to }) => {
    const text = label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label;
    const width = LETTER * text.length;
    const places = [];
    const far = [];
    for (let row = 0; row < 2 * HEIGHT / LINE; row += 1) {
      const down = (row % 2 ? 1 : -1) * Math.ceil(row / 2) * LINE; // on its line, below, above, further
      for (const middle of [to.x + 11 + width / 2, to.x - 11 - width / 2, to.x]) places.push(box(middle, to.y + down, width / 2, LINE / 2));
      for (let x = width / 2; x <= WIDTH - width / 2; x += 8) far.push(box(x, to.y + down, width / 2, LINE / 2));
    }
    const free = (among, others) => among.find((place) => inside(place) && !others.some((other) => overlap(place, other)));
    const found = free(places.slice(0, NEAR), [...taken, ...images]) ?? free(places, taken) ?? free(far, taken) ?? places[0];
    taken.push(found);
    return draw("text", { x: (found.left + found.right) / 2, y: found.bottom - 6, "text-anchor": "middle" }, text);
  });
}

const box = (x, y, half, tall = half) => ({ left: x - half, right: x + half, top: y - tall, bottom: y + tall });
const inside = ({ left, right, top, bottom }) => left >= 0 && right <= WIDTH && top >= 0 && bottom <= HEIGHT;
const overlap = (one, other) =>
  one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

function photoMark(photo, { x, y }, mark, small) {
  const title = draw("title", {}, `${photo.name}, ${photo.label}`);
  const group = draw("g", { class: `photo-mark ${mark}` }, title);
  if (small) {
    group.append(draw("image", { href: thumbnail(photo.number), x: x - 10, y: y - 10, width: 20, height: 20,
      preserveAspectRatio: "xMidYMid slice" }));
    group.append(draw("rect", { x: x - 10, y: y - 10, width: 20, height: 20, rx: 3 }));
  } else group.append(draw("circle", { cx: x, cy: y, r: 4 }));
  group.addEventListener("click", () => openPhoto(photo.number)); // by keyboard: in its class
  return group;
}

/** Places on the plane to places in the picture, one scale for both directions. */
function fit(points) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const factor = Math.min(
    (WIDTH - 2 * MARGIN) / (right - left || 1), (HEIGHT - 2 * MARGIN) / (high - low || 1));
  return ([x, y]) => ({
    x: WIDTH / 2 + factor * (x - (left + right) / 2),
    y: HEIGHT / 2 - factor * (y - (low + high) / 2),
  });
}

function legend({ prototypes }, places) {
  return make("ul", { class: "legend" }, ...prototypes.map(({ label }) =>
    make("li", { class: colour(places.get(label)) }, make("span", { class: "swatch", "aria-hidden": "true" }), label)));
}

/** What is drawn, and which classes end up closest, for those who do not see it. */
function words({ shown, prototypes }) {
  const text = "Ring: the mean of a class. Diamond: what the classifier made of it, with an eye on the other "
    + `classes. The picture shows ${percent(shown)} of how the photos differ.`;
  const parts = [make("p", { class: "hint" }, text)];
  const pairs = prototypes.flatMap((one, at) => prototypes.slice(at + 1).map((other) =>
    ({ names: `${one.label} and ${other.label}`, before: distance(one.before, other.before), after: distance(one.after, other.after) })));
  pairs.sort((one, other) => one.after - other.after);
  if (pairs.length) {
    const [{ names, before, after }] = pairs;
    const moved = after > 1.02 * before ? "moved them apart" : after < before / 1.02 ? "moved them closer" : "left them so";
    parts.push(make("p", { class: "hint" }, `Closest in the picture: ${names}. Adaptation ${moved}.`));
  }
  return parts;
}

const distance = (one, other) => Math.hypot(one[0] - other[0], one[1] - other[1]);
