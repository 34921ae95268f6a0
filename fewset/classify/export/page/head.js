// The computations of a classifier on rows of features, arrays of values in double precision.

/** sign(x) |x|^power at length 1. */
export function prepared(row, power) {
  return unit(Float64Array.from(row, (value) => Math.sign(value) * Math.abs(value) ** power));
}

/** The probability of each class. `weight` has a row a feature and a column a class. */
export function probabilities(row, { power, shift, weight, bias, temperature }) {
  const centred = unit(prepared(row, power).map((value, place) => value - shift[place]));
  const logits = mapped(centred, weight, bias.length).map((value, label) => value + bias[label]);
  const largest = Math.max(...logits);
  const shares = logits.map((logit) => Math.exp((logit - largest) / temperature));
  const sum = shares.reduce((total, share) => total + share, 0);
  return shares.map((share) => share / sum);
}

/** The product of a row with a matrix that has a row a feature and a column a class. */
export function mapped(row, weight, way) {
  const values = new Float64Array(way);
  for (let place = 0; place < row.length; place++) {
    for (let label = 0; label < way; label++) values[label] += row[place] * weight[place * way + label];
  }
  return values;
}

/**
 * Ridge regression from the rows to their classes, in closed form: fewset's head "ridge". Rows are prepared, freed
 * of the mean of the class means, and brought to length 1. The regression takes the means of the classes at length
 * 1, with a target of 1 for the class, and what each row differs from the mean of its class by, times b, with targets
 * of 0; b² is the mean number of photos over that of its class. With these rows Z and targets Y the weights are
 * scale · √K · Zᵀ (Z Zᵀ + strength · 1)⁻¹ Y, with K the mean number of photos of a class.
 */
export function ridge(rows, labels, way, { power, strength, scale }) {
  const dim = rows[0].length;
  const ready = rows.map((row) => prepared(row, power));
  const counts = new Float64Array(way);
  for (const label of labels) counts[label] += 1;
  const shift = new Float64Array(dim);
  ready.forEach((row, number) => {
    const share = 1 / (counts[labels[number]] * way);
    for (let place = 0; place < dim; place++) shift[place] += share * row[place];
  });
  const centred = ready.map((row) => unit(row.map((value, place) => value - shift[place])));
  const means = Array.from({ length: way }, () => new Float64Array(dim));
  centred.forEach((row, number) => {
    const label = labels[number];
    row.forEach((value, place) => { means[label][place] += value / counts[label]; });
  });
  const differences = centred.map((row, number) => {
    const label = labels[number];
    const balance = Math.sqrt(labels.length / way / counts[label]);
    return row.map((value, place) => balance * (value - means[label][place]));
  });
  const known = [...means.map(unit), ...differences];
  const grown = scale * Math.sqrt(labels.length / way);
  const weight = regression(known, [...means.keys()], way, strength).map((value) => grown * value);
  return { power, shift, weight, bias: new Float64Array(way), temperature: 1 };
}

/** The weights of ridge regression: a row's target is 1 for its class; rows after the labels have targets of 0. */
export function regression(rows, labels, way, strength) {
  const factor = cholesky(rows.map((row, number) =>
    Float64Array.from({ length: number + 1 }, (_, other) =>
      dot(row, rows[other]) + (other === number ? strength : 0))));
  const weight = new Float64Array(rows[0].length * way);
  for (let label = 0; label < way; label++) {
    const found = solve(factor, rows.map((_, number) => (labels[number] === label ? 1 : 0)));
    rows.forEach((row, number) => {
      for (let place = 0; place < row.length; place++) weight[place * way + label] += found[number] * row[place];
    });
  }
  return weight;
}

/** The cosine of a row to each of the others; all are prepared with the same power. */
export const cosines = (row, others) => others.map((other) => dot(row, other));

/** The rows of each class added up, at length 1. */
export function prototypes(rows, labels, way) {
  const sums = Array.from({ length: way }, () => new Float64Array(rows[0].length));
  rows.forEach((row, number) => row.forEach((value, place) => { sums[labels[number]][place] += value; }));
  return sums.map(unit);
}

function unit(row) {
  const length = Math.max(Math.sqrt(dot(row, row)), 1e-12);
  return row.map((value) => value / length);
}

function dot(one, other) {
  let sum = 0;
  for (let place = 0; place < one.length; place++) sum += one[place] * other[place];
  return sum;
}

/** The lower triangle L of L Lᵀ = matrix, of which the lower triangle is given; it takes its place. */
function cholesky(matrix) {
  matrix.forEach((row, i) => {
    for (let j = 0; j <= i; j++) {
      let rest = row[j];
      for (let k = 0; k < j; k++) rest -= row[k] * matrix[j][k];
      row[j] = i === j ? Math.sqrt(rest) : rest / matrix[j][j];
    }
  });
  return matrix;
}

/** The x of L Lᵀ x = y. */
function solve(factor, y) {
  const x = Float64Array.from(y);
  for (let i = 0; i < x.length; i++) {
    for (let k = 0; k < i; k++) x[i] -= factor[i][k] * x[k];
    x[i] /= factor[i][i];
  }
  for (let i = x.length - 1; i >= 0; i--) {
    for (let k = i + 1; k < x.length; k++) x[i] -= factor[k][i] * x[k];
    x[i] /= factor[i][i];
  }
  return x;
}
