// The sources view: a language model answers from sources, and what its answer rests on is shown round by round.

const EXAMPLE = {
  sources: "Anna Keller grew up in Graz and works as a dentist. Tom Novak repairs old clocks in Lisbon. The dentist Anna Keller has lived in Oslo since 2019. "
    + "On Sundays Tom Novak plays the cello in a small orchestra. Since 2019 Anna Keller's home is Oslo. Maria Silva sells flowers at the market of Porto.",
  question: "Where does Anna Keller live, what does Tom Novak play, and what is the capital of France?",
  answer: "Anna Keller lives in Oslo. Tom Novak plays the cello. The capital of France is Paris.",
};

const sourcesView = {
  on: false, stream: null, content: null, keep: [],

  // hooks: shown() before this view is, hidden() after another one was chosen, lost(again)
  start(info, hooks) {
    Object.assign(this, { info, hooks });
    const ui = {};
    const part = (tag, name, attributes, ...children) => {
      ui[name] = make(tag, { ...attributes, id: `ask-${name}` }, ...children);
      return ui[name];
    };
    const field = (name, label, attributes) => make("label", {}, label, part("textarea", name, { dir: "auto", spellcheck: "false", ...attributes }));
    const unit = part("select", "unit", {}, make("option", { value: "sentence" }, "each sentence"), make("option", { value: "paragraph" }, "each paragraph, after a blank line"));
    this.form = make("form", { class: "card composer asking", "aria-label": "Question about sources" },
      make("p", { class: "help" }, "The model answers from the sources. Then it is asked again and again without some of them: which does each sentence of the answer rest on?"),
      field("sources", "Sources", { class: "long", required: "" }),
      make("label", { class: "setting" }, "A source is ", unit),
      field("question", "Question", { rows: "1", required: "" }),
      field("answer", "Answer, if you have one", { rows: "1", placeholder: `${info.sources.model} writes it` }),
      make("div", { class: "row" }, make("button", { type: "submit", class: "primary" }, "Ask"), part("button", "halt", { type: "button", hidden: "" }, "Stop"), button("Example", () => this.fill(EXAMPLE)),
        part("span", "status", { class: "status", role: "status" })),
      part("div", "progress", { class: "progress", role: "progressbar", "aria-label": "Questions asked", "aria-valuemin": "0", "aria-valuemax": "100", hidden: "" }, make("i")));
    byId("sources").append(this.form, part("p", "error", { class: "card error", role: "alert", hidden: "" }), part("p", "said", { class: "card answer", "aria-live": "polite", dir: "auto", hidden: "" }), part("div", "viewer", { hidden: "" }));
    this.ui = ui;
    this.viewer = createViewer(ui.viewer, { prefix: "sources-" });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.form.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.form.requestSubmit());
    ui.halt.addEventListener("click", () => this.halt());
    const views = byId("views");
    views.hidden = !info.models.length;
    if (!info.corpus) views.append(choice("view", "text", "One text", true, () => {}));
    views.append(choice("view", "sources", "Sources", false, () => {
      window.history.pushState(null, "", this.address);
      this.reveal();
    }));
    views.addEventListener("change", ({ target }) => {
      if (target.value === "sources") return;
      this.hide();
      hooks.hidden();
    });
  },

  // --- where we are

  // Show what an address holds; false where it is about another view.
  load(hash) {
    const fields = new URLSearchParams(hash.replace(/^#/, ""));
    if (!fields.has("sources") && this.info.models.length) {
      this.hide();
      return false;
    }
    this.fill(Object.fromEntries(fields));
    this.reveal();
    return true;
  },

  get asked() {
    const { sources, question, answer, unit } = this.ui;
    return { sources: sources.value, question: question.value, answer: answer.value.trim() ? answer.value : null, unit: unit.value };
  },

  get address() {
    const { sources, ...rest } = this.asked;
    return `#${new URLSearchParams({ sources, ...Object.fromEntries(Object.entries(rest).filter(([, text]) => text)) })}`;
  },

  fill({ sources = "", question = "", answer = "", unit = "sentence" }) {
    const { ui } = this;
    [ui.sources.value, ui.question.value, ui.answer.value] = [sources, question, answer];
    ui.unit.value = unit === "paragraph" ? unit : "sentence";
  },

  reveal() {
    this.hooks.shown();
    document.body.classList.add("in-sources");
    document.body.classList.remove("first");
    byId("sources").hidden = false;
    document.querySelector('#views [value="sources"]').checked = true;
    byId("title").textContent = "Which sources does an answer rest on?";
    this.on = true;
  },

  hide() {
    if (!this.on) return;
    this.on = false;
    document.body.classList.remove("in-sources");
    byId("sources").hidden = true;
    if (document.body.classList.contains("in-corpus")) return;
    document.querySelector('#views [value="text"]').checked = true;
    byId("title").textContent = "Why did the model decide that?";
  },

  // --- asking

  async ask() {
    this.stream?.abort();
    const stream = new AbortController();
    Object.assign(this, { stream, content: null, of: null });
    const { ui } = this;
    ui.error.hidden = ui.said.hidden = ui.viewer.hidden = true;
    window.history.replaceState(null, "", this.address);
    this.draw("Asking the model …", null);
    try {
      await api.stream("/api/context", this.asked, stream.signal, (name, data) => stream === this.stream && this.came(name, data));
    } catch (error) {
      if (stream !== this.stream || error.name === "AbortError") return;
      this.stream = null;
      this.draw("");
      ui.error.hidden = false;
      ui.error.textContent = error.message;
      if (error.status === 0) this.hooks.lost(() => this.ask());
    }
  },

  came(name, data) {
    const { ui } = this;
    const asked = ({ queries }) => `${queries.toLocaleString("en")}${this.of ? ` of ${this.of.toLocaleString("en")}` : ""} questions to the model`;
    if (name === "queued" && data.position) this.draw(`Waiting: ${plural(data.position, "request")} before this one.`, null);
    if (name === "writing" || name === "answer") { // what is written so far, then all of it
      ui.said.setAttribute("aria-busy", String(name === "writing")); // so that a screen reader waits for all of it
      ui.said.textContent = data.answer;
      if (ui.said.hidden) {
        ui.said.hidden = false;
        ui.said.scrollIntoView({ block: "nearest" });
      }
      this.draw(name === "writing" ? "The model writes its answer …" : "Asking without some of the sources …", null);
    }
    if (name === "progress") {
      this.of = data.of;
      this.draw(`${this.content ? this.rough : "Asking without some of the sources"}: ${asked(data)}.`, data.queries / data.of);
    }
    if (name !== "explanation") return;
    this.keep = this.kept(data.content.sizes);
    this.content = data.content;
    ui.said.hidden = true;
    ui.viewer.hidden = false;
    this.viewer.show(data.content, { keep: this.keep, rough: !data.final });
    if (data.final) this.stream = null;
    this.draw(data.final ? `Final: ${plural(data.queries, "question")} to the model.` : `${this.rough}: ${asked(data)}.`, data.queries / this.of);
  },

  // Which units are kept, of so many sources each: parts of the units of the round before, which may be taken out.
  kept(sizes) {
    const before = this.content === null ? [] : this.content.sizes.flatMap((size, i) => new Array(size).fill(this.keep[i]));
    let end = 0;
    return sizes.map((size) => before[(end += size) - 1] ?? 1);
  },

  get rough() {
    const { units, sizes } = this.content;
    return sizes.some((size) => size > 1) ? `Rough, in ${units.length} runs of sources, refining` : "Rough, refining";
  },

  // Stop at once; what has been found so far stays.
  halt() {
    this.stream?.abort();
    this.stream = null;
    this.draw(this.content ? "Stopped: rough." : "Stopped.");
    this.form.querySelector(".primary").focus();
  },

  // share: of the questions that were asked; null: not known
  draw(said, share) {
    const { status, progress, halt } = this.ui;
    progress.hidden = halt.hidden = this.stream === null;
    if (status.textContent !== said) status.textContent = said;
    progress.classList.toggle("unknown", !share);
    progress.firstChild.style.width = `${100 * (share || 1)}%`;
    if (share) progress.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    else progress.removeAttribute("aria-valuenow");
  },
};
