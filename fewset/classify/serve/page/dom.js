// Small helpers for the page. Texts only ever become text nodes, so that names cannot become markup.

export const byId = (id) => document.getElementById(id);

/** An element with attributes, listeners (`onclick: …`) and children (elements or texts). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element of an SVG picture. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Let a parent have one child an item, in order; children whose key remains stay, and keep the focus. */
export function reconcile(parent, items, key, create, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = old.get(name);
    old.delete(name);
    if (!child) {
      child = create(item);
      child.dataset.key = name;
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of old.values()) child.remove();
}

export const percent = (share) => `${Math.round(100 * share)} %`;
export const photos = (count) => (count === 1 ? "1 photo" : `${count} photos`);
export const thumbnail = (number) => `/api/photos/${number}/thumbnail`;

export function say(text) {
  byId("status").textContent = text;
}

const PATIENCE = 700; // milliseconds after which somebody wants to know what is going on
let underWay = 0;

/** Do something, and say what it is as long as it takes, if that is longer than a moment. */
export async function working(text, what) {
  const timer = setTimeout(() => {
    byId("working-text").textContent = text;
    byId("working").classList.add("shown");
  }, PATIENCE);
  underWay += 1;
  try {
    return await what();
  } finally {
    clearTimeout(timer);
    underWay -= 1;
    if (!underWay) {
      byId("working-text").textContent = "";
      byId("working").classList.remove("shown");
    }
  }
}

export function complain(text) {
  byId("problem-text").textContent = text;
  byId("problem").hidden = false;
}

const FOLDED = 24;
const unfolded = new Set();

/** The items that are shown of a long list by this name; `button`, in the same card, shows all or fewer again. */
export function folded(name, items, button, again) {
  button.hidden = items.length <= FOLDED;
  const open = unfolded.has(name);
  button.textContent = open ? "Show fewer" : `Show all ${items.length}`;
  button.setAttribute("aria-expanded", String(open));
  button.onclick = () => {
    if (open) unfolded.delete(name);
    else unfolded.add(name);
    again();
  };
  return open ? items : items.slice(0, FOLDED);
}

const COLOURS = 10;

/** The class of CSS with the colour of a class, by its place. */
export const colour = (place) => `colour-${place % COLOURS}`;
