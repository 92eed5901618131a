// The summary of a corpus: the strongest words as bars with intervals, one word in parts of the corpus, and all in a table.

const WORD_KINDS = [["word", "Words"], ["phrase", "Phrases"], ["piece", "Pieces"]];
const CHARTED = 14; // rows of the picture
const GROUPINGS = { prediction: "Correct and wrong predictions", predicted: "By predicted class", gold: "By true class" };

class CorpusWords {
  // hooks: choose(name or null), target(class)
  constructor(root, hooks) {
    Object.assign(this, { root, hooks, data: null, kind: "word", sort: null, chosen: null });
    const id = (name) => `corpus-${name}`;
    this.ui = {
      kinds: make("fieldset", { class: "switch", id: id("kinds") }, make("legend", { class: "hidden" }, "What is listed")),
      target: make("select", { id: id("target") }),
      help: make("p", { class: "help" }),
      chart: make("div", { id: id("chart") }),
      one: make("div", { class: "one-word", id: id("word"), hidden: "" }),
      search: make("input", { type: "search", id: id("word-search"), autocomplete: "off", maxlength: "200", "aria-label": "Search the words" }),
      found: make("p", { class: "help", role: "status" }),
      table: make("table", { id: id("words") }),
      shortcuts: make("table", { id: id("shortcuts") }),
      means: make("p", { class: "help" }),
    };
    const { kinds, target, help, chart, one, search, found, table, shortcuts, means } = this.ui;
    this.all = make("details", { class: "more" }, make("summary", {}, "All in a table"),
      make("label", { class: "pick" }, "Search ", search), found,
      make("div", { class: "wide tall", role: "region", "aria-label": "All words", tabindex: "0" }, table));
    this.suspects = make("details", { class: "more" }, make("summary", {}, "Shortcuts: what moves the model but should not"), means,
      make("div", { class: "wide", role: "region", "aria-label": "Shortcuts", tabindex: "0" }, shortcuts));
    root.append(make("div", { class: "bar" }, make("h2", { id: id("words-title") }, "What moves the model"), this.classed = make("label", { class: "pick", hidden: "" }, "Class ", target), kinds), help, chart, one, this.all, this.suspects);
    search.addEventListener("input", () => this.drawTable());
    target.addEventListener("change", () => this.hooks.target(target.value));
    new ResizeObserver(() => this.resized()).observe(chart);
  }

  get items() { return this.data.words.filter((item) => item.kind === this.kind); }

  show(data) {
    this.data = data;
    const kinds = WORD_KINDS.filter(([kind]) => data.words.some((item) => item.kind === kind));
    if (!kinds.some(([kind]) => kind === this.kind)) this.kind = kinds[0]?.[0] ?? "word";
    const { target, explained, other_targets: others } = data.about;
    const targets = [[target, explained], ...Object.entries(others)].sort(([, a], [, b]) => b - a);
    this.classed.hidden = targets.length < 2; // a text explains one class, so effects are summarised by class
    this.ui.target.replaceChildren(...targets.map(([name, n]) => make("option", { value: name }, `${brief(name, 40)} (${plural(n, "text")})`)));
    this.ui.target.value = target;
    const legend = this.ui.kinds.querySelector("legend");
    this.ui.kinds.hidden = kinds.length < 2;
    this.ui.kinds.replaceChildren(legend, ...kinds.map(([kind, label]) => choice("corpus-kind", kind, label, kind === this.kind, () => {
      Object.assign(this, { kind, sort: null });
      this.draw();
    })));
    this.draw();
  }

  resized() {
    const { clientWidth } = this.ui.chart;
    if (!this.data || clientWidth === this.width || !clientWidth) return;
    this.width = clientWidth;
    this.drawChart();
  }

  // Mark the word whose texts are listed; null: none.
  mark(name) {
    this.chosen = name;
    if (this.data) this.draw();
  }

  draw() {
    this.drawChart();
    this.drawOne();
    this.drawTable();
    this.drawShortcuts();
  }

  pick(item) { this.hooks.choose(item.name === this.chosen ? null : item.name); }

  drawChart() {
    const { target, poor } = this.data.about;
    const rows = this.items.slice(0, CHARTED);
    const left = poor ? ` ${plural(poor, "text")} poorly explained (held-out R² near the text below 0): left out.` : "";
    this.ui.help.textContent = rows.length ? `Mean effect on the score of “${brief(target, 40)}” over the texts that have it, with 95% intervals; pale: not distinguishable from zero. Order: by the end of the interval that is next to zero. Choose one for its texts.${left}` : `Nothing is in enough texts.${left}`;
    this.width = this.ui.chart.clientWidth;
    if (!rows.length) this.ui.chart.replaceChildren();
    else picture(this.ui.chart, rows.map((item) => ({ name: item.name, effect: item, chosen: item.name === this.chosen, pick: () => this.pick(item) })), { label: "Strongest" });
  }

