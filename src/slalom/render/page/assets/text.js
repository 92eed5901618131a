// The text with its units: coloured, removable by click, key or (where `phrases`) as a phrase that is dragged over.

const MOVING = 500; // units whose colours may change smoothly

class UnitText {
  // hooks: over(unit, element), out(), toggle(units), replace(unit, element) or null
  constructor(holder, hooks, phrases) {
    Object.assign(this, { holder, hooks, phrases, spans: [], chosen: [], pieces: null });
    const unitAt = (event) => event.target.closest?.(".unit");
    holder.addEventListener("pointerover", (event) => {
      const span = unitAt(event);
      if (span) hooks.over(Number(span.dataset.i), span);
      else hooks.out();
    });
    holder.addEventListener("pointerleave", () => hooks.out());
    holder.addEventListener("focusin", (event) => this.focused(unitAt(event)));
    holder.addEventListener("focusout", () => hooks.out());
    holder.addEventListener("click", (event) => {
      const span = unitAt(event);
      const second = event.detail === 2 && hooks.replace; // of a double click: it takes back the first, whatever it selected
      if (span && (second || window.getSelection().isCollapsed)) hooks.toggle([Number(span.dataset.i)]);
    });
    holder.addEventListener("keydown", (event) => this.key(event, unitAt(event)));
    if (hooks.replace) holder.addEventListener("dblclick", (event) => this.replace(unitAt(event)));
    if (!phrases) return;
    holder.addEventListener("pointerup", (event) => event.pointerType === "mouse" && this.dragged());
    document.addEventListener("selectionchange", () => this.offer());
    this.button = make("button", { type: "button", class: "phrase", hidden: "" });
    this.button.addEventListener("click", () => this.dragged());
    document.body.append(this.button);
  }

  // pieces: [[text, unit or null, number of the field that begins here]]. The same text keeps its elements, so that colours can move.
  show(pieces, names, fields) {
    const written = JSON.stringify(pieces);
    if (written === this.pieces) return;
    this.pieces = written;
    this.spans = [];
    this.chosen = [];
    this.blocks = [];
    let after = ""; // the last character so far: a line may end with one or two
    const shown = document.createDocumentFragment(); // a spread of a hundred thousand arguments would be too many
    let into = shown;
    for (const [raw, unit, field] of pieces) {
      if (field !== undefined) {
        into = this.block(shown, ...fields[field]);
        continue;
      }
      const text = (after === "\r" && raw[0] === "\n" ? raw.slice(1) : raw).replace(/\r\n?/g, "\n");
      after = raw.at(-1) ?? after;
      if (unit === null) {
        into.append(text);
        continue;
      }
      const span = make("span", { class: "unit", role: "button", tabindex: "-1", "data-i": unit, "aria-pressed": "false" }, text);
      if (!text.trim()) {
        span.classList.add(text ? "blank" : "chip");
        span.dataset.name = brief(text || names[unit], 12);
        span.setAttribute("aria-label", brief(names[unit]));
      }
      this.spans[unit] = span;
      into.append(span);
    }
    this.holder.replaceChildren(shown);
    this.order = Array.from(this.holder.querySelectorAll(".unit"));
    this.holder.classList.toggle("moving", this.order.length <= MOVING);
    this.order[0]?.setAttribute("tabindex", "0");
  }

  // Begin the block of a field of a record, and return where its text goes.
  block(shown, name, units) {
    const caption = make("button", { type: "button", class: "caption", ...(!units.length && { disabled: "" }) }, make("bdi", {}, name));
    caption.addEventListener("click", () => this.hooks.toggle(units));
    const [sums, text] = [make("span", { class: "sums" }), make("div", { class: "value", dir: "auto" })];
    shown.append(make("div", { class: "field" }, make("div", { class: "row" }, caption, sums), text));
    this.blocks.push({ caption, units, sums });
    return text;
  }

  // What the removal of each field does to a class, and the sum of the Shapley values of its units; null: not known.
  sums(reading) {
    const own = (x) => (Array.isArray(x) ? x[reading.column] : x);
    const fields = (reading.content.fields ?? []).map(([, , removal, shapley]) =>
      [["Removal", own(removal), 0], ["Shapley", own(shapley)]].filter(([, x]) => x !== null));
    const numbers = fields.flat().map(([, x]) => x);
    const [axis, places] = [barAxis(numbers), decimals(numbers)];
    this.blocks.forEach(({ sums }, k) => sums.replaceChildren(...fields[k].map(([label, x, within]) => make("span", {}, label,
      make("b", { class: x < 0 ? "minus" : "plus" }, signed(x, places)), plusMinus(within).trim(), bar(axis, x, within)))));
  }

