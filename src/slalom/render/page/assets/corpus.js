// The page of a corpus: the strongest words as bars or swarms, examples of one, all in a table; or what changed between two models.

const data = JSON.parse(byId("data").textContent);
const compared = data.changes !== undefined;
const items = compared ? data.changes : data.words;
const KINDS = [["word", "Words"], ["phrase", "Phrases"], ["piece", "Pieces"]];
const SHOWN = 20; // rows of the picture
const state = { kind: KINDS.find(([kind]) => items.some((item) => item.kind === kind))?.[0] ?? "word", look: "bars", word: null, sort: null };

const main = (item) => (compared ? item.change : item);
const side = (x) => (x < 0 ? "minus" : "plus");
const isSure = (effect) => effect.low !== null && effect.low * effect.high > 0;
const whole = (n) => n.toLocaleString("en");
const share = (p) => `${(100 * p).toFixed(p > 0 && p < 0.0095 ? 1 : 0)} %`;
const written = (x) => (x === null || x === undefined ? "" : signed(x, 2));
const between = (effect) => (effect.low === null ? "" : `${written(effect.low)} to ${written(effect.high)}`);
const ofKind = () => items.filter((item) => item.kind === state.kind);

// --- a picture of some effects: one row each, with a common axis

function niceTicks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10);
  const ticks = [];
  for (let x = Math.ceil(low / step) * step; x <= high + 1e-9 * step; x += step) ticks.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return ticks;
}

// Offsets of points, so that those of nearly one place lie side by side.
function swarm(places, radius, room) {
  const levels = new Map();
  return places.map((x) => {
    const cell = Math.round(x / (1.6 * radius));
    const k = levels.get(cell) ?? 0;
    levels.set(cell, k + 1);
    const step = Math.ceil(k / 2) * (k % 2 ? 1 : -1) * 1.5 * radius;
    return Math.max(-room, Math.min(room, step));
  });
}

// rows: [{ name, effect, sample, old, value, chosen, pick }]
function picture(holder, rows, { label, wide = true }) {
  const width = Math.max(280, holder.clientWidth || 700);
  const swarms = rows.some((row) => row.sample);
  const high = swarms ? 30 : 26;
  const left = Math.min(width * 0.34, 12 + 7.2 * Math.max(...rows.map((row) => Array.from(brief(row.name, 24)).length)));
  const right = wide && width > 520 ? 132 : 52;
  const numbers = rows.flatMap(({ effect, sample, old }) => [effect.mean, effect.low, effect.high, old, ...(sample ?? []).map(([y]) => y)]);
  let [low, top] = extent([0, ...numbers.filter((x) => x !== null && x !== undefined)]);
  if (low === top) top = low + 1;
  const pad = 0.04 * (top - low);
  [low, top] = [low - pad, top + pad];
  const at = (x) => left + ((x - low) / (top - low)) * (width - left - right);
  const height = rows.length * high + 24;
  const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
  svg.style.height = `${height}px`;
  for (const x of niceTicks(low, top)) {
    svg.append(draw("line", { class: x === 0 ? "axis" : "grid", x1: at(x), x2: at(x), y1: 0, y2: height - 20 }));
    svg.append(draw("text", { class: "tick", x: at(x), y: height - 5, "text-anchor": "middle" }, minus(String(Number(x.toPrecision(6))))));
  }
  rows.forEach(({ name, effect, sample, old, chosen, pick }, i) => {
    const y = i * high + high / 2;
    const says = `${brief(name, 60)}: ${written(effect.mean)}${effect.low === null ? "" : `, 95% interval ${between(effect)}`}, ${plural(effect.texts, "text")}`;
    const row = draw("g", { class: chosen ? "row on" : "row", ...(pick ? { tabindex: 0, role: "button", "aria-label": says } : {}) });
    row.append(draw("rect", { class: "hit", x: 0, y: y - high / 2, width, height: high, rx: 4 }));
    row.append(draw("title", {}, says));
    row.append(draw("text", { x: left - 8, y: y + 4, "text-anchor": "end", direction: "ltr" }, brief(name, 24)));
    const mean = effect.mean ?? 0;
    if (sample) {
      const off = swarm(sample.map(([x]) => at(x)), 2.6, high / 2 - 3);
      sample.forEach(([x, wrong], k) => row.append(draw("circle", { class: `dot ${side(x)}${wrong ? " wrong" : ""}`, cx: at(x).toFixed(1), cy: (y + off[k]).toFixed(1), r: 2.6 })));
      row.append(draw("line", { class: "mean", x1: at(mean), x2: at(mean), y1: y - high / 2 + 3, y2: y + high / 2 - 3 }));
    } else if (old !== undefined) {
      row.append(draw("line", { class: "link", x1: at(old), x2: at(mean), y1: y, y2: y }));
      row.append(draw("circle", { class: "old", cx: at(old), cy: y, r: 5 }), draw("circle", { class: side(mean - old), cx: at(mean), cy: y, r: 6 }));
    } else if (effect.mean !== null) {
      row.append(draw("rect", { class: `${side(mean)}${isSure(effect) ? "" : " weak"}`, x: Math.min(at(0), at(mean)), y: y - 8, width: Math.abs(at(mean) - at(0)), height: 16 }));
    }
    if (!sample && old === undefined && effect.low !== null) {
      const [a, b] = [at(effect.low), at(effect.high)];
      row.append(draw("path", { class: "error", fill: "none", d: `M${a} ${y}H${b}M${a} ${y - 4}v8M${b} ${y - 4}v8` }));
    }
    const end = wide && width > 520 ? `${written(effect.mean)} · ${whole(effect.texts)}` : written(effect.mean);
    row.append(draw("text", { class: "soft", x: width - 4, y: y + 4, "text-anchor": "end" }, end));
    if (pick) {
      row.addEventListener("click", pick);
      row.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        pick();
      });
    }
    svg.append(row);
  });
  holder.replaceChildren(svg);
}

