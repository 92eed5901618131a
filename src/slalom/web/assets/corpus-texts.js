// The texts of a corpus: search, order, slices, the texts with one word; page by page.

const PAGE = 20;
const SEARCH_PAUSE = 300; // milliseconds without a key

class CorpusTexts {
  // hooks: changed(), open(number), word(null), lost(again)
  constructor(root, hooks) {
    Object.assign(this, { root, hooks, corpus: null, shown: [], query: { search: "", word: "", target: "", sort: "number", slice: "", offset: 0 }, asked: null });
    const id = (name) => `corpus-${name}`;
    this.ui = {
      search: make("input", { type: "search", id: id("search"), autocomplete: "off", maxlength: "200" }),
      sort: make("select", { id: id("sort") }),
      slice: make("select", { id: id("slice") }),
      word: make("p", { class: "with-word", hidden: "" }),
      said: make("p", { class: "help", id: id("found"), role: "status" }),
      list: make("ol", { class: "text-list", id: id("texts") }),
      before: button("← Before", () => this.turn(-PAGE), { disabled: "" }),
      after: button("More →", () => this.turn(PAGE), { disabled: "" }),
      place: make("span", {}),
    };
    const { search, sort, slice, word, said, list, before, after, place } = this.ui;
    this.sliced = make("label", { class: "pick", hidden: "" }, "Slice ", slice);
    root.append(make("div", { class: "bar" }, make("h2", {}, "Texts"), make("label", { class: "pick" }, "Search ", search), make("label", { class: "pick" }, "Order ", sort), this.sliced),
      word, said, list, make("div", { class: "turn" }, before, place, after));
    search.addEventListener("input", () => {
      window.clearTimeout(this.typing);
      this.typing = window.setTimeout(() => this.set({ search: search.value.trim() }), SEARCH_PAUSE);
    });
    sort.addEventListener("change", () => this.set({ sort: sort.value }));
    slice.addEventListener("change", () => this.set({ slice: slice.value }));
  }

  // What the corpus offers: orders, columns with few values.
  offer(corpus) {
    const { sort, slice } = this.ui;
    const key = JSON.stringify([corpus.sorts, corpus.columns]);
    if (key === this.offered) return;
    this.offered = key;
    sort.replaceChildren(...corpus.sorts.map(([name, title]) => make("option", { value: name }, title)));
    const columns = Object.entries(corpus.columns).filter(([, values]) => values && values.length > 1);
    slice.replaceChildren(make("option", { value: "" }, "All"), ...columns.map(([column, values]) => make("optgroup", { label: brief(column, 40) },
      ...values.map(([value, n]) => make("option", { value: `${column}=${value}` }, `${brief(value, 40)} (${whole(n)})`)))));
    this.sliced.hidden = !columns.length;
    this.fill();
  }

  fill() {
    const { search, sort, slice } = this.ui;
    const { query } = this;
    if (document.activeElement !== search) search.value = query.search;
    sort.value = query.sort;
    if (query.slice && ![...slice.options].some(({ value }) => value === query.slice)) slice.append(make("option", { value: query.slice }, brief(query.slice, 40)));
    slice.value = query.slice;
  }

  set(change, quiet = false) {
    const query = { ...this.query, offset: 0, ...change };
    if (JSON.stringify(query) === JSON.stringify(this.query) && this.asked) return;
    this.query = query;
    this.fill();
    if (!quiet) this.hooks.changed();
    this.load();
  }

  turn(by) {
    this.query = { ...this.query, offset: Math.max(0, this.query.offset + by) };
    this.hooks.changed();
    this.load().then(() => this.root.scrollIntoView({ block: "start" }));
  }

  stop() { this.asked?.abort(); }

  async load() {
    this.stop();
    const asked = new AbortController();
    this.asked = asked;
    const { query } = this;
    this.drawWord();
    this.root.setAttribute("aria-busy", "true");
    this.ui.said.textContent = "Searching …";
    const fields = new URLSearchParams({ ...query, limit: PAGE });
    try {
      const found = await api.json(`/api/corpus/texts?${fields}`, undefined, { signal: asked.signal });
      if (asked !== this.asked) return;
      this.draw(found);
      this.root.setAttribute("aria-busy", "false");
    } catch (error) {
      if (asked !== this.asked || error.name === "AbortError") return;
      if (error.status === 0) this.hooks.lost(() => this.load());
      if (error.status === 429) window.setTimeout(() => asked === this.asked && this.load(), 1000 * (error.wait ?? 2));
      this.ui.said.textContent = error.message;
      this.root.setAttribute("aria-busy", "false");
    }
  }

  drawWord() {
    const { word } = this.ui;
    const { word: name, target } = this.query;
    word.hidden = !name && !target;
    if (word.hidden) return;
    const quoted = (said) => bold(`“${brief(said, 60)}”`);
    const said = make("span", {}, "Texts ", ...(name ? ["with ", quoted(name)] : []), ...(target ? [name ? ", explained for " : "explained for ", quoted(target)] : []));
    word.replaceChildren(said, " ", button("All texts", () => this.hooks.word(null)));
  }

  draw({ texts, matches, offset, most, damaged }) {
    const { said, list, before, after, place } = this.ui;
    this.shown = texts.map(({ number }) => number);
    const limited = this.query.search || this.query.word || this.query.target || this.query.slice;
    const broken = damaged.length ? ` ${plural(damaged.length, "part")} cannot be read: ${damaged.slice(0, 3).join(", ")}.` : "";
    said.textContent = `${plural(matches, "text")}${limited ? (matches === 1 ? " matches" : " match") : ""}.${broken}`;
    list.replaceChildren(...texts.map((text) => this.entry(text)));
    list.start = offset + 1;
    const reach = Math.min(matches, most);
    before.disabled = offset === 0;
    after.disabled = offset + PAGE >= reach;
    place.textContent = texts.length ? `${whole(offset + 1)} to ${whole(offset + texts.length)} of ${whole(matches)}` : "";
    this.ui.place.parentElement.hidden = reach <= PAGE && offset === 0;
  }

  entry(text) {
    const { label, probability, target, score, wrong, gold, status, error, strongest, effect, fidelity, id, given, preview: parts, number } = text;
    const line = make("span", { class: "line" }, bold(label ?? (status === "explained" ? target : status)));
    if (probability !== null) line.append(soft(percent(probability)));
    if (wrong) line.append(make("span", { class: "wrong", dir: "auto" }, `truly ${brief(gold, 30)}`));
    if (score !== null) line.append(scoreOf(score, target));
    const facts = [`text ${brief(id, 40)}`];
    if (effect !== null) facts.push(`“${brief(this.query.word, 30)}” ${written(effect)}`);
    else if (strongest) facts.push(`strongest “${brief(strongest.unit, 24)}” ${written(strongest.effect)}`);
    if (fidelity !== null) facts.push(fidelity < 0 ? "R² below 0" : `R² ${plain(fidelity, 2)}`);
    for (const [name, value] of Object.entries(given)) if (value !== null && name !== this.goldName) facts.push(`${brief(name, 20)} ${brief(value, 30)}`);
    const entry = button("", () => this.hooks.open(number), { "data-number": number });
    entry.append(line, preview(parts), error ? make("span", { class: "failed" }, error) : "", make("span", { class: "small" }, facts.join(" · ")));
    return make("li", {}, entry);
  }
}
