// A sortable table that holds only the rows in sight, so that five thousand units scroll like fifty.

const ROW = 30; // pixels, as in the style sheet
const SPARE = 12; // rows above and below those in sight
const FEW = 150; // so many rows are all there at once

class Table {
  // hooks: over(unit), out(), toggle(unit)
  constructor(holder, hooks, title) {
    this.title = title; // id of the heading
    this.holder = holder;
    this.hooks = hooks;
    this.sorted = null; // by the reader: { key, way }
    this.unit = null;
    this.score = null; // the chosen one
    holder.addEventListener("scroll", () => this.scrolled());
    const unitOf = (event) => event.target.closest("tr[data-i]");
    holder.addEventListener("pointerover", (event) => (unitOf(event) ? hooks.over(Number(unitOf(event).dataset.i)) : hooks.out()));
    holder.addEventListener("pointerleave", () => hooks.out());
    holder.addEventListener("focusin", (event) => unitOf(event) && hooks.over(Number(unitOf(event).dataset.i)));
    holder.addEventListener("keydown", (event) => this.key(event, unitOf(event)));
  }

  // columns: [{ key, label, title, numbers, within, brief, marked, strengths, axis, write, signed }]; within: half the 95%
  // intervals, not written where brief; marked: grey where the interval contains zero;
  // strengths: to sort by; axis: of the bars
  // names: of the units; numbered(unit): what tells it from others of its name; first: key of the column to sort by until the reader
  // chooses one; gone: which are removed; stay: do not scroll to the top
  show({ columns, names, numbered, first, gone, stay }) {
    Object.assign(this, { columns, names, numbered, first, gone });
    const head = make("tr", { "aria-rowindex": 1 });
    this.heads = columns.map((column) => {
      const button = make("button", { type: "button", title: column.title }, column.label);
      button.addEventListener("click", () => this.sort(column.key));
      const cell = make("th", { scope: "col", class: column.key === "unit" ? "name" : this.place(column) }, button);
      head.append(cell);
      return cell;
    });
    this.body = make("tbody");
    const table = make("table", { "aria-rowcount": names.length + 1, "aria-labelledby": this.title }, make("thead", {}, head), this.body);
    const top = stay ? this.holder.scrollTop : 0;
    this.holder.replaceChildren(table);
    this.holder.scrollTop = top;
    this.arrange();
    this.holder.scrollTop = top; // now that the rows are there
    this.scrolled();
  }

  // How a column can be sorted, in turn: names in the order of the text, scores by strength first.
  ways(column) {
    if (column.key === "unit") return ["up", "down"];
    return column.strengths ? ["strength", "down", "up"] : ["down", "up"];
  }

  // The column to sort by and how: what the reader chose, where this table has it.
  sorting() {
    const kept = this.sorted && this.columns.find((column) => column.key === this.sorted.key);
    if (kept && this.ways(kept).includes(this.sorted.way)) return this.sorted;
    const column = this.columns.find((one) => one.key === this.first) ?? this.columns[1];
    return { key: column.key, way: this.ways(column)[0] };
  }

  // A narrow table has room for the first score, and for the chosen one.
  place(column) {
    return column.key === this.columns[1].key ? "main" : column.key === this.score ? "chosen" : "minor";
  }

  choose(score) {
    if (score === this.score) return;
    this.score = score;
    if (!this.columns) return;
    this.columns.forEach((column, c) => { if (column.key !== "unit") this.heads[c].className = this.place(column); });
    this.rows();
  }

  sort(key) {
    const ways = this.ways(this.columns.find((column) => column.key === key));
    const before = this.sorting();
    const at = before.key === key ? ways.indexOf(before.way) : -1;
    this.sorted = { key, way: ways[(at + 1) % ways.length] };
    this.holder.scrollTop = 0;
    this.arrange();
  }

  arrange() {
    const { key, way } = this.sorting();
    const column = this.columns.find((one) => one.key === key);
    const numbers = way === "strength" ? column.strengths : column.numbers;
    const sign = way === "up" ? 1 : -1;
    const compared = (a, b) => sign * (numbers[a] - numbers[b]) || a - b;
    this.order = this.names.map((_, i) => i).sort(compared);
    this.rank = new Int32Array(this.order.length);
    this.order.forEach((unit, at) => { this.rank[unit] = at; });
    this.columns.forEach((one, c) => {
      if (one.key === key) this.heads[c].setAttribute("aria-sort", { strength: "other", down: "descending", up: "ascending" }[way]);
      else this.heads[c].removeAttribute("aria-sort");
    });
    this.rows();
  }

