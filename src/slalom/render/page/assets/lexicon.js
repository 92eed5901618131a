// The page of a lexicon: its words, or what differs between two; a filter, a picture of the strongest, all in a table.

const data = JSON.parse(byId("data").textContent);
const DRAWN = 250; // words of the picture
const LISTED = 500; // rows of the table
const [ACROSS, UP] = data.picture;
const MAIN = data.columns.findIndex(({ name }) => name === "change" || name === "in_texts"); // what words are ordered and coloured by
const DOUBT = data.columns.findIndex(({ name }) => name === "change" || name === "context"); // what may be asked to be sure
const texts = data.columns.find(({ name }) => name === "texts").numbers;
const state = { column: MAIN, way: "sure" };

const number = (column, i) => data.columns[column].numbers[i];
const within = (column, i) => data.columns[column].within?.[i] ?? 0;
const sure = (column, i) => data.columns[column].sure[i]; // how far the interval is from zero
const written = (column, i) => {
  if (data.columns[column].name === "texts") return texts[i].toLocaleString("en");
  return signed(number(column, i), 2) + (data.columns[column].within ? ` ± ${plain(within(column, i), 2)}` : "");
};
const side = (i) => (number(MAIN, i) < 0 ? "minus" : "plus");

const scatter = new Scatter(byId("scatter"), {
  over(at, element) {
    const i = state.drawn[at];
    tip.show(element, data.words[i], { rows: data.columns.map(({ label }, column) => [label, written(column, i)]) });
    scatter.highlight(at);
  },
  out() {
    tip.hide();
    scatter.highlight(null);
  },
  toggle() {},
});

function chosen() {
  const query = byId("search").value.trim().toLowerCase();
  const least = Number(byId("least").value) || 1;
  const only = byId("sure").checked;
  return data.words.map((_, i) => i).filter((i) => texts[i] >= least && (!only || sure(DOUBT, i) > 0) && data.words[i].toLowerCase().includes(query));
}

function drawPicture(words) {
  state.drawn = [...words].sort((a, b) => sure(MAIN, b) - sure(MAIN, a)).slice(0, DRAWN);
  byId("scatter").hidden = !state.drawn.length;
  if (!state.drawn.length) return;
  const of = (column) => state.drawn.map((i) => number(column, i));
  const frame = (numbers) => [Math.min(0, ...numbers), Math.max(0, ...numbers)];
  const x = of(ACROSS);
  const y = of(UP);
  const top = largest(of(MAIN)) || 1;
  const errors = (column) => (data.columns[column].within ? state.drawn.map((i) => within(column, i)) : null);
  scatter.show({
    names: state.drawn.map((i) => data.words[i]), x, y, within: errors(ACROSS) ? { x: errors(ACROSS), y: errors(UP) } : null,
    weights: state.drawn.map((i) => Math.sqrt(texts[i])), frame: { x: frame(x), y: frame(y) }, gone: state.drawn.map(() => false),
    axes: { x: `${data.columns[ACROSS].label} →`, y: `${data.columns[UP].label} ↑` },
    strengths: of(MAIN).map((v) => v / top), undirected: false, order: state.drawn.map((_, at) => at),
  });
}

function drawTable(words) {
  const { column, way } = state;
  const value = way === "sure" ? (i) => sure(column, i) : (i) => number(column, i);
  const rows = column < 0
    ? [...words].sort((a, b) => data.words[a].localeCompare(data.words[b]) * (way === "ascending" ? 1 : -1))
    : [...words].sort((a, b) => (value(b) - value(a)) * (way === "ascending" ? -1 : 1));
  const head = (label, at, means) => {
    const button = make("button", { type: "button", title: means }, label);
    button.addEventListener("click", () => sortBy(at));
    const order = at !== column ? "none" : way === "sure" ? "other" : way;
    return make("th", { scope: "col", "aria-sort": order }, button);
  };
  const body = rows.slice(0, LISTED).map((i) => make("tr", {},
    make("th", { scope: "row", class: side(i), dir: "auto" }, brief(data.words[i], 40)),
    ...data.columns.map((_, at) => make("td", {}, written(at, i)))));
  byId("words").replaceChildren(
    make("thead", {}, make("tr", {}, head("word", -1, "the word"), ...data.columns.map(({ label, means }, at) => head(label, at, means)))),
    make("tbody", {}, ...body));
  const order = column < 0 ? "word" : `${data.columns[column].label}${way === "sure" ? ", by how far its 95% interval is from zero" : ""}`;
  byId("table-help").textContent = `Order: ${order}.${rows.length > LISTED ? ` The first ${LISTED} of ${rows.length.toLocaleString("en")}.` : ""} Choose a column to order by it.`;
}

function sortBy(column) {
  const ways = column < 0 ? ["ascending", "descending"] : data.columns[column].sure ? ["sure", "descending", "ascending"] : ["descending", "ascending"];
  state.way = column === state.column ? ways[(ways.indexOf(state.way) + 1) % ways.length] : ways[0];
  state.column = column;
  drawTable(chosen());
}

function drawAll() {
  const words = chosen();
  byId("found").textContent = `${plural(words.length, "word")} of ${data.words.length.toLocaleString("en")}.`;
  drawPicture(words);
  drawTable(words);
}

byId("sure-label").textContent = `only where “${data.columns[DOUBT].label}” is not zero for sure (95%)`;
byId("picture-title").textContent = `${data.columns[ACROSS].label[0].toUpperCase()}${data.columns[ACROSS].label.slice(1)} and ${data.columns[UP].label}`;
byId("picture-help").textContent = `The ${DRAWN} words with the surest “${data.columns[MAIN].label}”; area by the root of the number of texts. ${data.columns.map(({ label, means }) => `${label}: ${means}`).join("; ")}.`;
for (const id of ["search", "least", "sure"]) byId(id).addEventListener("input", drawAll);
theme.start(() => {});
drawAll();
