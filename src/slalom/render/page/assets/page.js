// The page: which text is shown, which score colours it, which units are removed, which one is looked at.

const SCORES = [
  ["removal", "Removal", "by how much the score falls when the unit is removed"],
  ["linear", "Linear", "value times weight, the linearised score"],
  ["gradient", "Gradient", "derivative of the score by the unit's presence"],
  ["shapley", "Shapley", "the unit's share of the score, averaged over all orders of adding units"],
  ["value", "Value", "what the unit says, for or against"],
  ["importance", "Importance", "how loudly the unit says it"],
];
const PLURALS = { sentence: "Sentences", paragraph: "Paragraphs", document: "Documents", turn: "Turns" };
const WITHOUT_SIGN = [["removal", "Score", "how much the unit counts, neither for nor against"]];

const entries = JSON.parse(byId("entries").textContent);
const contents = document.querySelectorAll("script.content");
const taken = new Map(); // per text: which units are kept
const state = { at: 0, text: null, score: "removal", class: 0, keep: [], spans: [] };

const hooks = { over: (unit, element) => look(unit, element), out: () => look(null), toggle: (unit) => toggle(unit) };
const scatter = new Scatter(byId("scatter"), hooks);
const table = new Table(byId("table"), hooks);

// --- what is known of the text that is shown

const several = () => Array.isArray(state.text.score);
const target = () => (several() ? state.text.labels[state.class] : state.text.target);
const column = (part) => (part && Array.isArray(part[0]) ? part.map((row) => row[state.class]) : part);
const numbersOf = (key) => {
  const { surrogate, scores } = state.text;
  if (!scoreKinds().some(([name]) => name === key)) return null;
  if (["value", "importance", "linear"].includes(key) && !state.text.told_apart) return null;
  return key === "value" ? column(surrogate.values) : key === "importance" ? surrogate.importances : column(scores[key]);
};
// Half the 95% intervals of a score, undefined where there are none; and which units are not told from zero by it. An importance of
// zero is the mean, not nothing.
const withinOf = (key) => column(state.text.within[key]);
const doubtful = (key) => {
  const [numbers, within] = [numbersOf(key), withinOf(key)];
  return numbers.map((x, i) => key !== "importance" && within !== undefined && unsure(x, within[i]));
};
const scoreKinds = () => (state.text.signed ? SCORES : WITHOUT_SIGN);
const neutral = () => state.score === "importance" || !state.text.signed; // whether the colour has no direction
const written = (x, places) => (state.text.signed ? signed(x, places) : plain(x, places));
const probable = () => ["log odds", "centred logit"].includes(state.text.score_name); // whether scores are probabilities
const noun = () => (state.text.unit === "type" ? "token" : state.text.unit);
const gone = () => state.keep.map((kept) => !kept);

// Colour strengths of the chosen score: shares of what has the full colour, in [-1, 1]; in [0, 1] where the score has no sign.
function strengths() {
  const numbers = numbersOf(state.score);
  if (state.score === "importance") {
    const [low, high] = extent(numbers);
    return numbers.map((s) => (high > low ? (s - low) / (high - low) : 0.5));
  }
  const full = state.text.full[state.score][several() ? state.class : 0] || 1;
  return numbers.map((x) => Math.min(1, Math.max(-1, (neutral() ? Math.abs(x) : x) / full)));
}

// --- drawing