  // Which rows are in sight, first and one past the last.
  sight() {
    const top = this.holder.scrollTop;
    return [Math.floor(top / ROW), Math.min(this.order.length, Math.ceil((top + this.holder.clientHeight) / ROW))];
  }

  scrolled() {
    const [first, end] = this.sight();
    if (first < this.made[0] || end > this.made[1]) this.rows();
  }

  // Make the rows in sight and some around them; all of them where they are few, or for paper.
  rows() {
    const n = this.order.length;
    const [first, end] = this.all || n <= FEW ? [0, n] : this.sight();
    const [from, to] = [Math.max(0, first - SPARE), Math.min(n, end + SPARE)];
    this.made = [from, to];
    const gap = (rows) => {
      const row = make("tr", { class: "gap", "aria-hidden": "true" });
      row.style.height = `${rows * ROW}px`;
      return row;
    };
    const focused = this.body.contains(document.activeElement) ? Number(document.activeElement.dataset.i) : null;
    const made = [];
    for (let at = from; at < to; at++) made.push(this.row(this.order[at], at));
    this.body.replaceChildren(...(from > 0 ? [gap(from)] : []), ...made, ...(to < n ? [gap(n - to)] : []));
    if (made.length && !made.some((row) => row.getAttribute("tabindex") === "0")) made[0].setAttribute("tabindex", "0");
    if (focused !== null) this.find(focused)?.focus({ preventScroll: true });
  }

  row(unit, at) {
    const row = make("tr", { "data-i": unit, "aria-rowindex": at + 2, tabindex: unit === this.unit ? "0" : "-1" });
    row.classList.toggle("on", unit === this.unit);
    row.classList.toggle("gone", this.gone[unit]);
    for (const column of this.columns) {
      if (column.key === "unit") {
        row.append(make("th", { scope: "row", class: "name", dir: "auto", title: brief(this.names[unit], 400) }, brief(this.names[unit], 60), this.numbered(unit)));
        continue;
      }
      const x = column.numbers[unit];
      const written = column.write(x);
      const within = column.within?.[unit];
      const doubt = column.marked && within !== undefined && unsure(x, within);
      const speaks = column.signed && /[1-9]/.test(written);
      const cell = make("td", { class: `${this.place(column)} ${doubt ? "doubt" : speaks ? (x < 0 ? "minus" : "plus") : ""}` }, written);
      if (within !== undefined && !column.brief) cell.append(make("small", {}, plusMinus(within, column.places)));
      if (column.axis) cell.append(bar(column.axis, x, within, !column.signed));
      row.append(cell);
    }
    return row;
  }

  find(unit) {
    return this.body.querySelector(`tr[data-i="${unit}"]`);
  }

  highlight(unit, bring) {
    if (this.unit !== null) this.find(this.unit)?.classList.remove("on");
    this.unit = unit;
    if (unit === null) return;
    if (bring) this.bring(unit);
    this.find(unit)?.classList.add("on");
  }

  // Scroll the table, not the page, until a unit is in sight.
  bring(unit) {
    const top = this.rank[unit] * ROW;
    const head = this.holder.querySelector("thead").offsetHeight;
    const sight = this.holder.clientHeight - head - ROW;
    if (top < this.holder.scrollTop || top > this.holder.scrollTop + sight) {
      this.holder.scrollTop = Math.max(0, top - sight / 2);
      this.scrolled();
    }
  }

  mark(gone) {
    this.gone = gone;
    for (const row of this.body.children) {
      if (row.dataset.i !== undefined) row.classList.toggle("gone", gone[Number(row.dataset.i)]);
    }
  }

  key(event, row) {
    if (!row) return;
    const unit = Number(row.dataset.i);
    if (event.key === "Enter" || event.key === " ") this.hooks.toggle(unit);
    else {
      const to = stepped(event.key, this.rank[unit], this.order.length);
      if (to === null || event.key === "ArrowLeft" || event.key === "ArrowRight") return;
      this.bring(this.order[to]);
      this.find(this.order[to]).focus({ preventScroll: true });
    }
    event.preventDefault();
  }
}
