// How often the surrogate's guess was right, over all removals of this visit. Each removal counts once.

class Tally {
  constructor() {
    this.asked = new Map(); // removal: { right, difference, scale, within }
  }

  add(key, reading, keep, scores) {
    const guess = reading.predict(keep)[reading.at];
    this.asked.set(key, {
      right: judged(reading, keep, scores),
      difference: Math.abs(guess - scores[reading.at]),
      scale: reading.content.score_name,
      within: hasIntervals(reading),
    });
  }

  // One sentence per kind of score; nothing before the first answer.
  draw(holder) {
    const groups = new Map();
    for (const asked of this.asked.values()) {
      const name = `${asked.scale} ${asked.within}`;
      groups.set(name, [...(groups.get(name) ?? []), asked]);
    }
    holder.replaceChildren(...[...groups.values()].map((group) => {
      const right = group.filter((asked) => asked.right).length;
      const mean = group.reduce((sum, asked) => sum + asked.difference, 0) / group.length;
      const means = group[0].within ? "the model's answer was within the 95% interval of the guess" : "guess and answer were on the same side of zero";
      return make("p", { class: "tally" }, make("b", {}, `Right in ${right} of ${group.length}`), `: ${means}. Mean absolute difference ${plain(mean, 3)} (${group[0].scale}).`);
    }));
  }
}
