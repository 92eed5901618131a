// Explanation.predict in the page: a softmax-weighted average of the values of the units that are kept, background included,
// then the link; or, with a base, a plain sum. Then the correction near the text, pairs of units and the effect of their places
// (a two-scale surrogate), and the effect of the length. Scores are arrays: one log odds, or one centred logit per class.

const asRow = (part) => (Array.isArray(part) ? part : [part]);

// Return the scores for counts (how often each unit is there), or null where they are not defined: nothing is left.
function predict(model, counts) {
  const { lengths, sizes } = model;
  let scores = model.base === null ? softmaxed(model, counts) : summed(model, counts);
  if (scores === null) return null;
  if (model.near) scores = corrected(model, counts, scores);
  if (!lengths) return scores;
  const left = Math.round(counts.reduce((sum, c, i) => sum + c * sizes[i], 0));
  const offsets = asRow(lengths[Math.min(left, lengths.length - 1)]);
  return scores.map((s, c) => s + offsets[c]);
}

// Add x^p (A - sum d c), x = sum t c, sum g c c of the pairs, and h of the shifts.
function corrected({ near, pair_units: pairs, pair_effects: effects, shifts }, counts, scores) {
  const { level, changes, shares, power } = near;
  const fade = counts.reduce((sum, k, i) => sum + k * shares[i], 0) ** power;
  const moved = shifts ? shifted(shifts, counts, scores.length) : scores.map(() => 0);
  return scores.map((s, c) => {
    const left = counts.reduce((sum, k, i) => sum - k * asRow(changes[i])[c], asRow(level)[c]);
    return pairs.reduce((sum, [i, j], k) => sum + asRow(effects[k])[c] * counts[i] * counts[j], s + fade * left + moved[c]);
  });
}

// Return the sum of h over the knots: each has a table of offsets by the number of atoms that are missing before it.
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
    for (let c = 0; c < n; c++) scores[c] += here[c] + (at - low) * (next[c] - here[c]);
  });
  return scores;
}

function summed({ values, base }, counts) {
  return asRow(base).map((b, c) => counts.reduce((sum, k, i) => sum + k * asRow(values[i])[c], b));
}

function softmaxed({ values, importances, background, link }, counts) {
  let top = background ? background[1] : -Infinity;
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] > 0) top = Math.max(top, Math.log(counts[i]) + importances[i]);
  }
  if (top === -Infinity) return null;
  const weights = Float64Array.from(counts, (c, i) => (c > 0 ? Math.exp(Math.log(c) + importances[i] - top) : 0));
  const rest = background ? Math.exp(background[1] - top) : 0;
  const total = weights.reduce((sum, w) => sum + w, rest);
  const n = asRow(values[0]).length;
  let scores = new Array(n).fill(0);
  for (let i = 0; i < counts.length; i++) {
    if (weights[i] === 0) continue;
    const row = asRow(values[i]);
    for (let c = 0; c < n; c++) scores[c] += (weights[i] / total) * row[c];
  }
  if (background) asRow(background[0]).forEach((v, c) => { scores[c] += (rest / total) * v; });
  if (link) {
    const [middle, reach] = link.map(asRow);
    scores = scores.map((s, c) => middle[c] + reach[c] * Math.tanh((s - middle[c]) / reach[c]));
    if (n > 1) {
      const mean = scores.reduce((sum, s) => sum + s, 0) / n;
      scores = scores.map((s) => s - mean);
    }
  }
  return scores;
}

// Return probabilities: of the one target, or of every class.
function probabilities(scores) {
  if (scores.length === 1) return [1 / (1 + Math.exp(-scores[0]))];
  const top = Math.max(...scores);
  const weights = scores.map((s) => Math.exp(s - top));
  const total = weights.reduce((sum, w) => sum + w, 0);
  return weights.map((w) => w / total);
}
