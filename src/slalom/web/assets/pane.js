// One text: where it is typed, how it is explained, what comes back round by round, and what the model is asked about it.

const PAUSE = 400; // milliseconds without a key before a text is explained
const ASK_PAUSE = 250; // before the model is asked: a double click is not two questions
const RETRY = 2; // seconds
const LONG = 1000; // words
const PATIENCE = 60; // seconds of computation; a text that takes longer is explained by sentences, unless its parts were chosen
const WORTH_SAYING = 5; // seconds that are left
const FILES = [["html", "Page (HTML)"], ["json", "Data (JSON)"], ["csv", "Table (CSV)"]];
const PICTURES = [["bar", "Bars"], ["scatter", "Scatter"]];

// Seconds in round numbers.
const span = (seconds) => (seconds < 90 ? `${Math.max(5, 5 * Math.round(seconds / 5))} s` : plural(Math.round(seconds / 60), "minute"));

class Pane {
  // hooks: changed(), explained(pane), lost(again), close()
  constructor(info, prefix, number, hooks) {
    Object.assign(this, { info, prefix, hooks, final: false, content: null, keep: [], swaps: new Map(), removed: [], answers: new Map(), widths: [], tally: hooks.tally });
    this.root = this.build(number);
    this.viewer = createViewer(this.ui.viewer, {
      prefix, asks: true, phrases: true,
      changed: () => this.removedChanged(),
      replace: (unit, element) => editUnit(element, this.content.units[unit], (text) => this.swap(unit, text)),
      painted: () => {
        hooks.changed();
        if (this.replaced.length) this.askEdited();
      },
    });
    this.viewer.ui["live-said"].setAttribute("aria-live", "polite");
    this.viewer.ui.below.replaceChildren(this.ui.swapped, this.ui.tally);
    for (const box of [this.ui.text, this.ui.fields]) {
      box.addEventListener("input", () => this.typed());
      box.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.explain());
    }
    this.draw("empty");
  }

  build(number) {
    const { info, prefix } = this;
    const ui = {};
    const part = (tag, name, attributes, ...children) => {
      ui[name] = make(tag, { ...attributes, id: `${prefix}my-${name}` }, ...children);
      return ui[name];
    };
    const id = (name) => `${prefix}my-${name}`;
    const select = (name, label, options) => {
      const box = part("select", name, {}, ...options.map(([value, text]) => make("option", { value }, text)));
      box.addEventListener("change", () => this.settled());
      return make("label", { class: "setting", hidden: "" }, make("span", {}, label), box);
    };
    const examples = info.examples.map((example) => {
      const button = make("button", { type: "button", class: "example", dir: "auto" }, example);
      button.addEventListener("click", () => this.write(example));
      return button;
    });
    const tool = (name, label, act, kind = "") => {
      const button = part("button", name, { type: "button", class: kind, disabled: "" }, label);
      button.addEventListener("click", () => act());
      return button;
    };
    const download = (format, label, picture) => {
      const button = make("button", { type: "button", "data-format": format, ...(picture ? { "data-picture": picture } : {}) }, label);
      button.addEventListener("click", () => this.download(format, picture));
      return button;
    };
    const downloads = [
      ...FILES.map(([format, label]) => download(format, label)),
      ...PICTURES.map(([picture, label]) => make("div", { class: "pictures", role: "group", "aria-label": label }, make("span", {}, label), download("png", "PNG", picture), download("svg", "SVG", picture))),
    ];
    const close = make("button", { type: "button", class: "close", id: id("close") }, "Close");
    close.addEventListener("click", () => this.hooks.close());
    this.ui = ui;
    const root = make("section", { class: "pane", "aria-label": number === 1 ? "Explanation" : "Second explanation" },
      make("div", { class: "card composer" },
        make("div", { class: "bar" }, part("label", "ask", { class: "ask", for: id("text") }, "A second text, model or method"), ...(number > 1 ? [close] : [])),
        part("textarea", "text", { rows: "3", dir: "auto", spellcheck: "false", placeholder: "The model reads along while you type …", "aria-describedby": id("status") }),
        part("div", "fields", { class: "fields", role: "group", "aria-labelledby": id("ask"), hidden: "" }),
        part("div", "examples", { class: "examples" }, make("span", { class: "soft" }, "Or try:"), ...examples),
        part("details", "fold", { class: "fold" }, part("summary", "chosen", {}), make("div", { class: "settings" },
          select("model", "Model", info.models.map(({ id: name, name: title }) => [name, title])),
          select("form", "Input", [["", "One text"], ["pair", "Two texts"]]),
          select("method", "Method", info.methods.map(({ name, title }) => [name, title])),
          select("unit", "Parts", info.units),
          select("target", "Class", []),
          select("queries", "Questions", info.budgets.map(([queries, title]) => [queries ?? "", title]))),
        part("p", "note", { class: "help note" })),
        make("div", { class: "state" }, part("p", "status", { class: "status", role: "status" }), part("p", "figures", { class: "figures" }),
          part("button", "halt", { type: "button", hidden: "" }, "Stop"), part("button", "again", { type: "button", hidden: "" }, "Try again")),
        part("p", "shortened", { class: "proposal", role: "status", hidden: "" }),
        part("p", "proposal", { class: "proposal", role: "status", hidden: "" }),
        part("div", "progress", { class: "progress", role: "progressbar", "aria-label": "Questions asked", "aria-valuemin": "0", "aria-valuemax": "100" }, make("i"))),
      part("p", "error", { class: "card error", role: "alert", hidden: "" }),
      part("div", "result", { class: "result", hidden: "" },
        make("div", { class: "tools", role: "toolbar", "aria-label": "What to do with this explanation" },
          tool("flip", "What would flip it?", () => this.flip(), "primary"),
          tool("link", "Copy link", () => this.copyLink()),
          part("details", "downloads", { class: "menu" }, make("summary", {}, "Download"), make("div", { class: "menu-body" }, ...downloads)),
          tool("python", "Python code", () => this.python())),
        part("p", "flipped", { class: "flipped", role: "status", hidden: "" }),
        part("div", "viewer", {})),
      part("div", "swapped", { class: "swapped-said", role: "status" }),
      part("div", "tally", { class: "tallies", role: "status" }));
    ui.again.addEventListener("click", () => this.explain());
    ui.unit.addEventListener("change", () => this.choseUnit(), { capture: true }); // before the text is explained again
    ui.halt.addEventListener("click", () => this.halt());
    ui.model.parentElement.hidden = info.models.length < 2;
    for (const name of ["method", "unit", "queries"]) ui[name].parentElement.hidden = ui[name].options.length < 2;
    if (info.units.some(([name]) => name === "word")) ui.unit.value = "word";
    const phone = window.matchMedia("(max-width: 40rem)");
    ui.fold.open = !phone.matches;
    phone.addEventListener("change", () => { ui.fold.open = !phone.matches; });
    this.targets();
    this.notes();
    return root;
  }

  // --- what is explained

  get model() { return this.info.models.find(({ id }) => id === this.ui.model.value) ?? this.info.models[0]; }

  get subject() {
    const { method, unit, target, queries } = this.ui;
    return {
      text: this.example, model: this.info.models.length > 1 ? this.model.id : null, method: method.value, unit: unit.value || null,
      queries: queries.disabled || !queries.value ? null : Number(queries.value), target: target.value || null, seed: this.seed ?? 0,
    };
  }

  get place() {
    const units = this.content && !this.first ? this.keep.flatMap((kept, i) => (kept ? [] : [i])) : this.removed;
    const { seed, ...subject } = this.subject;
    if (this.model.labels.length > 2) subject.target ??= ""; // the predicted class, which is not the default there
    return { subject: { ...subject, seed: seed || null }, removed: units, swaps: [...this.swaps], score: this.picked() };
  }

  // What is explained: a text, the fields of a record, or the two texts of a pair.
  get example() {
    const values = this.boxes.map(({ type, value }) => (type === "number" && value ? Number(value) : value));
    const { fields } = this.model;
    return fields.length ? Object.fromEntries(fields.map(({ name }, k) => [name, values[k]])) : this.boxes.length > 1 ? values : values[0];
  }

  set example(given) {
    const values = this.model.fields.map(({ name }) => given?.[name]);
    const found = typeof given === "string" ? [given] : values.length && values.every((value) => value !== undefined) ? values : Object.values(given);
    this.boxes.forEach((box, k) => { box.value = (this.boxes.length > 1 ? found[k] : found.join("\n")) ?? ""; });
  }

  // All that is written, and whether that is enough to be explained.
  get written() { return this.boxes.map(({ value }) => value).join("\n").trim(); }

  get ready() { return this.boxes.every(({ value }) => value.trim()); }

  // A box per field of the model, two for a pair, else one; what is written stays.
  shape() {
    const { ui, model } = this;
    const choice = model.records && !model.fields.length;
    ui.form.parentElement.hidden = !choice;
    const fields = model.fields.length ? model.fields : choice && ui.form.value ? [{ name: "text 1" }, { name: "text 2" }] : [];
    const shaped = JSON.stringify(fields);
    if (shaped === this.shaped) return;
    const before = this.boxes?.map(({ value }) => value) ?? [];
    this.shaped = shaped;
    this.boxes = fields.map(({ number }) => (number ? make("input", { type: "number", step: "any" }) : make("textarea", { rows: "1", dir: "auto", spellcheck: "false" })));
    ui.fields.replaceChildren(...fields.map(({ name }, k) => make("label", {}, make("bdi", {}, name), this.boxes[k])));
    ui.fields.hidden = !fields.length;
    ui.text.hidden = fields.length > 0;
    if (!this.prefix) ui.ask.textContent = fields.length ? "Fill in every field" : "Type or paste a text";
    if (!fields.length) this.boxes = [ui.text];
    this.boxes.forEach((box, k) => { box.value = before[k] ?? ""; });
  }

  picked() {
    const { score, text } = this.viewer.state;
    return text && score !== text.initial_score ? score : null;
  }

  // Go to a place: what an address holds, or what was explained before.
  go({ subject, removed = [], swaps = [], score }) {
    const { ui } = this;
    this.restore();
    const set = (box, value) => { if (value !== null && value !== undefined && [...box.options].some((option) => option.value === String(value))) box.value = String(value); };
    set(ui.model, subject.model);
    ui.form.value = typeof subject.text === "string" ? "" : "pair";
    this.targets();
    this.example = subject.text;
    for (const name of ["method", "unit"]) set(ui[name], subject[name]);
    set(ui.target, subject.target ?? (this.model.labels.length > 2 ? "all" : "")); // the default, not what was chosen before
    this.unitChosen = Boolean(subject.unit);
    if (subject.queries && ![...ui.queries.options].some((option) => option.value === String(subject.queries))) {
      ui.queries.append(make("option", { value: subject.queries }, plural(subject.queries, "question")));
    }
    ui.queries.value = subject.queries ? String(subject.queries) : "";
    this.seed = subject.seed ?? 0;
    if (score !== undefined) this.viewer.pick(score); // an address without a score is one of the first score
    this.notes();
    this.explain();
    this.removed = removed;
    this.pendingSwaps = swaps;
  }

  targets() {
    this.shape();
    const { labels, scale } = this.model;
    const { target } = this.ui;
    if (this.targetsOf === this.model) return;
    this.targetsOf = this.model;
    const before = target.value;
    const choices = [["", labels.length === 2 ? labels[1] : "Predicted"], ...labels.filter((_, c) => labels.length !== 2 || c === 0).map((label) => [label, label]), ...(labels.length > 2 ? [["all", "All classes"]] : [])];
    target.replaceChildren(...choices.map(([value, text]) => make("option", { value }, text)));
    if (before && choices.some(([value]) => value === before)) target.value = before;
    else if (labels.length > 2) target.value = "all";
    target.parentElement.hidden = labels.length < 2 || !scale;
  }

  notes() {
    const method = this.info.methods.find(({ name }) => name === this.ui.method.value);
    this.ui.queries.disabled = !method?.takes_budget;
    const choices = ["model", "form", "method", "unit", "target", "queries"].map((name) => this.ui[name]).filter((box) => !box.parentElement.hidden && !box.disabled);
    this.ui.chosen.textContent = choices.map((box) => box.selectedOptions[0]?.textContent ?? "").join(" · ");
    this.ui.note.textContent = [method ? `${method.title}: ${method.note}` : "", this.long ? "A long text is explained much faster by sentences (Parts)." : ""].filter(Boolean).join(" ");
  }

  get long() { return this.ui.unit.value !== "sentence" && this.written.split(/\s+/, LONG + 1).length > LONG; }

  write(text) {
    this.restore();
    this.example = text;
    this.explain();
    this.boxes[0].focus();
  }

  settled() {
    this.targets();
    this.notes();
    this.explain();
  }

  typed() {
    this.stop();
    this.restore();
    this.root.classList.add("stale");
    if (!this.ready) {
      this.explain();
      return;
    }
    this.draw("typing");
    this.timer = window.setTimeout(() => this.explain(), PAUSE);
  }

  stop() {
    window.clearTimeout(this.timer);
    window.clearInterval(this.clock);
    this.stream?.abort();
    this.question?.abort();
    this.stream = null;
  }

  // Stop at once; what has been found so far stays.
  halt() {
    this.stop();
    this.draw("stopped");
    this.ui.again.focus();
  }

  // --- explaining

  async explain() {
    this.stop();
    const subject = this.subject;
    if (!this.ready) {
      this.content = null;
      this.draw("empty");
      this.hooks.changed();
      return;
    }
    const { length } = this.written;
    if (length > this.info.limits.characters) {
      this.draw("error", `A text can have ${this.info.limits.characters.toLocaleString("en")} characters; this one has ${length.toLocaleString("en")}.`);
      return;
    }
    const stream = new AbortController();
    Object.assign(this, { stream, final: false, removed: [], pendingSwaps: [], widths: [], answers: new Map(), asked: subject });
    this.swaps.clear();
    this.ui.swapped.replaceChildren();
    this.viewer.ui.live.classList.remove("replaced");
    this.first = true;
    this.since = null;
    this.notes();
    this.tools();
    this.propose(null);
    this.draw("running", { queries: 0, of: null });
    this.hooks.changed();
    try {
      await api.stream("/api/explain", subject, stream.signal, (name, data) => stream === this.stream && this.came(name, data));
    } catch (error) {
      if (stream !== this.stream || error.name === "AbortError") return;
      this.failed(error, () => this.explain());
    }
  }

  came(name, data) {
    if (name === "queued") this.draw("queued", data);
    if (name === "expected" && !(data.seconds > PATIENCE && this.shorten(data))) this.propose(data);
    if (name === "progress") this.draw("running", data);
    if (name === "explanation") this.show(data);
  }

  // Explain a text that takes too long by sentences, and say so; false where the reader chose its parts.
  shorten({ units, seconds }) {
    const { unit, method, shortened } = this.ui;
    const offered = (box, value) => [...box.options].some((option) => option.value === value);
    if (this.unitChosen || this.before !== undefined || unit.value === "sentence" || !offered(unit, "sentence")) return false;
    this.before = unit.value;
    const noun = this.before === "word" ? "word" : "token";
    const back = (label, quick) => {
      const button = make("button", { type: "button" }, label);
      button.addEventListener("click", () => {
        this.restore();
        this.unitChosen = true;
        if (quick) method.value = "ridge";
        this.settled();
      });
      return button;
    };
    const most = this.info.limits.seconds;
    const why = seconds ? `By ${noun}s the computation alone would take about ${span(seconds)} (${plural(units, noun)})` : `This text is too long to be explained by ${noun}s here`;
    shortened.replaceChildren(`${why}${seconds > most ? `; this server stops after ${span(most)}` : ""}. This is by sentences.`,
      ...(seconds <= most ? [back(`Explain by ${noun}s`)] : []), ...(method.value !== "ridge" && offered(method, "ridge") ? [back(`Linear by ${noun}s: quicker`, true)] : []));
    shortened.hidden = false;
    unit.value = "sentence";
    this.explain();
    return true;
  }

  // Undo `shorten`, for another text.
  restore() {
    if (this.before === undefined) return;
    this.ui.unit.value = this.before;
    this.choseUnit(false);
  }

  choseUnit(chosen = true) {
    this.unitChosen = chosen;
    this.before = undefined;
    this.ui.shortened.hidden = true;
  }

  // What a long text takes, and what is quicker; null: nothing to say.
  propose(expected) {
    const { proposal, unit, method } = this.ui;
    proposal.hidden = expected === null;
    if (expected === null) return;
    const offers = [[unit, "sentence", "Explain by sentences"], [method, "ridge", "Linear: quicker"]].filter(([box, value]) => box.value !== value && [...box.options].some((option) => option.value === value));
    const buttons = offers.map(([box, value, label]) => {
      const button = make("button", { type: "button" }, label);
      button.addEventListener("click", () => {
        box.value = value;
        this.settled();
      });
      return button;
    });
    const { units, seconds } = expected;
    const noun = { sentence: "sentence", word: "word" }[unit.value] ?? "token";
    proposal.replaceChildren(units ? `${plural(units, noun)}: the computation alone takes about ${span(seconds)}.` : "A long text is explained much faster by sentences.", ...buttons);
  }

  show({ content, queries, final }) {
    const fresh = this.first;
    this.first = false;
    this.content = content;
    this.final = final;
    this.answered = queries;
    if (fresh) {
      this.keep = new Array(content.units.length).fill(1);
      for (const unit of this.removed) if (unit in this.keep) this.keep[unit] = 0;
    }
    this.root.classList.remove("stale");
    this.ui.result.hidden = false;
    const column = fresh || !Array.isArray(content.score) ? content.leading : this.viewer.state.class;
    this.viewer.show(content, { keep: this.keep, column, rough: !final });
    if (fresh) {
      this.ui.flipped.hidden = true;
      for (const [unit, text] of this.pendingSwaps) if (unit < content.units.length) this.swaps.set(unit, text);
      for (const unit of content.units.keys()) if (this.viewer.text.spans[unit]?.dataset.was !== undefined) this.viewer.text.swap(unit, null);
      for (const [unit, text] of this.swaps) this.viewer.text.swap(unit, text);
      this.viewer.ui.live.classList.toggle("replaced", this.replaced.length > 0);
    }
    const within = this.viewer.reading().within("removal")?.filter((half) => half !== null).sort((a, b) => a - b);
    if (within?.length) this.widths.push(within[Math.floor((within.length - 1) / 2)]);
    this.draw(final ? "done" : "running", { queries, of: this.of, content });
    this.tools();
    if (!final) return;
    this.hooks.explained(this);
    if (this.replaced.length) this.askEdited();
    else if (this.keep.some((kept) => !kept)) this.ask();
  }

  failed(error, again) {
    if (error.status === 0) {
      this.draw("lost");
      this.hooks.lost(() => this.explain());
    } else if (error.status === 429) {
      let left = Math.max(1, Math.round(error.wait ?? RETRY));
      const tick = () => {
        this.draw("busy", left);
        if (left-- <= 0) {
          window.clearInterval(this.clock);
          again();
        }
      };
      this.clock = window.setInterval(tick, 1000);
      tick();
    } else {
      if (error.status === 400 && this.long && this.shorten({})) return;
      this.draw("error", error.message);
      if (error.status === 400 && this.long) this.propose({});
    }
  }

  // --- states

  draw(state, data) {
    const { ui } = this;
    this.root.dataset.state = state;
    ui.examples.hidden = state !== "empty" || this.boxes.length > 1;
    ui.error.hidden = state !== "error";
    ui.error.textContent = state === "error" ? data : "";
    ui.again.hidden = !["error", "lost", "stopped"].includes(state);
    ui.again.textContent = state === "stopped" ? "Explain again" : "Try again";
    if (["empty", "error"].includes(state)) ui.result.hidden = true;
    const running = ["running", "queued", "busy"].includes(state);
    ui.progress.hidden = ui.halt.hidden = !running;
    if (!running) ui.proposal.hidden = true;
    const share = state === "running" && data.of ? Math.min(1, data.queries / data.of) : null;
    ui.progress.classList.toggle("unknown", running && share === null);
    ui.progress.firstChild.style.width = `${100 * (share ?? 1)}%`;
    if (share === null) ui.progress.removeAttribute("aria-valuenow");
    else ui.progress.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    if (state === "running") this.of = data.of ?? this.of;
    const said = this.says(state, data);
    if (ui.status.textContent !== said) ui.status.textContent = said; // screen readers read every change
    if (data?.content) this.figures(data.content);
    else if (!running) ui.figures.textContent = "";
  }

  says(state, data) {
    const count = (n) => n.toLocaleString("en");
    if (state === "empty") return this.written ? "Explains when every field is filled in." : "";
    if (state === "typing") return "Explains when you pause.";
    if (state === "queued") return data.position ? `Waiting: ${plural(data.position, "request")} before this one.` : "Waiting for its turn.";
    if (state === "busy") return `The server is busy; trying again in ${data} s.`;
    if (state === "lost") return "The server does not answer.";
    if (state === "error") return "";
    if (state === "stopped") return this.content && !this.first ? `Stopped: rough, after ${plural(this.answered, "question")} to the model.` : "Stopped.";
    if (state === "done") return `Final: ${plural(data.content.queries, "question")} to the model.`;
    if (data.content || this.content && !this.first) return `Rough, refining: ${count(data.queries)}${this.of ? ` of ${count(this.of)}` : ""} questions to the model${this.left(data)}.`;
    return data.queries ? `Asking the model: ${count(data.queries)}${data.of ? ` of ${count(data.of)}` : ""} questions${this.left(data)}.` : "Asking the model …";
  }

  // How long the rest takes, by what was asked so far.
  left({ queries }) {
    const now = performance.now() / 1000;
    if (!queries || !this.of) return "";
    this.since ??= { now, queries };
    const done = queries - this.since.queries;
    const seconds = done > 0 ? ((this.of - queries) * (now - this.since.now)) / done : 0;
    return seconds > WORTH_SAYING ? `, about ${span(seconds)} left` : "";
  }

  // R2 on held-out questions, and how the intervals shrink from round to round.
  figures(content) {
    const parts = [];
    if (!content.tested && !this.final && content.signed) parts.push("not tested yet: R² comes with the next round");
    if (content.tested) parts.push(content.tested);
    if (this.widths.some((half) => half >= 0.005)) parts.push(`median interval ${this.widths.map((half) => `± ${plain(half, 2)}`).join(" → ")}`);
    this.ui.figures.replaceChildren(...parts.map((part) => make("span", {}, part)));
  }

  tools() {
    const { ui } = this;
    const decides = this.content?.signed && this.content.prediction !== null;
    ui.flip.disabled = !this.final || !decides;
    ui.link.disabled = ui.python.disabled = !this.final;
    ui.downloads.classList.toggle("off", !this.final);
    for (const button of ui.downloads.querySelectorAll("button")) button.disabled = !this.final;
    ui.downloads.querySelector(".pictures:last-child").hidden = this.content?.told_apart === false; // one number per unit has no scatter
  }

  // --- asking the model

  removedChanged() {
    this.ui.flipped.hidden = true;
    window.clearTimeout(this.asking);
    this.question?.abort();
    this.hooks.changed();
    this.askEdited();
    if (this.replaced.length || !this.keep.some((kept) => !kept)) return;
    this.viewer.setAnswer(this.answers.get(this.keep.join("")) ?? "waiting");
    this.asking = window.setTimeout(() => this.ask(), ASK_PAUSE);
  }

  // The units that are there with another text.
  get replaced() { return [...this.swaps].filter(([unit]) => this.keep[unit]); }

  async ask() {
    if (!this.final) return; // when the last round is there
    const keep = [...this.keep];
    const key = keep.join("");
    const question = new AbortController();
    this.question = question;
    try {
      const answer = this.answers.get(key) ?? { scores: asRow((await api.json("/api/ask", { ...this.asked, keep: [keep] }, { signal: question.signal })).scores[0]) };
      this.answers.set(key, answer);
      if (this.keep.join("") !== key) return;
      this.viewer.setAnswer(answer);
      this.tally.add(`${JSON.stringify(this.asked)} ${this.viewer.state.class} ${key}`, this.viewer.reading(), keep, answer.scores);
      this.hooks.tallied();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.viewer.setAnswer(null);
      this.toast(error.message);
    }
  }

  // Put another text in the place of a unit; its own text again undoes it.
  swap(unit, text) {
    const own = this.content.pieces.find(([, i]) => i === unit)[0];
    if (text === own) this.swaps.delete(unit);
    else this.swaps.set(unit, text);
    this.viewer.text.swap(unit, text === own ? null : text);
    this.removedChanged();
  }

  unswap() {
    for (const unit of this.swaps.keys()) this.viewer.text.swap(unit, null);
    this.swaps.clear();
  }

  // The text or record as it stands: with other words in their places, without the removed ones and the space behind each.
  get edited() {
    const { pieces, fields } = this.content;
    const texts = [""];
    let at = 0;
    let open = true; // whether a space would be one too many
    for (const [piece, unit, field] of pieces) {
      if (field !== undefined) {
        at = field;
        texts[at] = "";
        open = true;
        continue;
      }
      if (unit !== null && !this.keep[unit]) continue;
      const added = this.swaps.get(unit) ?? piece;
      texts[at] += open ? added.trimStart() : added;
      open = texts[at] === "" || /\s$/.test(texts[at]);
    }
    if (!fields || Array.isArray(this.asked.text)) return fields ? texts : texts[0];
    const kept = ([name, units], k) => {
      const own = this.asked.text[name];
      if (typeof own === "string") return texts[k];
      return units.some((unit) => this.swaps.has(unit)) ? Number(texts[k]) : texts[k] ? own : null;
    };
    return Object.fromEntries(fields.map((field, k) => [field[0], kept(field, k)]));
  }

  // Replaced words: slalom predicts removals only, so that the model alone speaks about the text as it stands.
  async askEdited() {
    const { swapped } = this.ui;
    const { replaced } = this;
    this.viewer.ui.live.classList.toggle("replaced", replaced.length > 0);
    if (!replaced.length) {
      swapped.replaceChildren();
      return;
    }
    const { units, score_name: scale } = this.content;
    const named = replaced.map(([unit, text]) => `“${brief(text)}” instead of “${brief(units[unit])}”`).join(", ");
    const gone = units.filter((_, i) => !this.keep[i]).map((name) => `“${brief(name)}”`).join(", ");
    const lead = make("p", { class: "term" }, make("bdi", {}, `With ${named}${gone ? `, without ${gone}` : ""}`));
    swapped.replaceChildren(lead, make("p", {}, "…"));
    const text = this.edited;
    try {
      const { model, target } = this.asked;
      const found = await api.json("/api/ask", { model, target, texts: [text] });
      if (JSON.stringify(text) !== JSON.stringify(this.edited) || !this.replaced.length) return;
      const reading = this.viewer.reading();
      const scores = asRow(found.scores[0]);
      const own = scores[Math.min(reading.at, scores.length - 1)];
      const chance = found.probabilities?.[0][found.labels.indexOf(found.label[0])];
      const again = make("button", { type: "button" }, "Explain this text");
      const undo = make("button", { type: "button" }, "Undo");
      again.addEventListener("click", () => this.write(text));
      undo.addEventListener("click", () => {
        this.unswap();
        this.viewer.setKeep(this.keep.map(() => 1));
      });
      swapped.replaceChildren(lead,
        make("p", { class: "said" }, "the model says ", make("b", { dir: "auto" }, found.label[0] ?? ""), ...(chance === undefined ? [] : [percent(chance)]),
          make("b", { class: `number ${own < 0 ? "minus" : "plus"}` }, signed(own, 3)), `${scale}, ${signed(own - reading.score, 3)} compared with the whole text`),
        make("p", { class: "help" }, `All other ${reading.noun}s are there. slalom predicts removals, not replacements.`),
        make("div", { class: "row" }, again, undo));
    } catch (error) {
      swapped.replaceChildren(lead, make("p", {}, error.message));
    }
  }

  async flip() {
    const { flipped, flip } = this.ui;
    const { asked } = this;
    flip.disabled = true;
    flipped.hidden = false;
    flipped.textContent = "Looking for the fewest …";
    try {
      const { flip: found } = await api.json("/api/flip", asked, { signal: this.stream?.signal });
      if (asked !== this.asked) return;
      const noun = this.viewer.reading().noun;
      if (!found) flipped.textContent = `No few ${noun}s were found whose removal flips the decision.`;
      else {
        const { units } = this.content;
        this.unswap();
        this.viewer.setKeep(units.map((_, i) => (found.units.includes(i) ? 0 : 1)));
        const names = found.units.map((i) => `“${brief(units[i])}”`);
        const listed = names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
        const change = `${signed(found.score_before, 3)} → ${signed(found.score_after, 3)}`;
        flipped.hidden = false; // removing units hides what was said before
        flipped.replaceChildren("Without ", make("bdi", {}, listed), " the model decides ", make("b", { dir: "auto" }, found.label_after ?? "otherwise"), " instead of ",
          make("b", { dir: "auto" }, found.label_before ?? ""), `: ${this.content.score_name} ${change}. ${found.confirmed ? `Confirmed by the model (${plural(found.queries, "question")}).` : "Not confirmed by the model."}`);
      }
    } catch (error) {
      if (error.name !== "AbortError") flipped.textContent = error.message;
    }
    this.tools();
  }

  // --- taking it along

  toast(text) { this.hooks.toast(text); }

  async copyLink() {
    this.hooks.changed.now();
    await this.hooks.copy(window.location.href, "The link is copied; it holds the text and all settings.");
  }

  async download(format, picture) {
    this.ui.downloads.open = false;
    try {
      const response = await api.fetch("/api/download", { ...this.asked, format, ...(picture ? { picture } : {}) }, { accept: "*/*" });
      const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? `slalom.${format}`;
      const link = make("a", { href: URL.createObjectURL(await response.blob()), download: name });
      link.click();
      window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      this.toast(`${name} is saved.`);
    } catch (error) {
      this.toast(error.message);
    }
  }

  async python() {
    try {
      const code = await (await api.fetch("/api/download", { ...this.asked, format: "python" }, { accept: "*/*" })).text();
      byId("code-text").textContent = code;
      byId("code").showModal();
    } catch (error) {
      this.toast(error.message);
    }
  }
}
