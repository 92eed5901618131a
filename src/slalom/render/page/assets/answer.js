// The answer of a language model, sentence by sentence, beside its sources: what belongs together lights up on both sides.

const FEW_SOURCES = 12; // so many are all listed; of more, those that a sentence rests on
const FAINT = 0.2; // of what has the full colour of the answer: that of a sentence that rests on sources is never below

class AnswerMap {
  // hooks: choose() after a sentence was chosen, over(source), out(), find(source)
  constructor(ui, hooks) {
    Object.assign(this, { ui, hooks, chosen: null, whole: null });
    const [answer, sources] = [ui["answer-text"], ui["answer-sources"]];
    const at = (event) => event.target.closest?.("[data-k]");
    const watch = (holder, over, out) => {
      for (const name of ["pointerover", "focusin"]) holder.addEventListener(name, (event) => (at(event) ? over(Number(at(event).dataset.k), event.target.closest("[data-w]")?.dataset.w) : out()));
      for (const name of ["pointerleave", "focusout"]) holder.addEventListener(name, out);
    };
    watch(answer, (k, word) => this.light(k, word), () => this.light(this.chosen));
    watch(sources, (k) => hooks.over(k), hooks.out);
    const choose = (event) => at(event) && this.choose(Number(at(event).dataset.k));
    answer.addEventListener("click", (event) => window.getSelection().isCollapsed && choose(event));
    answer.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key] * (window.getComputedStyle(answer).direction === "rtl" ? -1 : 1);
      if (step && at(event)) { // the next word, or the one before; beyond the ends the sentence
        const k = Number(at(event).dataset.k);
        this.light(k, (this.word ?? (step > 0 ? -1 : this.sentences[k].words.length)) + step);
      }
      if (event.key !== "Enter" && event.key !== " ") return;
      choose(event);
      event.preventDefault();
    });
    sources.addEventListener("click", (event) => at(event) && hooks.find(Number(at(event).dataset.k)));
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.chosen !== null && this.choose(null));
  }

  // Show an explanation, and return what the rest of the page is about: it, or that of the sentence that stays chosen.
  show(content) {
    const { ui } = this;
    const { sentences, answer } = content;
    const same = this.whole !== null && JSON.stringify(this.whole.answer.pieces) === JSON.stringify(answer?.pieces);
    ui["answer-card"].hidden = !sentences.length;
    this.whole = sentences.length ? content : null;
    this.chosen = same && this.whole ? this.chosen : null;
    if (this.whole) this.draw();
    return this.content;
  }

  draw() {
    const { ui, whole: { sentences, answer, pieces, scores, sizes } } = this;
    const full = scores.find(({ name }) => name === "removal").full[0];
    this.sentences = sentences.map((sentence) => {
      const own = (sentence.content?.scores ?? scores).find(({ name }) => name === "removal");
      const part = (of, effects, within, least) => {
        const joint = new Map(of.groups.flatMap(([group, effect]) => group.map((i) => [i, { group, effect }])));
        const most = Math.max((of.memory ? 1 : FAINT) * full, least, ...of.groups.map(([, effect]) => effect));
        return { ...of, joint, effects, within, strength: (i) => Math.min(1, Math.max(-1, (joint.get(i)?.effect ?? effects[i]) / most)) };
      };
      const words = sentence.words.map((word) => part(word, word.effects, word.within, 0));
      return { ...part(sentence, own.numbers, own.within, own.full[0]), words };
    });
    ui["answer-by"].textContent = answer.generated ? "written by the model" : "given";
    ui["answer-question"].textContent = answer.question;
    const focused = ui["answer-text"].contains(document.activeElement) ? document.activeElement.dataset.k : null;
    this.spans = [];
    ui["answer-text"].replaceChildren(...answer.pieces.map(([text, k]) => {
      if (k === null) return text;
      const rests = sentences[k].groups.map(([group]) => this.cited(group)).join(", ");
      this.spans[k] = make("span", { class: "sentence", role: "button", tabindex: "0", "data-k": k }, ...this.worded(sentences[k]), make("span", { class: "hidden" }, " rests on "),
        make("span", { class: "cites" }, rests || (sentences[k].memory ? "memory" : "no single source")));
      return this.spans[k];
    }));
    const units = pieces.filter(([, unit]) => unit !== null);
    const listed = units.filter(([, unit]) => units.length <= FEW_SOURCES || this.sentences.some(({ joint }) => joint.has(unit)));
    this.rows = new Map(listed.map(([text, unit]) => [unit, make("button", { type: "button", "data-k": unit, dir: "auto" },
      make("b", {}, this.cited([unit])), make("span", { class: "words" }, brief(text, 400)), make("small", { class: "number" }))]));
    const rest = units.reduce((sum, [, unit]) => sum + (this.rows.has(unit) ? 0 : sizes[unit]), 0);
    ui["answer-sources"].replaceChildren(...[...this.rows.values()].map((row) => make("li", {}, row)),
      ...(rest ? [make("li", { class: "help" }, `${plural(rest, "other source")}: no sentence rests on ${rest > 1 ? "them" : "it"}.`)] : []));
    if (focused) this.spans[focused]?.focus({ preventScroll: true });
    this.light(this.chosen);
  }

  // The text of a sentence, with its words where their sources are known.
  worded({ words, pieces }) {
    return pieces.map(([text, w]) => (w === null ? text : make("span", { class: words[w].groups.length ? "word rests" : "word", "data-w": w }, text)));
  }

  cited(sources) { return sources.map((i) => `[${this.whole.numbers[i]}]`).join(" or "); }

  get content() { return this.whole && { ...this.whole, ...this.whole.sentences[this.chosen]?.content }; }

  choose(k) {
    this.chosen = this.chosen === k ? null : k;
    this.light(this.chosen);
    this.hooks.choose();
  }

  // Light a sentence, or its word w, and the sources; null: none.
  light(k, w) {
    const word = this.sentences[k]?.words[w];
    const part = word ?? this.sentences[k];
    const places = part && decimals(part.effects.concat(part.groups.map(([, effect]) => effect)));
    const alone = (i) => signed(part.effects[i], places) + plusMinus(part.within?.[i], places).replace(" asked", "");
    this.word = word ? Number(w) : null;
    for (const [i, row] of this.rows) {
      const joint = part?.joint.get(i);
      this.colour(row, part ? part.strength(i) : 0, Boolean(joint));
      row.lastChild.textContent = !part ? "" : joint?.group.length > 1 ? `together ${signed(joint.effect, places)}` : alone(i);
    }
    this.spans.forEach((span, j) => {
      this.colour(span, 0, j === k);
      span.setAttribute("aria-pressed", String(j === this.chosen));
    });
    for (const element of this.ui["answer-text"].querySelectorAll(".word")) element.classList.toggle("on", element.parentNode === this.spans[k] && Number(element.dataset.w) === this.word);
    if (!part) {
      const words = this.sentences.some((sentence) => sentence.words.length) ? " Words have sources of their own: point at one, or press the arrow keys on a sentence." : "";
      this.say(`Point at a sentence or a source: what belongs together lights up. Click a sentence: all that is below is then about it alone.${words}`);
      return;
    }
    const { groups, memory, score, without, joint } = part;
    if (joint.size) this.bring(this.rows.get(Math.min(...joint.keys())));
    const on = groups.map(([group]) => this.cited(group)).join(" and ");
    const why = on ? `rests on ${on}` : memory ? "rests on nothing in the sources: it comes from the model's own memory" : "rests on no single source";
    const name = word ? `“${this.spans[k].querySelector(".word.on").textContent}”` : `Sentence ${k + 1}`;
    this.say(`${name} ${why}. Its ${this.whole.score_name}: ${plain(score, 2)} with all sources, ${plain(without, 2)} without any. Beside a source: by how much it falls without it${groups.some(([group]) => group.length > 1) ? "; together: without all that can replace each other" : ""}.`);
  }

  // Light a source and the sentences that it matters to; null: those that belong to the chosen sentence.
  look(source) {
    if (!this.whole) return;
    this.light(source === null ? this.chosen : null);
    if (source === null) return;
    if (this.rows.has(source)) this.colour(this.rows.get(source), 0, true);
    this.spans.forEach((span, k) => this.colour(span, this.sentences[k].strength(source), this.sentences[k].joint.has(source)));
    const rest = this.sentences.flatMap(({ joint }, k) => (joint.has(source) ? [k + 1] : []));
    this.say(!rest.length ? `No sentence rests on ${this.cited([source])}.` : `${rest.length > 1 ? `Sentences ${rest.join(", ")} rest` : `Sentence ${rest[0]} rests`} on ${this.cited([source])}.`);
  }

  // Scroll the list, not the page, until a source is in sight.
  bring(row) {
    const list = this.ui["answer-sources"];
    const [whole, part] = [list, row].map((element) => element.getBoundingClientRect());
    if (part.top < whole.top || part.bottom > whole.bottom) list.scrollTop += part.top - whole.top;
  }

  colour(element, t, on) {
    element.classList.toggle("on", on);
    element.classList.toggle("for", t > 0);
    element.classList.toggle("against", t < 0);
    element.style.setProperty("--t", Math.abs(t).toFixed(3));
  }

  say(text) {
    if (this.ui["answer-said"].textContent !== text) this.ui["answer-said"].textContent = text;
  }
}