function show(at) {
  state.at = at;
  state.text = JSON.parse(contents[at].textContent);
  const { text } = state;
  if (!taken.has(at)) taken.set(at, new Array(text.units.length).fill(1));
  state.keep = taken.get(at);
  state.class = text.leading;
  if (numbersOf(state.score) === null) state.score = "removal";
  byId("main").classList.toggle("effects-only", !text.told_apart);
  byId("main").classList.toggle("no-sign", !text.signed); // such scores predict nothing, so nothing can be removed
  byId("live").hidden = byId("text-help").hidden = !text.signed;
  tip.hide();
  drawChoices();
  drawText();
  drawFacts();
  drawLive();
  byId("index-list").querySelectorAll("a").forEach((link, k) => {
    if (k === at) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  byId("where").textContent = `Text ${at + 1} of ${entries.length}`;
  byId("previous").disabled = at === 0;
  byId("next").disabled = at === entries.length - 1;
  rescore();
}

// All that depends on the chosen class or score.
function rescore() {
  drawHead();
  recolour(true);
  drawTable();
  drawPairs();
}

// The question and the answer of a language model; the part that is explained is marked.
function answerTiles({ question, parts: [before, part, after], generated }, tile) {
  const said = make("span", { class: "answer", id: "answer", dir: "auto" }, before, make("mark", {}, part), after);
  const means = before || after ? ", the marked part is explained" : "";
  return [
    ...(question ? [tile("Question", make("span", { class: "answer", id: "question", dir: "auto" }, question))] : []),
    tile(`Answer (${generated ? "written by the model" : "given"})${means}`, said),
  ];
}

function drawHead() {
  const { prediction, score, answer } = state.text;
  const tile = (name, ...said) => make("div", {}, make("span", { class: "term" }, name), make("span", { class: "said" }, ...said));
  const own = several() ? score[state.class] : score;
  byId("text-title").textContent = answer ? "Sources" : "Text";
  byId("head").classList.toggle("answered", answer !== null);
  byId("head").replaceChildren(...(answer ? answerTiles(answer, tile) : [
    prediction
      ? tile("The model predicts", make("b", { dir: "auto" }, prediction[0]), make("span", { class: "soft" }, prediction[1] === null ? "" : percent(prediction[1])))
      : tile("The model predicts", make("span", { class: "soft" }, "not known")),
    tile("Explained class", make("b", { dir: "auto" }, target())),
  ]),
    tile(`Score (${state.text.score_name})`, make("b", { id: "score", class: answer ? "" : own < 0 ? "minus" : "plus" }, signed(own, 3))),
  );
  for (const spot of document.querySelectorAll(".noun")) spot.textContent = noun();
  for (const spot of document.querySelectorAll(".target")) spot.textContent = target();
}

function drawChoices() {
  byId("class-pick").hidden = !several();
  byId("class").replaceChildren(...(several() ? state.text.labels.map((label, c) => make("option", { value: c }, label)) : []));
  byId("class").value = String(state.class);
  const legend = byId("scores").querySelector("legend");
  byId("scores").replaceChildren(legend, ...scoreKinds().map(([key, label, title]) => {
    const input = make("input", { type: "radio", name: "score", value: key });
    input.checked = key === state.score;
    input.disabled = numbersOf(key) === null;
    return make("label", { title: input.disabled ? "not defined for this text" : title }, input, make("span", {}, label));
  }));
}

function drawText() {
  const { pieces, units } = state.text;
  state.spans = [];
  let after = ""; // the last character so far: a line may end with one or two
  const shown = document.createDocumentFragment(); // a spread of a hundred thousand arguments would be too many
  for (const [raw, unit] of pieces) {
    const text = (after === "\r" && raw[0] === "\n" ? raw.slice(1) : raw).replace(/\r\n?/g, "\n");
    after = raw.at(-1) ?? after;
    if (unit === null) {
      shown.append(text);
      continue;
    }
    const span = make("span", { class: "unit", role: "button", tabindex: "-1", "data-i": unit, "aria-pressed": "false" }, text);
    if (!text.trim()) {
      span.classList.add(text ? "blank" : "chip");
      span.dataset.name = brief(text || units[unit], 12);
      span.setAttribute("aria-label", brief(units[unit]));
    }
    state.spans[unit] = span;
    shown.append(span);
  }
  byId("text").replaceChildren(shown);
  byId("text").querySelector(".unit")?.setAttribute("tabindex", "0");
  markGone();
}

function recolour(moved = false) {
  const shares = strengths();
  const undirected = neutral();
  const doubt = doubtful(state.score);
  state.spans.forEach((span, i) => {
    const side = undirected ? "neutral" : shares[i] < 0 ? "against" : "for";
    if (!span.classList.contains(side)) {
      span.classList.remove("neutral", "for", "against");
      span.classList.add(side);
    }
    span.style.setProperty("--t", Math.abs(shares[i]).toFixed(3));
    span.classList.toggle("unsure", doubt[i]);
  });
  const key = (side, ...said) => make("span", { class: `key ${side}` }, ...said);
  const named = () => make("bdi", {}, target());
  const title = scoreKinds().find(([name]) => name === state.score)[2];
  const more = state.text.signed ? "louder" : "counts more";
  byId("legend").replaceChildren(
    ...(undirected ? [key("neutral", more)] : [key("for", "for ", named()), key("against", "against ", named())]),
    ...(doubt.some(Boolean) ? [key(`${undirected ? "neutral" : "for"} unsure`, "not told from zero")] : []),
    make("span", { class: "means" }, `Colour: ${title}.`),
  );
  const { units, surrogate, weights } = state.text;
  const background = surrogate.background && [asRow(surrogate.background[0])[several() ? state.class : 0], surrogate.background[1]];
  const order = units.map((_, i) => i).sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a]));
  const look = { strengths: shares, undirected, order };
  byId("scatter-card").hidden = !state.text.told_apart;
  if (!state.text.told_apart) return;
  const frame = state.text.frames[several() ? state.class : 0];
  drawPale(frame);
  if (moved) scatter.show({ names: units, x: numbersOf("value"), y: surrogate.importances, weights, frame, background, gone: gone(), ...look });
  else scatter.paint(look);
}

