// The answers as a CSV table with the columns of `fewset predict --csv`.

const DIGITS = 4;
const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet would compute it

const rounded = (number) => String(Number(number.toFixed(DIGITS)));

function cell(text) {
  const harmless = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

/** The table of answers {name, top, closeness, nearest}; `absent` is the class of those that are rejected. */
export function table(answers, top, rejected, absent) {
  const places = Array.from({ length: top }, (_, place) => place);
  const head = ["file", "class", "probability", "closeness", "nearest", "problem",
    ...places.flatMap((place) => [`class_${place + 1}`, `probability_${place + 1}`])];
  const lines = answers.map((answer) => {
    const [best] = answer.top;
    const none = rejected(answer);
    const likeliest = places.flatMap((place) => {
      const each = answer.top[place];
      return each ? [cell(each.label), rounded(each.probability)] : ["", ""];
    });
    return [cell(answer.name), cell(none ? absent : best.label), none ? "" : rounded(best.probability),
      rounded(answer.closeness), cell(answer.nearest.name), "", ...likeliest];
  });
  return `\ufeff${[head, ...lines].map((line) => line.join(",")).join("\n")}\n`; // the mark tells Excel that it is UTF-8
}
