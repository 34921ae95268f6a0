// The camera: photos for a class, as long as the button is held, or a running film that is classified as it goes.

import { byId, complain, make, photos } from "./dom.js";

const PAUSE = 300; // between two looks, in milliseconds
const LONGEST_SIDE = 1024;
const HOLD = 300; // between two photos while the button is held, in milliseconds
const MOST = 100; // photos of one recording

let target = null; // the class that photos go into, or null: they are tried
let onPhotos;
let describe;
let holding = false;

/** `photosTaken(files, class)` is given photos; `verdict(file)` says what the film shows. */
export function startCamera(photosTaken, verdict) {
  onPhotos = photosTaken;
  describe = verdict;
  const button = byId("camera-take");
  const start = (event) => {
    if (event.type === "keydown" && ![" ", "Enter"].includes(event.key)) return;
    event.preventDefault(); // a key that is held repeats itself, and a finger opens a menu
    void record();
  };
  for (const name of ["pointerdown", "keydown"]) button.addEventListener(name, start);
  for (const name of ["pointerup", "pointercancel", "pointerleave", "keyup", "blur", "contextmenu"]) {
    button.addEventListener(name, (event) => {
      if (name === "contextmenu") event.preventDefault();
      else holding = false;
    });
  }
  // A screen reader only clicks; the click that ends a press of a pointer or a key has a detail, or none follows.
  button.addEventListener("click", (event) => {
    if (event.detail === 0 && !holding) void record(true);
  });
  byId("camera-close").addEventListener("click", () => byId("camera-dialog").close());
  byId("camera-dialog").addEventListener("close", stop);
}

/** Open the camera for a class, or, with null, to try. */
export async function openCamera(label) {
  target = label;
  if (!navigator.mediaDevices?.getUserMedia) {
    choosePhoto(); // browsers allow camera access on secure pages only; a phone's own camera always works
    return;
  }
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    byId("camera-video").srcObject = stream;
  } catch (error) {
    complain(`The camera cannot be used: ${error.message}`);
    return;
  }
  byId("camera-title").textContent = label === null ? "What is this?" : `Photos of ${label}`;
  byId("camera-take").textContent = label === null ? "Keep this photo" : "Take photo, or hold to record";
  byId("camera-count").textContent = "";
  byId("camera-answer").textContent = "";
  byId("camera-dialog").showModal();
  byId("camera-take").focus();
  if (label === null) film();
}

function choosePhoto() {
  const input = make("input", { type: "file", accept: "image/*", capture: "environment" });
  input.addEventListener("change", () => onPhotos([...input.files], target));
  input.click();
}

/** Take a photo, and for a class others while the button is held; all of them are added when it is released. */
async function record(once = false) {
  if (holding) return;
  holding = !once && target !== null;
  byId("camera-count").textContent = "";
  const files = [];
  do {
    const file = await frame(files.length);
    if (!file) break;
    files.push(file);
    byId("camera-count").textContent = photos(files.length);
    if (holding) await new Promise((done) => setTimeout(done, HOLD));
  } while (holding && files.length < MOST && byId("camera-dialog").open);
  holding = false;
  onPhotos(files, target);
}

function stop() {
  holding = false;
  const video = byId("camera-video");
  video.srcObject?.getTracks().forEach((track) => track.stop());
  video.srcObject = null;
}

/** Classify what the camera sees, again and again, while the dialog is open. */
async function film() {
  while (byId("camera-dialog").open && target === null) {
    try {
      const file = await frame();
      if (file) {
        const text = await describe(file);
        // Only what is new is read out.
        if (byId("camera-answer").textContent !== text) byId("camera-answer").textContent = text;
      }
    } catch (error) {
      byId("camera-answer").textContent = error.message;
    }
    await new Promise((done) => setTimeout(done, PAUSE));
  }
}

/** What the camera sees now, as a JPEG file; null as long as it sees nothing. */
async function frame(number = 0) {
  const video = byId("camera-video");
  if (!video.videoWidth) return null;
  const scale = Math.min(1, LONGEST_SIDE / Math.max(video.videoWidth, video.videoHeight));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(scale * video.videoWidth);
  canvas.height = Math.round(scale * video.videoHeight);
  canvas.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
  const time = new Date().toLocaleTimeString("en-GB").replaceAll(":", ".");
  return new File([blob], `camera ${time}${number ? ` ${number + 1}` : ""}.jpg`, { type: "image/jpeg" });
}