function drawPale({ x: [low, high], pale }) {
  const outside = numbersOf("value").some((v) => v < low || v > high);
  byId("scatter-pale").hidden = !pale.length;
  byId("scatter-pale").textContent = ` Pale (${pale.length} of ${state.text.units.length}): not determined, the 95% interval of value or`
    + ` importance is too wide to say where it is.${outside ? " A triangle on the edge: its value is further out." : ""}`;
}

function drawTable() {
  const { units, weights } = state.text;
  const shown = ["removal", "value", "importance"].filter((key) => numbersOf(key) !== null && withinOf(key) !== undefined);
  byId("table-se").hidden = !shown.length;
  byId("table-doubt").hidden = !SCORES.some(([key]) => numbersOf(key) !== null && doubtful(key).some(Boolean));
  byId("table-length").hidden = state.text.length_effect === null;
  if (state.text.length_effect !== null) {
    const own = several() ? state.text.length_effect[state.class] : state.text.length_effect;
    byId("table-length").textContent = ` Length alone accounts for ${signed(own, 3)} per token; removal, gradient and Shapley value include it.`;
  }
  const columns = [{ key: "unit", label: "Unit", title: "in the order of the text", numbers: units.map((_, i) => i) }];
  const add = (key, label, title, numbers, more = {}) => {
    if (numbers === null) return;
    const places = decimals(numbers);
    columns.push({ key, label, title, numbers, places, signed: state.text.signed, write: (x) => written(x, places), ...more });
  };
  const titled = Object.fromEntries(SCORES.concat(scoreKinds()).map(([key, label, title]) => [key, [label, title]]));
  const strong = (key) => { // a huge value that nobody knows is not strong
    const [numbers, within] = [numbersOf(key), withinOf(key)];
    const known = ["value", "linear"].includes(key) && within !== undefined;
    return numbers && numbers.map((x, i) => Math.abs(known ? knownPart(x, within[i]) : x));
  };
  const score = (key, more) => add(key, ...titled[key], numbersOf(key), { strengths: strong(key), ...more });
  const removal = { within: withinOf("removal"), marked: true, axis: barAxis(numbersOf("removal"), withinOf("removal")) };
  score("removal", removal);
  score("value", { within: withinOf("value"), marked: true });
  add("importance", ...titled.importance, numbersOf("importance"), { within: withinOf("importance"), signed: false });
  if (state.text.told_apart) add("weight", "Weight", "share of attention in the whole text", weights, { signed: false, write: percent });
  for (const key of ["shapley", "gradient", "linear"]) score(key, { within: withinOf(key), marked: true, brief: true });
  table.show({ columns, names: units, gone: gone() });
}

