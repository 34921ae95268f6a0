// The camera: photos for a class, or a running film that is classified as it goes.

import { byId, complain, make } from "./dom.js";
import { ask } from "./server.js";

const PAUSE = 300; // between two looks, in milliseconds
const LONGEST_SIDE = 1024;

let target = null; // the class that photos go into, or null: they are tried
let onPhoto;
let describe;

export function startCamera(photoTaken, verdict) {
  onPhoto = photoTaken;
  describe = verdict;
  byId("camera-take").addEventListener("click", async () => onPhoto(await frame(), target));
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
  byId("camera-take").textContent = label === null ? "Keep this photo" : "Take photo";
  byId("camera-answer").textContent = "";
  byId("camera-dialog").showModal();
  byId("camera-take").focus();
  if (label === null) film();
}

function choosePhoto() {
  const input = make("input", { type: "file", accept: "image/*", capture: "environment" });
  input.addEventListener("change", () => [...input.files].forEach((file) => onPhoto(file, target)));
  input.click();
}

function stop() {
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
        const form = new FormData();
        form.append("photos", file, file.name);
        const { answers } = await ask("/api/classify", { method: "POST", body: form });
        const text = describe(answers[0]);
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
async function frame() {
  const video = byId("camera-video");
  if (!video.videoWidth) return null;
  const scale = Math.min(1, LONGEST_SIDE / Math.max(video.videoWidth, video.videoHeight));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(scale * video.videoWidth);
  canvas.height = Math.round(scale * video.videoHeight);
  canvas.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
  return new File([blob], `camera ${new Date().toLocaleTimeString("en-GB").replaceAll(":", ".")}.jpg`,
    { type: "image/jpeg" });
}
