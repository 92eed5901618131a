// One text of a corpus: its stored explanation in the viewer, or coloured by the effects that the table keeps.

const LISTED = 12; // effects in the picture

class CorpusOne {
  // hooks: back(), step(by), explain(text), lost(again)
  constructor(root, hooks) {
    Object.assign(this, { root, hooks, number: null });
    const tool = (name, label, act, kind = "") => button(label, act, { id: `corpus-${name}`, class: kind });
    this.ui = {
      back: tool("back", "← All texts", () => hooks.back()),
      previous: tool("previous", "Previous", () => hooks.step(-1)),
      next: tool("next", "Next", () => hooks.step(1)),
      explain: tool("explain", "Explain now", () => hooks.explain(this.text), "primary"),
      note: make("p", { class: "help" }),
      state: make("p", { role: "status" }),
      head: make("section", { class: "facts", "aria-label": "Text" }),
      effects: make("section", { class: "card", "aria-label": "Effects" }),
      viewer: make("div"),
    };
    const { back, previous, next, explain, note, state, head, effects, viewer } = this.ui;
    root.append(make("div", { class: "tools", role: "toolbar", "aria-label": "This text" }, back, previous, next, explain), note, state, head, effects, viewer);
    this.viewer = createViewer(viewer, { prefix: "corpus-" });
  }

  async show(number, corpus, served) {
    const { ui } = this;
    this.number = number;
    this.text = null;
    for (const part of [ui.head, ui.effects, ui.viewer]) part.hidden = true;
    ui.state.textContent = "Reading …";
    ui.explain.disabled = true;
    ui.note.textContent = "";
    try {
      const found = await api.json(`/api/corpus/text/${number}`);
      if (number !== this.number) return;
      ui.state.textContent = "";
      this.draw(found, corpus, served);
    } catch (error) {
      if (number !== this.number) return;
      ui.state.textContent = error.message;
      if (error.status === 0) this.hooks.lost(() => this.show(number, corpus, served));
    }
  }

  draw(found, corpus, served) {
    const { ui } = this;
    const { content, effects, text, cut, error, status } = found;
    this.text = cut || !text?.trim() || corpus.records ? null : text;
    ui.explain.disabled = this.text === null;
    const whom = served ? ` It asks ${served.name}${corpus.served?.same === false ? ", which is not the model of this corpus" : ""}.` : "";
    ui.note.textContent = this.text === null ? (text === null ? "The run did not keep its texts, so the model cannot be asked." : cut ? "This text is too long for the page; its beginning is shown." : corpus.records ? "Records of several fields cannot be sent on from here." : "")
      : content ? `This is the explanation that the run stored; “Explain now” lets you ask the model about it.${whom}`
        : `The run kept the effects of removing one ${{ type: "token" }[corpus.options.unit] ?? corpus.options.unit ?? "unit"} at a time; “Explain now” makes a whole explanation.${whom}`;
    this.drawHead(found);
    ui.viewer.hidden = !content;
    ui.effects.hidden = Boolean(content);
    if (content) this.viewer.show(content);
    else if (effects) this.drawEffects(effects, found, corpus.labels);
    else ui.effects.replaceChildren(make("h2", {}, "Not explained"), make("p", {}, error ?? status), make("div", { class: "text", dir: "auto" }, text ?? ""));
  }

  drawHead({ id, label, probability, gold, wrong, target, score, given, content }) {
    const tiles = [tile("Text", bold(brief(id, 60)))];
    if (!content && label !== null) tiles.push(tile("The model predicted", bold(label), soft(probability === null ? "" : percent(probability))));
    if (gold !== null) tiles.push(tile("True label", bold(gold, wrong ? "wrong" : ""), soft(wrong ? "wrong prediction" : "correct")));
    if (!content && score !== null) tiles.push(tile(`Score of ${brief(target, 30)}`, bold(signed(score, 3), `number ${signOf(score)}`)));
    for (const [name, value] of Object.entries(given)) if (value !== null && name !== this.goldName) tiles.push(tile(brief(name, 30), bold(brief(value, 60))));
    this.ui.head.replaceChildren(...tiles);
    this.ui.head.hidden = false;
  }

  drawEffects({ pieces, units, removal, within, full, fidelity, queries, remarks }, { target, label }, labels) {
    const text = make("div", { class: "text", dir: "auto", id: "corpus-stored" });
    const doubt = (i) => within !== null && unsure(removal[i], within[i]);
    for (const [part, unit] of pieces) {
      if (unit === null) {
        text.append(part);
        continue;
      }
      const x = removal[unit] ?? 0;
      const around = within && within[unit] !== null ? ` ± ${plain(within[unit], 2)}` : "";
      const span = make("span", { class: `unit stored ${x < 0 ? "against" : "for"}${doubt(unit) ? " unsure" : ""}`, title: `${brief(units[unit])}: ${written(x)}${around}` }, part);
      span.style.setProperty("--t", Math.min(1, Math.abs(x) / full).toFixed(3));
      text.append(span);
    }
    const order = removal.map((_, i) => i).sort((a, b) => Math.abs(removal[b]) - Math.abs(removal[a])).slice(0, LISTED);
    const end = (i, sign) => (within && within[i] !== null ? removal[i] + sign * within[i] : null);
    const rows = order.map((i) => ({ name: units[i], effect: { mean: removal[i], low: end(i, -1), high: end(i, 1) } }));
    const chart = make("div", { class: "stored-chart" });
    const quality = [["near the text", fidelity.near], ["all sizes", fidelity.far]].filter(([, r2]) => r2 !== null).map(([name, r2]) => `R² ${r2 < 0 ? "below 0" : plain(r2, 2)} ${name}`);
    const key = (kind, said, name) => make("span", { class: `key ${kind}` }, said, make("bdi", {}, name));
    const other = labels.length === 2 && labels.includes(label) ? labels.find((name) => name !== target) : null; // of two classes
    this.ui.effects.replaceChildren(make("h2", {}, "Text"), make("p", { class: "legend" }, key("for", "for ", target), key("against", other ? "for " : "against ", other ?? target), make("span", { class: "means" }, "Colour: by how much the score falls when the unit is removed; full where it is strongest in this text.")),
      text, make("h3", {}, "Strongest effects"), chart,
      make("p", { class: "help" }, [...quality, ...(queries === null ? [] : [plural(queries, "question")])].join(" · ")),
      ...(remarks.length ? [make("ul", { class: "remarks" }, ...remarks.map((said) => make("li", {}, said)))] : []));
    if (rows.length) picture(chart, rows, { label: "Strongest effects", wide: false });
  }
}