// Pairs of units that act together, strongest first; no card where there are none.
function drawPairs() {
  const { pairs, units, unit } = state.text;
  byId("pairs-card").hidden = !pairs.length;
  byId("pairs-title").textContent = `${PLURALS[unit] ?? "Words"} that act together`;
  byId("pairs-scale").textContent = state.text.score_name;
  const own = (part) => (Array.isArray(part) ? part[state.class] : part);
  const rows = pairs.map(([both, effect, within]) => ({ both, effect: own(effect), within: own(within) ?? undefined })) // merged units have none
    .sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect));
  const effects = rows.map(({ effect }) => effect);
  const axis = barAxis(effects, rows.map(({ within }) => within ?? 0));
  const places = decimals(effects);
  byId("pairs").tBodies[0].replaceChildren(...rows.map(({ both, effect, within }) => {
    const name = both.map((i) => `${brief(units[i])}${occurrence(i)}`).join(" + ");
    const doubt = within !== undefined && unsure(effect, within) ? "doubt" : effect < 0 ? "minus" : "plus";
    const row = make("tr", { "data-pair": both.join(" ") }, make("th", { scope: "row", class: "name", dir: "auto" }, name),
      make("td", { class: doubt }, signed(effect, places), make("small", {}, plusMinus(within, places)), bar(axis, effect, within, false)));
    const mark = (on) => both.forEach((i) => state.spans[i]?.classList.toggle("on", on));
    row.addEventListener("pointerenter", () => mark(true));
    row.addEventListener("pointerleave", () => mark(false));
    return row;
  }));
}

// " (2)" for the second of several units with one name.
function occurrence(i) {
  const same = state.text.units.reduce((found, name, j) => (name === state.text.units[i] ? [...found, j] : found), []);
  return same.length > 1 ? ` (${same.indexOf(i) + 1})` : "";
}

function drawFacts() {
  const { facts, warnings } = state.text;
  byId("facts").replaceChildren(...facts.map(([name, said]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, said))));
  byId("warnings").replaceChildren(...warnings.map((said) => make("p", { class: "warning", role: "note" }, said)));
}

// Half the 95% interval of the prediction for what is kept: between the knots of `spread`, [tokens removed, standard error], along
// a line; null where they are not known.
function withinNow(c) {
  const { spread, surrogate } = state.text;
  if (!spread?.length) return null;
  const removed = surrogate.sizes.reduce((sum, size, i) => sum + (state.keep[i] ? 0 : size), 0);
  const after = spread.findIndex(([knot]) => knot >= removed);
  const [right, above] = spread[after < 0 ? spread.length - 1 : after];
  const [left, below] = after > 0 ? spread[after - 1] : [right, above];
  const share = right > left ? Math.min(1, (removed - left) / (right - left)) : 0;
  return NORMAL_95 * (asRow(below)[c] + share * (asRow(above)[c] - asRow(below)[c]));
}

