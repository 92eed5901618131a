// The page of a corpus: the strongest words as bars or swarms, examples of one, all in a table; or what changed between two models.

const data = JSON.parse(byId("data").textContent);
const compared = data.changes !== undefined;
const items = compared ? data.changes : data.words;
const KINDS = [["word", "Words"], ["phrase", "Phrases"], ["piece", "Pieces"]];
const SHOWN = 20; // rows of the picture
const state = { kind: KINDS.find(([kind]) => items.some((item) => item.kind === kind))?.[0] ?? "word", look: "bars", word: null, sort: null };

const main = (item) => (compared ? item.change : item);
const ofKind = () => items.filter((item) => item.kind === state.kind);

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
    : `Mean effect on the score of “${data.about.target}” over the texts that have it${state.look === "bars" ? ", with 95% intervals; pale: not distinguishable from zero" : ": one dot per text, a sample of at most 150; ringed where the prediction is wrong; the line is the mean"}.${data.about.sort === "effect" ? " Order: by the end of the interval that is next to zero." : ""} Choose one for examples.`;
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
  const facts = [`in ${plural(word.texts, "text")}, ${plural(word.occurrences, "time")}`, `effect ${written(word.mean)}${word.low === null ? "" : ` (${between(word)})`}, spread ${plain(word.sd ?? 0, 2)}`, `among the ${data.about.strongest} strongest in ${share(word.strongest)}`, `reversed in ${plural(word.against, "text")} (${share(word.against / word.texts)})`];
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
  byId("examples").replaceChildren(column("Where it acts most", word.usual), column("Where its effect is reversed", word.unusual));
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
      ["against", "reversed", (item) => item.against / item.texts, (item) => share(item.against / item.texts)],
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
  if (data.shortcuts.length) byId("shortcuts").replaceChildren(make("thead", {}, head), body);
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
