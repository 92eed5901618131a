// What is known of one explanation, for one of its classes. `content` is what slalom.render.page.content makes: its `scores`
// are the rows of slalom.result.SCORES, with the numbers of this explanation.

const PROBABLE = ["log odds", "centred logit"]; // names of scores that are probabilities

class Reading {
  constructor(content, column) {
    this.content = content;
    this.column = column; // of the class
    this.kinds = content.scores;
    this.rows = Object.fromEntries(content.scores.map((score) => [score.name, score]));
  }

  get several() { return Array.isArray(this.content.score); }
  get at() { return this.several ? this.column : 0; }
  get target() { return this.several ? this.content.labels[this.column] : this.content.target; }
  get score() { return this.several ? this.content.score[this.column] : this.content.score; }
  get probable() { return PROBABLE.includes(this.content.score_name); }
  get number() { return this.content.prediction === null && this.content.labels.length === 1; } // a model that predicts no class
  get opposite() { return this.content.two_classes ? this.content.labels.find((label) => label !== this.target) : null; } // of two classes
  get noun() { return this.content.unit === "type" ? "token" : this.content.unit; }

  own(part) { return part && Array.isArray(part[0]) ? part.map((row) => row[this.column]) : part; }

  // The numbers of a score; null where it is not defined.
  numbers(key) { return this.own(this.rows[key]?.numbers) ?? null; }

  // Half the 95% intervals of a score, undefined where there are none.
  within(key) { return this.own(this.rows[key]?.within) ?? undefined; }

  // Which units are not distinguishable from zero by a score. An importance of zero is the mean, not nothing.
  doubtful(key) {
    const [numbers, within] = [this.numbers(key), this.within(key)];
    return numbers.map((x, i) => !this.undirected(key) && within !== undefined && unsure(x, within[i]));
  }

  // Whether the colour of a score has no direction.
  undirected(key) { return this.rows[key].kind === "attention"; }

  written(key, x, places) { return this.rows[key].percent ? percent(x) : this.content.signed ? signed(x, places) : plain(x, places); }

  // Colour strengths: shares of what has the full colour, in [-1, 1]; in [0, 1] where the score has no sign.
  strengths(key) {
    const numbers = this.numbers(key);
    const { full } = this.rows[key];
    if (full === null) {
      const [low, high] = extent(numbers);
      return numbers.map((s) => (high > low ? (s - low) / (high - low) : 0.5));
    }
    return numbers.map((x) => Math.min(1, Math.max(-1, x / (full[this.at] || 1))));
  }

  // By how much a unit counts when units are sorted.
  sizes(key) { return this.numbers(key)?.map(Math.abs); }

  // Scores that the surrogate predicts for counts of units.
  predict(counts) { return predict(this.content.surrogate, counts); }

  // Half the 95% interval of the model's answer for what is kept, by the rule of Explanation.predict_interval; null where it is not
  // known. `spread` has knots, [tokens removed, standard error], with lines between them.
  around(keep) {
    const { spread, sizes } = this.content;
    if (!spread?.length) return null;
    const removed = sizes.reduce((sum, size, i) => sum + (keep[i] ? 0 : size), 0);
    const after = spread.findIndex(([knot]) => knot >= removed);
    const [right, above] = spread[after < 0 ? spread.length - 1 : after];
    const [left, below] = after > 0 ? spread[after - 1] : [right, above];
    const share = right > left ? Math.min(1, (removed - left) / (right - left)) : 0;
    const typical = NORMAL_95 * (asRow(below)[this.at] + share * (asRow(above)[this.at] - asRow(below)[this.at]));
    const [effects, within] = [this.numbers("removal"), this.within("removal")];
    const gone = effects.map((_, i) => i).filter((i) => !keep[i]);
    const [whole, part] = [effects.map(() => 1), keep.map(Number)].map((counts) => this.predict(counts)[this.at]);
    const expected = gone.length * effects.reduce((sum, x) => sum + x * x, 0) / effects.length;
    const relative = expected > 0 ? (whole - part) ** 2 / expected : 1;
    const single = within ? gone.reduce((sum, i) => sum + (within[i] ?? Infinity) ** 2, 0) : 0;
    return Math.sqrt(Math.max(typical ** 2 * Math.max(1, 0.5 + 0.5 * relative), single));
  }

  // " (2)" for the second of several units with one name.
  occurrence(i) {
    const { units } = this.content;
    const [before, total] = units.reduce(([sooner, all], name, j) => (name === units[i] ? [sooner + (j < i), all + 1] : [sooner, all]), [0, 0]);
    return total > 1 ? ` (${before + 1})` : "";
  }
}
