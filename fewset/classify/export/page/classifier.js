// The classifier of head.json, with the photos that are added here. As long as there are none it answers as it was
// exported; from then on by ridge regression on all photos, those of head.json and those from here.

import { cosines, mapped, prepared, probabilities, prototypes, regression, ridge } from "./head.js";

export class Classifier {
  constructor(description) {
    this.description = description;
    const { features, labels, names, thumbnails } = description.support;
    const rows = rowsOf(numbers(features), features.shape[1]);
    this.given = rows.map((row, number) => ({
      row,
      name: names[number],
      label: String(description.classes[labels[number]]),
      thumbnail: thumbnails[number] && `data:image/jpeg;base64,${thumbnails[number]}`,
      added: false,
    }));
    this.setAdded([]);
  }

  /** Learn from these photos, {row, name, label, thumbnail}, beside those of head.json. */
  setAdded(added) {
    const { classes, head, refit, closeness } = this.description;
    this.added = added.map((photo) => ({ ...photo, added: true }));
    this.photos = [...this.given, ...this.added];
    this.classes = [...new Set([...classes.map(String), ...added.map(({ label }) => label)])];
    const labels = this.photos.map(({ label }) => this.classes.indexOf(label));
    this.linear = added.length
      ? ridge(this.photos.map(({ row }) => row), labels, this.classes.length, refit)
      : { ...head, shift: numbers(head.shift), weight: numbers(head.weight), bias: numbers(head.bias) };
    this.shots = this.photos.map(({ row }) => prepared(row, closeness.power));
    this.prototypes = prototypes(this.shots, labels, this.classes.length);
    this.weight = added.length
      ? regression(this.shots, labels, this.classes.length, closeness.strength)
      : numbers(closeness.weight);
  }

  /** Whether "none of these" can be said at all. */
  get canReject() {
    return this.description.threshold !== null;
  }

  /** What a photo is: all classes, the likeliest first, how close it is, and the labelled photo that is nearest. */
  answer(row) {
    const shares = probabilities(row, this.linear);
    const top = this.classes
      .map((label, place) => ({ label, place, probability: shares[place] }))
      .sort((one, other) => other.probability - one.probability);
    const ready = prepared(row, this.description.closeness.power);
    const toShots = cosines(ready, this.shots);
    const nearest = this.photos[toShots.indexOf(largest(toShots))];
    const cosine = Math.max(largest(toShots), largest(cosines(ready, this.prototypes)));
    const closeness = (cosine + largest(mapped(ready, this.weight, this.classes.length))) / 2;
    return { top, closeness, nearest, unlike: this.canReject && closeness < this.description.threshold };
  }
}

const largest = (values) => values.reduce((one, other) => Math.max(one, other));

/** The numbers of an array of head.json. */
function numbers({ dtype, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return dtype === "float32" ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
}

function rowsOf(values, dim) {
  return Array.from({ length: values.length / dim }, (_, number) => values.subarray(number * dim, (number + 1) * dim));
}