function drawLive() {
  const { text, keep } = state;
  const whole = predict(text.surrogate, new Array(keep.length).fill(1));
  const now = predict(text.surrogate, keep);
  const away = keep.filter((kept) => !kept).length;
  const c = several() ? state.class : 0;
  byId("restore").disabled = away === 0;
  const lead = away === 0 ? "Surrogate, whole text" : `Surrogate without ${plural(away, noun())}`;
  const said = make("p", {}, make("span", { class: "term" }, lead));
  if (now === null) {
    said.append(make("b", { id: "now" }, "not defined"), make("span", { class: "soft" }, "nothing is left, and the surrogate has no background"));
  } else {
    const around = withinNow(c);
    said.append(
      make("b", { id: "now", class: text.answer ? "" : now[c] < 0 ? "minus" : "plus" }, signed(now[c], 3)),
      ...(around === null ? [] : [make("span", { class: "soft", id: "now-within", title: "95% interval of the model's answer" }, plusMinus(around, 3))]),
      make("span", { class: "soft" }, text.score_name),
      ...(probable() ? [make("span", { class: "soft", id: "now-probability" }, percent(probabilities(now)[c]))] : []),
    );
    const change = away ? `${signed(now[c] - whole[c], 3)} against the whole text` : "click a word to see its effect";
    said.append(make("span", { class: away ? "soft" : "help", id: "change" }, change.replace("word", noun())));
  }
  byId("live-said").replaceChildren(said);
  byId("bars-help").hidden = !probable();
  byId("bars-within").hidden = several() || now === null || withinNow(c) === null;
  const labels = !probable() ? [] : several() ? text.labels : [text.target];
  const [before, after] = [probabilities(whole), now && probabilities(now)];
  const rows = labels.map((label, k) => {
    const fill = make("span", { class: "fill" });
    const tick = make("span", { class: "tick", title: `whole text: ${percent(before[k])}` });
    fill.style.width = `${after ? 100 * after[k] : 0}%`;
    tick.style.left = `${100 * before[k]}%`;
    const within = after && !several() ? withinNow(0) : null; // the other classes move too, so only one target has an interval
    const [least, most] = within === null ? [0, 0] : [-within, within].map((change) => probabilities([now[0] + change])[0]);
    const whisker = make("span", { class: "whisker", title: `95% interval: ${percent(least)} to ${percent(most)}` });
    whisker.style.left = `${100 * least}%`;
    whisker.style.width = `${100 * (most - least)}%`;
    const share = after ? percent(after[k]) : "–";
    const row = make("div", { class: "prob" }, make("span", { class: "label", dir: "auto", title: label }, label),
      make("span", { class: "track", "aria-hidden": "true" }, fill, ...(within === null ? [] : [whisker]), tick), make("span", { class: "share" }, share));
    row.classList.toggle("chosen", several() && k === state.class);
    return { row, before: before[k] };
  });
  byId("bars").classList.toggle("several", several());
  byId("bars").replaceChildren(...rows.sort((a, b) => b.before - a.before).map(({ row }) => row));
}

function markGone() {
  state.spans.forEach((span, i) => {
    span.classList.toggle("gone", !state.keep[i]);
    span.setAttribute("aria-pressed", String(!state.keep[i]));
  });
}

// --- doing

function toggle(unit) {
  if (!state.text.signed) return;
  state.keep[unit] = 1 - state.keep[unit];
  afterChange();
  if (state.on === unit && !byId("tip").hidden) tip.show(state.beside, state.text.units[unit], said(unit));
}

function afterChange() {
  markGone();
  if (state.text.told_apart) scatter.mark(gone());
  table.mark(gone());
  drawLive();
}

// Look at one unit, in the text, the scatter and the table at once; null looks away.
function look(unit, element) {
  if (state.on !== undefined && state.on !== null) state.spans[state.on]?.classList.remove("on");
  state.on = unit;
  state.beside = element;
  if (state.text.told_apart) scatter.highlight(unit);
  table.highlight(unit, Boolean(element));
  if (unit === null) {
    tip.hide();
    return;
  }
  state.spans[unit]?.classList.add("on");
  if (element) tip.show(element, state.text.units[unit], said(unit));
  else tip.hide();
}

function said(unit) {
  const { weights } = state.text;
  const rows = [];
  let any = false;
  for (const [key, label] of scoreKinds()) {
    const numbers = numbersOf(key);
    if (numbers === null) continue;
    const within = withinOf(key)?.[unit];
    any ||= within !== undefined;
    const doubt = within !== undefined && key !== "importance" && unsure(numbers[unit], within);
    const digits = decimals([numbers[unit], within ?? 0]);
    rows.push([label, written(numbers[unit], digits) + plusMinus(within, digits), `${key === state.score ? "chosen" : ""}${doubt ? " doubt" : ""}`]);
  }
  if (state.text.told_apart) rows.push(["Weight", percent(weights[unit]), ""]);
  if (!state.keep[unit]) rows.push(["Now", "removed", ""]);
  const grey = rows.some(([, , mark]) => mark.includes("doubt")) ? "; grey: contains zero" : "";
  return { rows, note: any ? `± 95% interval${grey}` : "" };
}