// --- switches

function switches(id, options, current, change) {
  const holder = byId(id);
  for (const [value, label] of options) {
    const input = make("input", { type: "radio", name: id, value });
    input.checked = value === current;
    input.addEventListener("change", () => change(value));
    holder.append(make("label", {}, input, make("span", {}, label)));
  }
  holder.hidden = options.length < 2;
}

function drawChart() {
  const rows = ofKind().slice(0, SHOWN);
  const help = compared
    ? `Ring: mean effect on “${data.about.target}” of ${data.about.models[0]}; dot: of ${data.about.models[1]}, on the same texts. The number is the change, and in how many texts.`
    : `Mean effect on the score of “${data.about.target}” over the texts that have it${state.look === "bars" ? ", with 95% intervals; pale: not told from zero" : ": one dot per text, a sample of at most 150; ringed where the prediction is wrong; the line is the mean"}. Choose one for examples.`;
  byId("chart-help").textContent = rows.length ? help : "Nothing is in enough texts.";
  if (!rows.length) return byId("chart").replaceChildren();
  picture(
    byId("chart"),
    rows.map((item) => ({
      name: item.name,
      effect: compared ? { ...item.change, mean: item.after.mean, low: null, high: null } : item,
      old: compared ? item.before.mean : undefined,
      sample: state.look === "swarm" ? item.sample : undefined,
      chosen: item === state.word,
      pick: compared ? undefined : () => choose(item, true),
    })),
    { label: byId("strongest-title").textContent },
  );
  if (compared) {
    const ends = byId("chart").querySelectorAll(".row .soft");
    rows.forEach((item, i) => { ends[i].textContent = `${written(item.change.mean)} · ${whole(item.change.texts)}`; });
  }
}

// --- one word: parts of the corpus side by side, and examples

const GROUPS = { prediction: "Correct and wrong predictions", predicted: "By predicted class", gold: "By true class", slice: "By slice" };

function exampleOf(example) {
  const gold = example.gold === null ? "" : example.gold === example.label ? "correct" : `truly ${example.gold}`;
  const figures = make("p", { class: "figures" }, ...[`${written(example.effect)}`, `predicted ${example.label}`, gold, `text ${example.id}`].filter(Boolean).map((part) => make("span", {}, part)));
  const mark = make("mark", { class: side(example.effect) }, example.word);
  return make("div", { class: "example", dir: "auto" }, figures, example.before ?? "", mark, example.after ?? "");
}

