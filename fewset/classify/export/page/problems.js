// Why a browser cannot read a photo, and what to do about it.

const HEIC = ["heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs", "mif1", "msf1"];
const LARGE = 50; // megapixels; what is smaller is no trouble to any browser
const HEAD = 2 ** 18; // bytes in which a file says what it is; a camera's preview may come before the size

/** The result of work on a photo; an error with the reason and what to do where the browser fails at it. */
export async function readable(file, work) {
  try {
    return await work();
  } catch {
    const bytes = new DataView(await file.slice(0, HEAD).arrayBuffer());
    throw new Error(`${file.name}: ${reason(bytes)}`);
  }
}

function reason(bytes) {
  if (letters(bytes, 4) === "ftyp" && HEIC.includes(letters(bytes, 8))) {
    return "this browser cannot read HEIC. Save the photo as JPEG; for new photos of an iPhone choose Settings, Camera, "
      + "Formats, Most Compatible";
  }
  const [width, height] = size(bytes);
  if (width * height > 1e6 * LARGE) {
    return `${width} × ${height} pixels are too many for this browser. Save a copy of at most ${LARGE} megapixels, or `
      + "choose a lower resolution in the camera";
  }
  return "this browser cannot read it as an image. Save it as JPEG or PNG";
}

const letters = (bytes, at) => (bytes.byteLength < at + 4 ? ""
  : String.fromCharCode(...[0, 1, 2, 3].map((place) => bytes.getUint8(at + place))));

/** Width and height of a PNG or JPEG file; zeros for others. */
function size(bytes) {
  try {
    if (letters(bytes, 12) === "IHDR") return [bytes.getUint32(16), bytes.getUint32(20)];
    if (bytes.getUint16(0) !== 0xffd8) return [0, 0];
    for (let at = 2; ; at += 2 + bytes.getUint16(at + 2)) {
      const marker = bytes.getUint16(at);
      const frame = marker >= 0xffc0 && marker <= 0xffcf && ![0xffc4, 0xffc8, 0xffcc].includes(marker);
      if (frame) return [bytes.getUint16(at + 7), bytes.getUint16(at + 5)];
      if (marker < 0xff00) return [0, 0];
    }
  } catch {
    return [0, 0]; // the file ends before
  }
}
