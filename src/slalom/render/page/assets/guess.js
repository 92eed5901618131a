// What the surrogate predicts for the units that are kept and, where it was asked, what the model itself answers.

class Guess {
  constructor(ui, prefix) {
    this.ui = ui;
    this.id = (name) => prefix + name;
  }

  // answer: undefined where no model can be asked; null before it is; "waiting"; or { scores: [...] }
  show(reading, keep, answer) {
    const { ui } = this;
    const whole = reading.predict(new Array(keep.length).fill(1));
    const now = reading.predict(keep);
    const away = keep.filter((kept) => !kept).length;
    ui.restore.disabled = away === 0;
    const said = [this.surrogate(reading, keep, whole, now, away)];
    const asked = answer !== undefined && away > 0;
    if (asked) said.push(this.model(reading, keep, now, answer));
    ui["live-said"].replaceChildren(...said);
    ui["live-said"].classList.toggle("asked", said.length > 1);
    this.bars(reading, keep, whole, now, away && answer?.scores ? answer.scores : null);
    ui["bars-model"].hidden = !asked;
  }

  surrogate(reading, keep, whole, now, away) {
    const { content, at: c } = reading;
    const lead = away === 0 ? "slalom's prediction, whole text" : `slalom's prediction without ${plural(away, reading.noun)}`;
    const said = make("p", {}, make("span", { class: "term" }, lead));
    const around = reading.around(keep);
    const exact = around === null || Number(around.toFixed(3)) === 0; // the whole text was asked: nothing is uncertain
    said.append(
      make("b", { id: this.id("now"), class: content.answer ? "" : now[c] < 0 ? "minus" : "plus" }, signed(now[c], 3)),
      ...(exact ? [] : [make("span", { class: "soft", id: this.id("now-within"), title: "95% interval of the model's answer" }, plusMinus(around, 3))]),
      make("span", { class: "soft" }, content.score_name),
      ...(reading.probable ? [make("span", { class: "soft", id: this.id("now-probability") }, percent(probabilities(now)[c]))] : []),
    );
    const change = away ? `${signed(now[c] - whole[c], 3)} compared with the whole text` : `click a ${reading.noun} to see its effect`;
    said.append(make("span", { class: `change ${away ? "soft" : "help"}`, id: this.id("change") }, change));
    return said;
  }

  // Before the model answers there is room for what it will say: nothing below, such as a button, may move when it does.
  model(reading, keep, now, answer) {
    const { at: c, content } = reading;
    const scores = answer?.scores;
    const score = (scores ?? now)[c];
    const difference = `differs by ${plain(Math.abs(score - now[c]), 3)}`;
    const right = !scores || judged(reading, keep, scores);
    const part = (kind, name, text) => make("span", scores ? { class: kind, ...(name && { id: this.id(name) }) } : { class: `${kind} reserved` }, text);
    return make("p", { class: "model" },
      make("span", { class: "term" }, "The model itself"),
      make("b", { id: this.id("model-now"), class: !scores ? "soft" : content.answer ? "" : score < 0 ? "minus" : "plus" }, scores ? signed(score, 3) : answer === "waiting" ? "…" : "–"),
      ...(scores ? [] : [make("span", { class: "hidden" }, "the model is being asked")]),
      part("soft", null, content.score_name),
      ...(reading.probable ? [part("soft", "model-probability", percent(probabilities(scores ?? now)[c]))] : []),
      part(`change verdict ${right ? "yes" : "no"}`, "verdict", `${right ? "✓" : "✗"} ${difference}, ${right ? rightMeans(reading) : wrongMeans(reading)}`),
    );
  }

  bars(reading, keep, whole, now, answered) {
    const { ui } = this;
    const { content, several } = reading;
    const around = several || now === null ? null : reading.around(keep); // the other classes move too, so only one target has an interval
    ui["bars-help"].hidden = !reading.probable;
    ui["bars-within"].hidden = around === null;
    const labels = !reading.probable ? [] : several ? content.labels : [content.target];
    const [before, after] = [probabilities(whole ?? [0]), now && probabilities(now)];
    const own = answered && probabilities(answered);
    const rows = labels.map((label, k) => {
      const fill = make("span", { class: "fill" });
      const tick = make("span", { class: "tick", title: `whole text: ${percent(before[k])}` });
      fill.style.width = `${after ? 100 * after[k] : 0}%`;
      tick.style.left = `${100 * before[k]}%`;
      const marks = [];
      if (around !== null) {
        const [least, most] = [-around, around].map((change) => probabilities([now[0] + change])[0]);
        const whisker = make("span", { class: "whisker", title: `95% interval: ${percent(least)} to ${percent(most)}` });
        whisker.style.left = `${100 * least}%`;
        whisker.style.width = `${100 * (most - least)}%`;
        marks.push(whisker);
      }
      if (own) {
        const diamond = make("span", { class: "diamond", title: `the model: ${percent(own[k])}` });
        diamond.style.left = `${100 * own[k]}%`;
        marks.push(diamond);
      }
      const share = after ? percent(after[k]) : "–";
      const row = make("div", { class: "prob" }, make("span", { class: "label", dir: "auto", title: label }, label),
        make("span", { class: "track", "aria-hidden": "true" }, fill, ...marks, tick), make("span", { class: "share" }, share));
      row.classList.toggle("chosen", several && k === reading.column);
      return { row, before: before[k] };
    });
    ui.bars.classList.toggle("several", several);
    ui.bars.replaceChildren(...rows.sort((a, b) => b.before - a.before).map(({ row }) => row));
  }
}

// Whether a guess is right: the model's answer is within its 95% interval; where there are no intervals, on its side of zero.
function judged(reading, keep, scores) {
  const [guess, answer] = [reading.predict(keep)[reading.at], scores[reading.at]];
  const around = reading.around(keep);
  return around === null ? guess < 0 === answer < 0 : Math.abs(answer - guess) <= around;
}

const hasIntervals = (reading) => Boolean(reading.content.spread?.length);
const rightMeans = (reading) => (hasIntervals(reading) ? "within the interval" : "on the same side of zero");
const wrongMeans = (reading) => (hasIntervals(reading) ? "outside the interval" : "on the other side of zero");
