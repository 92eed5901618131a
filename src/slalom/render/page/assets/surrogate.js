// Explanation.predict in the page: the formula of a Slalom (values that add up or compete, bias and link) and its parts, or a plain
// sum. Scores are arrays: one log odds, or one centred logit per class.

const asRow = (part) => (Array.isArray(part) ? part : [part]);

// Return the scores for counts: how often each unit is there.
function predict(model, counts) {
  if (model.kind === "additive") return asRow(model.base).map((b, k) => b + total(counts, (c, i) => c * asRow(model.effects[i])[k]));
  const scores = competing(model, counts);
  for (const part of model.parts) {
    const more = PARTS[part.kind](part, counts, scores.length);
    scores.forEach((_, k) => { scores[k] += more[k]; });
  }
  return scores;
}

function total(counts, term) {
  return counts.reduce((sum, c, i) => (c > 0 ? sum + term(c, i) : sum), 0);
}

// link(b + sum of c u share^kappa)
function competing({ values, importances, competition, bias, link }, counts) {
  const top = importances.reduce((most, s, i) => (counts[i] > 0 ? Math.max(most, s) : most), -Infinity);
  const weight = total(counts, (c, i) => c * Math.exp(importances[i] - top));
  const shares = importances.map((s) => (Math.exp(s - top) / weight) ** competition);
  const scores = asRow(bias).map((b, k) => b + total(counts, (c, i) => c * asRow(values[i])[k] * shares[i]));
  return link ? scores.map((z) => link[0] + link[1] * Math.tanh((z - link[0]) / link[1])) : scores;
}

// Sum of pulls of the parts of the text that were asked, which fade with the distance: the rates of the units that differ.
function neighbours(part, counts, n) {
  part.kept ??= unpacked(part.rows, part.pulls.length, part.rates.length);
  const scores = new Array(n).fill(0);
  part.kept.forEach((kept, row) => {
    const distance = part.rates.reduce((sum, rate, atom) => {
      const c = counts[part.unit_of_atom[atom]];
      return sum + rate * (kept[atom] ? 1 - c : c);
    }, 0);
    const near = Math.exp(-distance);
    asRow(part.pulls[row]).forEach((pull, k) => { scores[k] += near * pull; });
  });
  return scores;
}

// Rows of bits from base64, each row padded to whole bytes.
function unpacked(text, rows, n) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const width = Math.ceil(n / 8);
  return Array.from({ length: rows }, (_, row) => Array.from({ length: n }, (_, i) => (bytes[row * width + (i >> 3)] >> (7 - (i & 7))) & 1));
}

// Sum of h over the knots: each has a table of offsets by the number of atoms that are missing before it.
function shifted({ units, knots, sizes, offsets }, counts, n) {
  const missing = new Array(offsets.length).fill(0);
  units.forEach((unit, entry) => { missing[knots[entry]] += sizes[entry] * (1 - counts[unit]); });
  const scores = new Array(n).fill(0);
  let gone = 0;
  offsets.forEach((table, knot) => {
    gone += missing[knot];
    const at = Math.min(Math.max(gone, 0), table.length);
    const low = Math.min(Math.floor(at), table.length - 1);
    const [here, next] = [asRow(table[low]), low + 1 < table.length ? asRow(table[low + 1]) : new Array(n).fill(0)];
    for (let k = 0; k < n; k++) scores[k] += here[k] + (at - low) * (next[k] - here[k]);
  });
  return scores;
}

// Sum of the effects of units that are present (i + 1) or absent (-(i + 1)) together; 0 fills up.
function conjunctions({ literals, effects }, counts, n) {
  const scores = new Array(n).fill(0);
  literals.forEach((term, row) => {
    const product = term.reduce((all, i) => (i > 0 ? all * counts[i - 1] : i < 0 ? all * (1 - counts[-i - 1]) : all), 1);
    if (product !== 0) asRow(effects[row]).forEach((effect, k) => { scores[k] += product * effect; });
  });
  return scores;
}

const PARTS = { neighbours, shifts: shifted, conjunctions };

// Return probabilities: of the one target, or of every class.
function probabilities(scores) {
  if (scores.length === 1) return [1 / (1 + Math.exp(-scores[0]))];
  const top = Math.max(...scores);
  const weights = scores.map((s) => Math.exp(s - top));
  const sum = weights.reduce((all, w) => all + w, 0);
  return weights.map((w) => w / sum);
}