  drawOne() {
    const { one } = this.ui;
    const { about, words, shortcuts } = this.data;
    const word = [...words, ...shortcuts.map((shortcut) => shortcut.word)].find((item) => item.name === this.chosen);
    one.hidden = !word;
    if (!word) return;
    const gap = word.correct_minus_wrong;
    const facts = [`in ${plural(word.texts, "text")}, ${plural(word.occurrences, "time")}`, `effect ${written(word.mean)}${word.low === null ? "" : ` (${between(word)})`}`, `among the ${about.strongest} strongest in ${share(word.strongest)}`, `reversed in ${plural(word.against, "text")}`];
    if (gap) facts.push(`correct minus wrong predictions ${written(gap.difference)} (${between(gap)})`);
    const groups = Object.entries(word.groups).map(([grouping, parts]) => {
      const holder = make("div");
      const named = Object.entries(parts).filter(([, effect]) => effect.texts);
      return [make("div", {}, make("h3", {}, grouping === "slice" ? `By ${brief(about.slice, 40)}` : GROUPINGS[grouping]), holder), holder, named];
    }).filter(([, , parts]) => parts.length > 1);
    one.replaceChildren(make("h3", { class: "word-name", dir: "auto" }, `“${brief(word.name, 60)}”`), make("p", { class: "help" }, facts.join(" · ")), make("div", { class: "groups" }, ...groups.map(([box]) => box)));
    for (const [, holder, parts] of groups) picture(holder, parts.map(([name, effect]) => ({ name, effect })), { label: "effects", wide: false });
  }

  get columns() {
    const { about } = this.data;
    return [
      ["name", "word", (item) => item.name],
      ["texts", "texts", (item) => item.texts, (item) => whole(item.texts)],
      ["effect", "effect", (item) => item.mean ?? 0, (item) => written(item.mean)],
      ["interval", "95% interval", (item) => item.high - item.low, between],
      ["strongest", `top ${about.strongest}`, (item) => item.strongest, (item) => share(item.strongest)],
      ["against", "reversed", (item) => item.against / item.texts, (item) => share(item.against / item.texts)],
      ...(about.gold === null ? [] : [["gap", "correct − wrong", (item) => item.correct_minus_wrong?.difference ?? 0, (item) => written(item.correct_minus_wrong?.difference)]]),
      ...(about.groups.slice ?? []).map((part) => [`slice ${part}`, part, (item) => item.groups.slice[part].mean ?? 0, (item) => written(item.groups.slice[part].mean)]),
    ];
  }

  sortBy(key) {
    const [first, second] = key === "name" ? ["ascending", "descending"] : ["descending", "ascending"];
    this.sort = { key, way: this.sort?.key === key && this.sort.way === first ? second : first };
    this.drawTable();
    this.ui.table.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  drawTable() {
    const { columns } = this;
    const query = this.ui.search.value.trim().toLowerCase();
    const kept = this.items.filter((item) => item.name.toLowerCase().includes(query));
    if (this.sort) {
      const [, , value] = columns.find(([key]) => key === this.sort.key) ?? columns[0];
      const sign = this.sort.way === "ascending" ? 1 : -1;
      kept.sort((a, b) => sign * (this.sort.key === "name" ? a.name.localeCompare(b.name) : value(a) - value(b)));
    }
    const head = make("tr", {}, ...columns.map(([key, label]) => {
      const cell = make("th", { scope: "col", class: key === "name" ? "name" : "" }, button(brief(label, 20), () => this.sortBy(key), { "data-key": key }));
      if (this.sort?.key === key) cell.setAttribute("aria-sort", this.sort.way);
      return cell;
    }));
    this.ui.table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...kept.map((item) => this.row(item, columns))));
    this.ui.found.textContent = `${plural(kept.length, this.kind)}${query ? ` with “${query}”` : ""}, in at least ${plural(this.data.about.min_texts, "text")} each.`;
  }

  name(item) {
    return make("th", { scope: "row", class: "name", dir: "auto", title: brief(item.name, 60) }, make("button", { type: "button" }, brief(item.name, 60)));
  }

  row(item, columns) {
    const row = make("tr", { class: item.name === this.chosen ? "on" : "" }, this.name(item));
    for (const [key, , value, write] of columns.slice(1)) {
      const text = write(item);
      const coloured = /^(effect|gap|slice )/.test(key) && text;
      row.append(make("td", { class: coloured ? (key === "effect" && !isSure(item) ? "doubt" : side(value(item))) : "" }, text));
    }
    row.addEventListener("click", () => this.pick(item));
    return row;
  }

  drawShortcuts() {
    const { shortcuts, shortcuts_help: help } = this.data;
    this.suspects.hidden = !shortcuts.length;
    this.ui.means.textContent = help;
    const head = make("tr", {}, ...["word", "score", "effect", "labels say", "why"].map((label, i) => make("th", { scope: "col", class: i === 0 ? "name" : i === 4 ? "why" : "" }, label)));
    const body = make("tbody", {}, ...shortcuts.map(({ word, score, support, reasons }) => {
      const row = make("tr", { class: word.name === this.chosen ? "on" : "" }, this.name(word), make("td", {}, score.toFixed(2)), make("td", { class: side(word.mean) }, written(word.mean)), make("td", {}, written(support)), make("td", { class: "why" }, reasons.join(" · ")));
      row.addEventListener("click", () => this.pick(word));
      return row;
    }));
    this.ui.shortcuts.replaceChildren(make("thead", {}, head), body);
  }
}
