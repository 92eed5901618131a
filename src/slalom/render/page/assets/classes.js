// All classes at a glance: what removing each of the strongest units does to every class. A heading chooses its class.

const MOST_CLASSES = 12;
const MOST_ROWS = 10;

class Classes {
  // hooks: over(unit, element), out(), choose(column)
  constructor(holder, hooks) {
    this.holder = holder;
    this.hooks = hooks;
    const rowOf = (event) => event.target.closest("tr[data-i]");
    holder.addEventListener("pointerover", (event) => (rowOf(event) ? hooks.over(Number(rowOf(event).dataset.i)) : hooks.out()));
    holder.addEventListener("pointerleave", () => hooks.out());
  }

  // Return how many units and classes are shown.
  show(reading) {
    const { content } = reading;
    const { labels, units, score } = content;
    const { numbers: removal, within } = reading.rows.removal;
    const columns = labels.map((_, c) => c).sort((a, b) => score[b] - score[a]).slice(0, MOST_CLASSES);
    const sizes = removal.map((row) => largest(columns.map((c) => row[c])));
    const order = units.map((_, i) => i).filter((i) => units[i].trim()).sort((a, b) => sizes[b] - sizes[a] || a - b).slice(0, MOST_ROWS);
    const full = largest(order.map((i) => sizes[i])) || 1;
    const places = decimals([full]);
    const shares = reading.probable ? probabilities(score) : null;
    const head = make("tr", {}, make("td"), ...columns.map((c) => {
      const button = make("button", { type: "button", "aria-pressed": String(c === reading.column), "data-c": c }, make("bdi", {}, brief(labels[c], 20)),
        make("small", {}, shares ? percent(shares[c]) : signed(score[c], 2)));
      button.addEventListener("click", () => this.hooks.choose(c));
      return make("th", { scope: "col" }, button);
    }));
    const rows = order.map((i) => make("tr", { "data-i": i }, make("th", { scope: "row", class: "name", dir: "auto" }, brief(units[i], 24), reading.occurrence(i)),
      ...columns.map((c) => {
        const x = removal[i][c];
        const half = within?.[i][c] ?? undefined;
        const doubt = half !== undefined && unsure(x, half);
        const inner = make("span", { class: `${x < 0 ? "against" : "for"}${doubt ? " unsure" : ""}` }, signed(x, places));
        inner.style.setProperty("--t", Math.min(1, Math.abs(x) / full).toFixed(3));
        return make("td", { class: c === reading.column ? "chosen" : "", title: `${signed(x, places)}${plusMinus(half, places)}` }, inner);
      })));
    this.holder.replaceChildren(make("table", { class: "grid-table" }, make("thead", {}, head), make("tbody", {}, ...rows)));
    return { rows: rows.length, columns: columns.length };
  }

  highlight(unit) {
    for (const row of this.holder.querySelectorAll("tr[data-i]")) row.classList.toggle("on", Number(row.dataset.i) === unit);
  }
}
