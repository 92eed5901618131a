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
      for (const name of ["pointerover", "focusin"]) holder.addEventListener(name, (event) => (at(event) ? over(Number(at(event).dataset.k)) : out()));
      for (const name of ["pointerleave", "focusout"]) holder.addEventListener(name, out);
    };
    watch(answer, (k) => this.light(k), () => this.light(this.chosen));
    watch(sources, hooks.over, hooks.out);
    const choose = (event) => at(event) && this.choose(Number(at(event).dataset.k));
    answer.addEventListener("click", (event) => window.getSelection().isCollapsed && choose(event));
    answer.addEventListener("keydown", (event) => {
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
      const joint = new Map(sentence.groups.flatMap(([group, effect]) => group.map((i) => [i, { group, effect }])));
      const most = Math.max((sentence.memory ? 1 : FAINT) * full, own.full[0], ...sentence.groups.map(([, effect]) => effect));
      return { ...sentence, joint, effects: own.numbers, within: own.within, strength: (i) => Math.min(1, Math.max(-1, (joint.get(i)?.effect ?? own.numbers[i]) / most)) };
    });
    ui["answer-by"].textContent = answer.generated ? "written by the model" : "given";
    ui["answer-question"].textContent = answer.question;
    const focused = ui["answer-text"].contains(document.activeElement) ? document.activeElement.dataset.k : null;
    this.spans = [];
    ui["answer-text"].replaceChildren(...answer.pieces.map(([text, k]) => {
      if (k === null) return text;
      const rests = sentences[k].groups.map(([group]) => this.cited(group)).join(", ");
      this.spans[k] = make("span", { class: "sentence", role: "button", tabindex: "0", "data-k": k }, text, make("span", { class: "hidden" }, " rests on "),
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

  cited(sources) { return sources.map((i) => `[${this.whole.numbers[i]}]`).join(" or "); }

  get content() { return this.whole && { ...this.whole, ...this.whole.sentences[this.chosen]?.content }; }

  choose(k) {
    this.chosen = this.chosen === k ? null : k;
    this.light(this.chosen);
    this.hooks.choose();
  }

  // Light a sentence and its sources; null: none.
  light(k) {
    const sentence = this.sentences[k];
    const places = sentence && decimals(sentence.effects.concat(sentence.groups.map(([, effect]) => effect)));
    const alone = (i) => signed(sentence.effects[i], places) + plusMinus(sentence.within?.[i], places).replace(" asked", "");
    for (const [i, row] of this.rows) {
      const joint = sentence?.joint.get(i);
      this.colour(row, sentence ? sentence.strength(i) : 0, Boolean(joint));
      row.lastChild.textContent = !sentence ? "" : joint?.group.length > 1 ? `together ${signed(joint.effect, places)}` : alone(i);
    }
    this.spans.forEach((span, j) => {
      this.colour(span, 0, j === k);
      span.setAttribute("aria-pressed", String(j === this.chosen));
    });
    if (!sentence) {
      this.say("Point at a sentence or a source: what belongs together lights up. Click a sentence: all that is below is then about it alone.");
      return;
    }
    const { groups, memory, score, without, joint } = sentence;
    if (joint.size) this.bring(this.rows.get(Math.min(...joint.keys())));
    const on = groups.map(([group]) => this.cited(group)).join(" and ");
    const why = on ? `rests on ${on}` : memory ? "rests on nothing in the sources: it comes from the model's own memory" : "rests on no single source";
    this.say(`Sentence ${k + 1} ${why}. Its ${this.whole.score_name}: ${plain(score, 2)} with all sources, ${plain(without, 2)} without any. Beside a source: by how much it falls without it${groups.some(([group]) => group.length > 1) ? "; together: without all that can replace each other" : ""}.`);
  }

  // Light a source and the sentences that it matters to; null: those that belong to the chosen sentence.
  look(source) {
    if (!this.whole) return;
    if (source === null) {
      this.light(this.chosen);
      return;
    }
    for (const [i, row] of this.rows) {
      this.colour(row, 0, i === source);
      row.lastChild.textContent = "";
    }
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
