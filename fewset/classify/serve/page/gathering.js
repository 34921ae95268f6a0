// Photos from a drop, the clipboard or a file input: files and whole folders.

const PHOTO = /\.(jpe?g|png|bmp|gif|tiff?|webp|avif|hei[cf])$/i;

const isPhoto = (file) => file.type.startsWith("image/") || PHOTO.test(file.name);

/** [{file, folder}] of files that were chosen; the folder is the one that a file lies in, or "". */
export function chosen(files) {
  return [...files].filter(isPhoto).map((file) => {
    const parts = (file.webkitRelativePath || "").split("/");
    return { file, folder: parts.length > 1 ? parts.at(-2) : "" };
  });
}

/** [{file, folder}] of a drop, folders in folders included. */
export async function dropped(transfer) {
  // The entries must be taken at once: after the first pause they are gone.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return chosen(transfer.files);
  const found = [];
  for (const entry of entries) await walk(entry, "", found);
  return found.filter(({ file }) => isPhoto(file));
}

async function walk(entry, folder, found) {
  if (entry.name.startsWith(".")) return;
  if (entry.isFile) {
    found.push({ file: await new Promise((done, fail) => entry.file(done, fail)), folder });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    // A reader gives a hundred entries at a time, and none at the end.
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!some.length) return;
    for (const each of some) await walk(each, entry.name, found);
  }
}

export const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

/** Photos of the clipboard. */
export const pasted = (event) => [...(event.clipboardData?.files ?? [])].filter(isPhoto);

/** Let files be dropped on an element. */
export function droppable(element, onDrop) {
  const over = (event) => {
    if (!accepts(event)) return;
    event.preventDefault();
    event.stopPropagation();
    element.classList.add("over");
  };
  element.addEventListener("dragover", over);
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    if (!accepts(event)) return;
    event.preventDefault();
    event.stopPropagation();
    element.classList.remove("over");
    onDrop(event);
  });
}

export const MOVED = "application/x-fewset-photo";
const accepts = (event) => hasFiles(event) || [...event.dataTransfer.types].includes(MOVED);