  colour(strengths, undirected, doubt) {
    this.spans.forEach((span, i) => {
      const side = undirected ? "neutral" : strengths[i] < 0 ? "against" : "for";
      if (!span.classList.contains(side)) {
        span.classList.remove("neutral", "for", "against");
        span.classList.add(side);
      }
      span.style.setProperty("--t", Math.abs(strengths[i]).toFixed(3));
      span.classList.toggle("unsure", doubt[i]);
    });
  }

  mark(keep) {
    this.spans.forEach((span, i) => {
      if ((span.getAttribute("aria-pressed") === "true") === !keep[i]) return;
      span.classList.toggle("gone", !keep[i]);
      span.setAttribute("aria-pressed", String(!keep[i]));
    });
    for (const { caption, units } of this.blocks) caption.setAttribute("aria-pressed", String(units.length > 0 && units.every((i) => !keep[i])));
  }

  // Another text in the place of a unit; null: its own.
  swap(unit, text) {
    const span = this.spans[unit];
    span.dataset.was ??= span.textContent;
    span.textContent = text ?? span.dataset.was;
    span.classList.toggle("swapped", text !== null);
    if (text === null) delete span.dataset.was;
  }

  focus(unit) {
    this.spans[unit].scrollIntoView({ block: "center" });
    this.spans[unit].focus({ preventScroll: true });
  }

  light(unit, lit) { this.spans[unit]?.classList.toggle("on", lit); }

  focused(span) {
    if (!span) return;
    this.holder.querySelector('.unit[tabindex="0"]')?.setAttribute("tabindex", "-1");
    span.setAttribute("tabindex", "0");
    span.setAttribute("aria-describedby", "tip");
    if (span.matches(":focus-visible")) this.hooks.over(Number(span.dataset.i), span);
  }

  key(event, span) {
    if (!span) return;
    const unit = Number(span.dataset.i);
    const { key } = event;
    if (key === "Enter" || key === " ") this.hooks.toggle(this.chosen.length > 1 ? this.chosen : [unit]);
    else if (this.hooks.replace && !event.ctrlKey && !event.metaKey && !event.altKey && ["r", "R", "F2"].includes(key)) this.replace(span);
    else {
      const at = this.order.indexOf(span);
      const to = stepped(key, at, this.order.length, getComputedStyle(span).direction === "rtl");
      if (to === null) return;
      if (this.phrases && event.shiftKey) {
        this.anchor ??= at;
        this.choose(this.order.slice(Math.min(this.anchor, to), Math.max(this.anchor, to) + 1));
      }
      this.order[to].scrollIntoView({ block: "nearest" });
      this.order[to].focus({ preventScroll: true });
      event.preventDefault();
      if (event.shiftKey) return;
    }
    this.anchor = null;
    this.choose([]);
    event.preventDefault();
  }

  // Mark the units of a phrase.
  choose(spans) {
    for (const unit of this.chosen) this.spans[unit]?.classList.remove("chosen");
    this.chosen = spans.map((span) => Number(span.dataset.i));
    for (const span of spans) span.classList.add("chosen");
  }

  // The units that are selected, at least two; none where the selection is elsewhere.
  selected() {
    const selection = window.getSelection();
    if (selection.isCollapsed || !this.holder.contains(selection.anchorNode)) return [];
    const touched = this.order.filter((span) => selection.containsNode(span, true));
    return touched.length > 1 ? touched : [];
  }

  // Fingers select with handles: offer a button beside the selection.
  offer() {
    const touched = window.matchMedia("(pointer: coarse)").matches ? this.selected() : [];
    this.button.hidden = !touched.length;
    if (!touched.length) return;
    this.button.textContent = `Remove these ${touched.length}`;
    const box = touched.at(-1).getBoundingClientRect();
    this.button.style.left = `${Math.min(box.left, document.documentElement.clientWidth - this.button.offsetWidth - 8) + window.scrollX}px`;
    this.button.style.top = `${box.bottom + window.scrollY + 28}px`; // below the handles
  }

  // After a drag: the units that were dragged over go, or come back where all of them were gone.
  dragged() {
    const touched = this.selected();
    if (!touched.length) return;
    window.setTimeout(() => window.getSelection().removeAllRanges()); // after the click that ends the drag
    this.hooks.toggle(touched.map((span) => Number(span.dataset.i)));
  }

  replace(span) {
    if (span) this.hooks.replace(Number(span.dataset.i), span);
  }
}