function choose(word, go) {
  state.word = word;
  byId("word-title").textContent = `“${brief(word.name, 60)}”`;
  const gap = word.correct_minus_wrong;
  const facts = [`in ${plural(word.texts, "text")}, ${plural(word.occurrences, "time")}`, `effect ${written(word.mean)}${word.low === null ? "" : ` (${between(word)})`}, spread ${plain(word.sd ?? 0, 2)}`, `among the ${data.about.strongest} strongest in ${share(word.strongest)}`, `against its sign in ${plural(word.against, "text")} (${share(word.against / word.texts)})`];
  if (gap) facts.push(`correct minus wrong predictions ${written(gap.difference)} (${between(gap)})`);
  byId("word-help").textContent = facts.join(" · ");
  const groups = Object.entries(word.groups).map(([grouping, parts]) => {
    const box = make("div", {}, make("h3", {}, grouping === "slice" ? `By ${data.about.slice}` : GROUPS[grouping]));
    const holder = make("div");
    box.append(holder);
    return [box, holder, Object.entries(parts).filter(([, effect]) => effect.texts)];
  }).filter(([, , parts]) => parts.length);
  byId("groups").replaceChildren(...groups.map(([box]) => box));
  for (const [, holder, parts] of groups) picture(holder, parts.map(([name, effect]) => ({ name, effect })), { label: "effects", wide: false });
  const column = (title, examples) => make("div", {}, make("h3", {}, title), ...(examples.length ? examples.map(exampleOf) : [make("p", { class: "help" }, "None.")]));
  byId("examples").replaceChildren(column("Where it acts most", word.usual), column("Where it acts against its usual sign", word.unusual));
  for (const row of document.querySelectorAll("tr[data-i]")) row.classList.toggle("on", items[Number(row.dataset.i)] === word);
  drawChart();
  if (go) byId("word-title").scrollIntoView({ block: "start", behavior: "auto" });
}

// --- tables

const columns = compared
  ? [
      ["name", compared && "word", (item) => item.name],
      ["texts", "texts", (item) => item.change.texts, (item) => whole(item.change.texts)],
      ["before", "before", (item) => item.before.mean, (item) => written(item.before.mean)],
      ["after", "after", (item) => item.after.mean, (item) => written(item.after.mean)],
      ["effect", "change", (item) => item.change.mean, (item) => written(item.change.mean)],
      ["interval", "95% interval", (item) => (item.change.low === null ? 0 : item.change.high - item.change.low), (item) => between(item.change)],
    ]
  : [
      ["name", "word", (item) => item.name],
      ["texts", "texts", (item) => item.texts, (item) => whole(item.texts)],
      ["effect", "effect", (item) => item.mean, (item) => written(item.mean)],
      ["interval", "95% interval", (item) => (item.low === null ? 0 : item.high - item.low), between],
      ["strongest", `top ${data.about.strongest}`, (item) => item.strongest, (item) => share(item.strongest)],
      ["against", "against", (item) => item.against / item.texts, (item) => share(item.against / item.texts)],
      ...(data.about.gold === null ? [] : [["gap", "correct − wrong", (item) => item.correct_minus_wrong?.difference ?? 0, (item) => written(item.correct_minus_wrong?.difference)]]),
      ...(data.about.groups.slice ?? []).map((part) => [`slice ${part}`, part, (item) => item.groups.slice[part].mean ?? 0, (item) => written(item.groups.slice[part].mean)]),
    ];

function sortBy(key) {
  const ways = key === "name" ? ["ascending", "descending"] : key === "effect" || key.startsWith("slice") || key === "gap" ? ["other", "descending", "ascending"] : ["descending", "ascending"];
  const next = state.sort?.key === key ? ways[(ways.indexOf(state.sort.way) + 1) % ways.length] : ways[0];
  state.sort = { key, way: next };
  drawTable();
}