const text = byId("text");
const unitAt = (event) => event.target.closest?.(".unit");
text.addEventListener("pointerover", (event) => {
  const span = unitAt(event);
  if (span) look(Number(span.dataset.i), span);
  else look(null);
});
text.addEventListener("pointerleave", () => look(null));
text.addEventListener("focusin", (event) => {
  const span = unitAt(event);
  if (!span) return;
  text.querySelector('.unit[tabindex="0"]')?.setAttribute("tabindex", "-1");
  span.setAttribute("tabindex", "0");
  span.setAttribute("aria-describedby", "tip");
  if (span.matches(":focus-visible")) look(Number(span.dataset.i), span);
});
text.addEventListener("focusout", () => look(null));
text.addEventListener("click", (event) => {
  const span = unitAt(event);
  if (span && window.getSelection().isCollapsed) toggle(Number(span.dataset.i));
});
text.addEventListener("keydown", (event) => {
  const span = unitAt(event);
  if (!span) return;
  if (event.key === "Enter" || event.key === " ") toggle(Number(span.dataset.i));
  else {
    const order = Array.from(text.querySelectorAll(".unit"));
    const to = stepped(event.key, order.indexOf(span), order.length, getComputedStyle(span).direction === "rtl");
    if (to === null) return;
    order[to].scrollIntoView({ block: "nearest" });
    order[to].focus({ preventScroll: true });
  }
  event.preventDefault();
});
byId("restore").addEventListener("click", () => {
  state.keep.fill(1);
  afterChange();
});
byId("scores").addEventListener("change", (event) => {
  state.score = event.target.value;
  recolour();
});
byId("class").addEventListener("change", (event) => {
  state.class = Number(event.target.value);
  rescore();
  drawLive();
});
document.addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
window.addEventListener("scroll", () => byId("tip").hidden || tip.follow(state.beside), { capture: true, passive: true });

// --- theme: the system's until a button says otherwise

const system = window.matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
function paint(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "☀ Light" : "☾ Dark";
}
byId("theme").addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme !== "dark";
  paint(chosen);
});
system.addEventListener("change", () => chosen === null && paint(system.matches));
window.addEventListener("beforeprint", () => {
  paint(false);
  table.all = true;
  table.rows();
});
window.addEventListener("afterprint", () => {
  paint(chosen ?? system.matches);
  table.all = false;
  table.rows();
});

// --- several texts: #text-3 is the third

const narrow = window.matchMedia("(max-width: 60rem)");
const hashed = () => {
  const found = /^#text-([0-9]+)$/.exec(window.location.hash);
  const at = found ? Number(found[1]) - 1 : 0;
  return at >= 0 && at < entries.length ? at : 0;
};
function go(at) {
  window.location.hash = `#text-${at + 1}`;
}
function drawIndex() {
  byId("index").hidden = byId("turn").hidden = false;
  document.body.classList.add("many");
  byId("index-title").textContent = plural(entries.length, "text");
  byId("index-list").replaceChildren(...entries.map((entry, k) => {
    const label = entry.prediction ? entry.prediction[0] : entry.target;
    const line = make("span", { class: "line" }, make("b", { dir: "auto" }, label));
    if (entry.prediction && entry.prediction[1] !== null) line.append(make("span", { class: "soft" }, percent(entry.prediction[1])));
    const about = `score of ${entry.target}`;
    line.append(make("span", { class: `score ${entry.score < 0 ? "minus" : "plus"}`, title: about }, signed(entry.score, 2)));
    return make("li", {}, make("a", { href: `#text-${k + 1}` }, line, make("span", { class: "opening", dir: "auto" }, entry.opening)));
  }));
  const fold = () => { byId("index-fold").open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  byId("previous").addEventListener("click", () => go(state.at - 1));
  byId("next").addEventListener("click", () => go(state.at + 1));
}
window.addEventListener("hashchange", () => {
  if (!/^(#text-[0-9]+)?$/.test(window.location.hash) || hashed() === state.at) return;
  show(hashed());
  if (narrow.matches) byId("index-fold").open = false;
  window.scrollTo(0, 0);
});

paint(system.matches);
if (entries.length > 1) drawIndex();
show(hashed());

// For tests, and for predictions that the page does not show.
window.slalom = Object.freeze({ predict: (counts) => predict(state.text.surrogate, counts), probabilities, state });
