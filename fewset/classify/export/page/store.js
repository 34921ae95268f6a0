// What is added and set here is kept in this browser, and nowhere else, until it is removed or the browser forgets
// the site.

const NAME = "fewset";
const PHOTOS = "added";

function opened() {
  return new Promise((done, fail) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(PHOTOS);
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
}

async function transact(mode, ask) {
  const database = await opened();
  try {
    return await new Promise((done, fail) => {
      const request = ask(database.transaction(PHOTOS, mode).objectStore(PHOTOS));
      request.onsuccess = () => done(request.result);
      request.onerror = () => fail(request.error);
    });
  } finally {
    database.close();
  }
}

/** Photos go with the page at this address and with the encoder that made their rows. */
const key = (digest) => `${location.pathname} ${digest}`;

export const load = async (digest) => (await transact("readonly", (store) => store.get(key(digest)))) ?? [];
export const save = (digest, photos) => transact("readwrite", (store) => store.put(photos, key(digest)));

const REJECTION = `${NAME} rejection ${location.pathname}`;

/** Whether "none of these" is answered, as the user has set it; null if they have not, or nothing can be kept. */
export function rejection() {
  try {
    return JSON.parse(localStorage.getItem(REJECTION));
  } catch {
    return null;
  }
}

export function keepRejection(checked) {
  try {
    localStorage.setItem(REJECTION, JSON.stringify(checked));
  } catch {
    // a browser that keeps nothing: the setting holds until the page is closed
  }
}