function drawTable() {
  const query = byId("search").value.trim().toLowerCase();
  const kept = ofKind().filter((item) => item.name.toLowerCase().includes(query));
  if (state.sort) {
    const value = columns.find(([key]) => key === state.sort.key)[2];
    const sign = state.sort.way === "ascending" ? 1 : -1;
    const size = state.sort.way === "other" ? (item) => Math.abs(value(item)) : value;
    kept.sort((a, b) => (state.sort.key === "name" ? sign * a.name.localeCompare(b.name) : sign * (size(a) - size(b))));
  }
  const head = make("tr");
  for (const [key, label] of columns) {
    const button = make("button", { type: "button" }, brief(label, 20));
    button.addEventListener("click", () => sortBy(key));
    const cell = make("th", { scope: "col", class: key === "name" ? "name" : "" }, button);
    if (state.sort?.key === key) cell.setAttribute("aria-sort", state.sort.way);
    head.append(cell);
  }
  const body = make("tbody");
  for (const item of kept) body.append(rowOf(item));
  byId("words").replaceChildren(make("thead", {}, head), body);
  byId("found").textContent = `${plural(kept.length, state.kind)}${query ? ` with “${query}”` : ""}, in at least ${plural(data.about.min_texts, "text")} each.`;
}

function rowOf(item) {
  const row = make("tr", { "data-i": items.indexOf(item), class: item === state.word ? "on" : "" });
  for (const [key, , value, write] of columns) {
    if (key === "name") {
      const label = brief(item.name, 60);
      row.append(make("th", { scope: "row", class: "name", dir: "auto", title: label }, compared ? label : make("button", { type: "button" }, label)));
      continue;
    }
    const text = write(item);
    const coloured = /^(effect|before|after|gap|slice )/.test(key) && text;
    row.append(make("td", { class: coloured ? (key === "effect" && !isSure(main(item)) ? "doubt" : side(value(item))) : "" }, text));
  }
  if (!compared) row.addEventListener("click", () => choose(item, true));
  return row;
}

function drawShortcuts() {
  const head = make("tr", {}, ...["", "score", "effect", "labels say", "why"].map((label, i) => make("th", { scope: "col", class: i === 0 ? "name" : i === 4 ? "why" : "" }, label)));
  const body = make("tbody");
  for (const { word, score, support, reasons } of data.shortcuts) {
    const name = make("button", { type: "button" }, brief(word.name, 60));
    const row = make("tr", {}, make("th", { scope: "row", class: "name", dir: "auto" }, name), make("td", {}, score.toFixed(2)), make("td", { class: side(word.mean) }, written(word.mean)), make("td", {}, written(support)), make("td", { class: "why" }, reasons.join(" · ")));
    row.addEventListener("click", () => choose(word, true));
    body.append(row);
  }
  byId("shortcuts").replaceChildren(make("thead", {}, head), body);
}

function drawFlips() {
  const flips = data.flips.map((flip) => {
    const gold = flip.gold === null ? "" : `truly ${flip.gold}`;
    const figures = make("p", { class: "figures" }, ...[`${flip.before} → ${flip.after}`, gold, `score ${written(flip.change)}`, `text ${flip.id}`].filter(Boolean).map((part) => make("span", {}, part)));
    const words = flip.words.map(({ word, before, after }) => make("span", {}, make("b", { dir: "auto" }, brief(word, 40)), ` ${written(before)} → `, make("span", { class: side(after - before) }, written(after))));
    return make("div", { class: "flip" }, figures, make("p", { class: "wordlist" }, ...(words.length ? words : ["no word has changed in that direction"])), make("p", { class: "soft", dir: "auto" }, flip.text ?? ""));
  });
  byId("flips").replaceChildren(...(flips.length ? flips : [make("p", { class: "help" }, "None.")]));
}

function show(kind) {
  state.kind = kind;
  state.sort = null;
  drawChart();
  drawTable();
}

switches("kinds", KINDS.filter(([kind]) => items.some((item) => item.kind === kind)), state.kind, show);
if (!compared) switches("looks", [["bars", "Bars"], ["swarm", "Beeswarm"]], state.look, (look) => { state.look = look; drawChart(); });
byId("search").addEventListener("input", drawTable);
drawTable();
if (compared) drawFlips();
else drawShortcuts();
const opening = compared ? null : (ofKind()[0] ?? data.shortcuts[0]?.word);
if (opening) choose(opening, false);
else {
  drawChart();
  if (!compared) byId("word-title").closest("section").hidden = true;
}
let settled = 0;
window.addEventListener("resize", () => {
  clearTimeout(settled);
  settled = setTimeout(() => (compared || !state.word ? drawChart() : choose(state.word, false)), 100);
});

// --- theme: the system's until the button says otherwise

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
window.addEventListener("beforeprint", () => paint(false));
window.addEventListener("afterprint", () => paint(chosen ?? system.matches));
paint(system.matches);
