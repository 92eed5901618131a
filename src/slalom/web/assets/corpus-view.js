// The corpus view: its summary and its texts side by side, or one text. The address holds what is looked for.

const SOON = 700; // milliseconds between looks while a summary is computed
const LATER = 4000; // while a run goes on
const QUERY = ["search", "word", "target", "sort", "slice"];

const corpusView = {
  info: null, corpus: null, version: "", on: false, number: null, hooks: {},

  // hooks: explain(subject), texts() when the other view is chosen, lost(again)
  start(info, hooks) {
    Object.assign(this, { info, hooks });
    const views = byId("views");
    views.hidden = false;
    views.append(choice("view", "text", "One text", true, () => this.leave()), choice("view", "corpus", "Corpus", false, () => this.open()));
    this.ui = {
      head: make("section", { class: "facts", "aria-label": "Corpus", id: "corpus-head" }), notice: make("p", { class: "card notice", role: "note", id: "corpus-notice", hidden: "" }),
      state: make("p", { class: "card", role: "status", id: "corpus-state" }), words: make("section", { class: "card", "aria-labelledby": "corpus-words-title", hidden: "" }),
      texts: make("section", { class: "card", "aria-label": "Texts" }), one: make("div", { id: "corpus-one", hidden: "" }),
    };
    const { head, notice, state, words, texts, one } = this.ui;
    this.both = make("div", { class: "corpus-both" }, make("div", {}, state, words), texts);
    byId("corpus").append(head, notice, this.both, one);
    this.words = new CorpusWords(words, { choose: (name) => this.choose(name), target: (name) => this.chooseTarget(name) });
    this.texts = new CorpusTexts(texts, { changed: () => this.write(false), open: (number) => this.openText(number), word: (name) => this.choose(name), lost: hooks.lost });
    this.one = new CorpusOne(one, { back: () => this.openText(null), step: (by) => this.step(by), explain: (text) => this.explain(text), lost: hooks.lost });
  },

  // --- where we are

  // Show what an address holds; false where it is about the other view.
  load(hash) {
    const fields = new URLSearchParams(hash.replace(/^#/, ""));
    if (fields.has("text") || (!fields.has("corpus") && hash.length > 1)) {
      this.hide();
      return false;
    }
    const whole = (name) => (/^[0-9]{1,15}$/.test(fields.get(name) ?? "") ? Number(fields.get(name)) : null);
    this.number = whole("number");
    const query = { search: "", word: "", target: "", sort: "number", slice: "", offset: whole("offset") ?? 0 };
    for (const name of QUERY) query[name] = (fields.get(name) ?? query[name]).slice(0, name === "slice" ? 400 : 200);
    this.reveal();
    this.texts.set(query, true);
    this.words.mark(query.word || null);
    this.drawOne();
    return true;
  },

  write(steps) {
    const fields = new URLSearchParams({ corpus: this.number === null ? "texts" : "text" });
    const { query } = this.texts;
    for (const name of QUERY) if (query[name] && !(name === "sort" && query.sort === "number")) fields.append(name, query[name]);
    if (query.offset) fields.append("offset", query.offset);
    if (this.number !== null) fields.append("number", this.number);
    const hash = `#${fields}`;
    if (hash === window.location.hash) return;
    if (steps) window.history.pushState(null, "", hash);
    else window.history.replaceState(null, "", hash);
  },

  reveal() {
    document.body.classList.add("in-corpus");
    document.body.classList.remove("first");
    byId("corpus").hidden = false;
    document.querySelector('#views [value="corpus"]').checked = true;
    byId("title").textContent = "What does the model do in general?";
    if (this.on) return;
    this.on = true;
    this.look();
  },

  hide() {
    document.querySelector('#views [value="text"]').checked = true;
    if (!this.on) return;
    this.on = false;
    window.clearTimeout(this.timer);
    this.texts.stop();
    document.body.classList.remove("in-corpus");
    byId("corpus").hidden = true;
    byId("title").textContent = "Why did the model decide that?";
  },

  open() {
    window.history.pushState(null, "", window.location.pathname);
    this.load("");
    this.write(false);
  },

  leave() {
    this.hide();
    this.hooks.texts();
  },

  choose(name) {
    this.number = null;
    // effects of a word mean something for the class of the summary only
    this.texts.set({ word: name ?? "", target: name && this.classes > 1 ? this.words.data.about.target : "" }, true);
    this.write(true);
    this.words.mark(name);
    if (name && this.texts.root.getBoundingClientRect().top > window.innerHeight - 120) this.texts.root.scrollIntoView({ block: "start" });
  },

  get classes() { return this.words.data ? 1 + Object.keys(this.words.data.about.other_targets).length : 1; },

  // The class to summarise; nothing: the one that most texts explain.
  get wanted() {
    const { target } = this.texts.query;
    return target && target !== this.words.data?.about.target ? target : this.summarised ?? "";
  },

  chooseTarget(name) {
    this.texts.set({ target: name }, true);
    this.write(true);
    this.version = "";
    this.look();
  },

  openText(number) {
    const before = this.number;
    this.number = number;
    this.write(true);
    this.drawOne();
    if (number === null) document.querySelector(`#corpus-texts [data-number="${before}"]`)?.focus();
    else {
      window.scrollTo({ top: 0 });
      byId("corpus-back").focus({ preventScroll: true });
    }
  },

  step(by) {
    const { shown } = this.texts;
    const next = shown[shown.indexOf(this.number) + by];
    if (next === undefined) return;
    this.number = next;
    this.write(false);
    this.drawOne();
  },

  // --- what is shown

  get served() { return this.info.models.find(({ id }) => id === this.corpus?.served?.model) ?? this.info.models[0]; },

  drawOne() {
    const open = this.number !== null;
    this.both.hidden = open;
    this.ui.one.hidden = !open;
    if (!open || !this.corpus) return;
    const { shown } = this.texts;
    const at = shown.indexOf(this.number);
    this.one.ui.previous.disabled = at <= 0;
    this.one.ui.next.disabled = at < 0 || at + 1 >= shown.length;
    if (this.one.number !== this.number || !this.one.text) this.one.show(this.number, this.corpus, this.served);
  },

  // Ask how far the corpus and its summary are, again and again while something changes.
  async look() {
    window.clearTimeout(this.timer);
    let wait = LATER;
    try {
      const target = this.wanted;
      const { corpus, state, version, summary } = await api.json(`/api/corpus/summary?${new URLSearchParams({ known: this.version, target })}`);
      if (!this.on) return;
      if (target !== this.wanted) return this.look(); // another class was chosen meanwhile
      const grown = this.corpus !== null && this.corpus.parts !== corpus.parts;
      const first = this.corpus === null;
      this.corpus = corpus;
      this.one.goldName = this.texts.goldName = corpus.gold;
      this.texts.offer(corpus);
      if (summary) {
        this.version = version;
        this.summarised = target;
        this.ui.words.hidden = false;
        this.words.show(summary);
        this.accuracy = summary.about.accuracy;
      }
      this.drawHead(corpus);
      this.drawState(state);
      if (first) this.drawOne();
      if (grown && this.number === null) this.texts.load();
      if (state.computing) wait = SOON;
      else if (!corpus.running) wait = 4 * LATER;
    } catch (error) {
      if (!this.on) return;
      if (error.status === 0) return this.hooks.lost(() => this.look());
      this.ui.state.hidden = false;
      this.ui.state.textContent = error.message;
    }
    this.timer = window.setTimeout(() => (document.hidden ? this.later() : this.look()), wait);
  },

  later() {
    document.addEventListener("visibilitychange", () => this.on && this.look(), { once: true });
  },

  drawHead(corpus) {
    const { failed = 0, killed = 0 } = corpus.statuses;
    const of = corpus.of && corpus.of > corpus.texts ? ` of ${whole(corpus.of)}` : "";
    this.ui.head.replaceChildren(
      tile("Corpus", bold(corpus.name)), tile("Model", bold(corpus.model)),
      tile("Texts", bold(`${whole(corpus.texts)}${of}`, "number"), soft(corpus.running ? "a run is under way" : of ? "not complete" : "")),
      ...(failed + killed ? [tile("Without explanation", bold(whole(failed + killed), "number"))] : []),
      ...(this.accuracy === null || this.accuracy === undefined ? [] : [tile("Accuracy", bold(percent(this.accuracy), "number"))]),
    );
    const { notice } = this.ui;
    notice.hidden = !corpus.served || corpus.served.same;
    notice.textContent = `The model that is served here (${this.served.name}) is not the one that made this corpus (${corpus.model}): new explanations may differ from the stored ones.`;
  },

  drawState({ computing, share: done, error }) {
    const { state } = this.ui;
    const said = computing && !this.version ? `Summarising the words of all texts: ${Math.round(100 * done)} % …` : error ?? (this.corpus.parts ? "" : "No part of the corpus is there yet; this page looks again by itself.");
    state.hidden = !said;
    state.classList.toggle("error", Boolean(error) && !computing);
    if (state.textContent !== said) state.textContent = said;
  },

  // Send a text to the served model, with the options of the run as far as this page has them.
  explain(text) {
    const { method, unit, queries, target, seed } = this.corpus.options;
    const known = this.info.methods.some(({ name }) => name === method);
    window.history.pushState(null, "", window.location.pathname); // back leads here again
    this.hide();
    this.hooks.explain({
      text, model: this.info.models.length > 1 ? this.served.id : null, method: known ? method : null, unit,
      queries: queries && queries <= this.info.limits.queries ? queries : null, target: this.served.labels.includes(target) ? target : "", seed,
    });
  },
};
