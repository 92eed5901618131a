// The strongest units as bars with whiskers. Bars move from where they were, so that intervals can be seen to shrink.

const STRONGEST = 8;
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

class Strongest {
  // hooks: over(unit), out(), toggle(units)
  constructor(holder, hooks) {
    this.holder = holder;
    this.before = new Map(); // unit: the row that was last drawn
    const rowOf = (event) => event.target.closest("li");
    holder.addEventListener("pointerover", (event) => (rowOf(event) ? hooks.over(Number(rowOf(event).dataset.i)) : hooks.out()));
    holder.addEventListener("pointerleave", () => hooks.out());
    holder.addEventListener("click", (event) => rowOf(event) && hooks.toggle([Number(rowOf(event).dataset.i)]));
  }

  // move: whether it is the same text as before
  show(reading, key, move) {
    const [numbers, within, sizes] = [reading.numbers(key), reading.within(key), reading.sizes(key)];
    const { units } = reading.content;
    const order = units.map((_, i) => i).filter((i) => units[i].trim()).sort((a, b) => sizes[b] - sizes[a] || a - b).slice(0, STRONGEST);
    const places = decimals(numbers);
    order.splice(Math.max(1, order.filter((i) => /[1-9]/.test(plain(numbers[i], places))).length)); // the rest rounds to zero
    const own = order.map((i) => numbers[i]);
    const axis = barAxis(own, within && order.map((i) => within[i]));
    const rows = order.map((i) => {
      const doubt = key !== "importance" && within !== undefined && unsure(numbers[i], within[i]);
      const side = doubt ? "doubt" : reading.undirected(key) ? "" : numbers[i] < 0 ? "minus" : "plus";
      return make("li", { "data-i": i }, make("span", { class: "name", dir: "auto" }, brief(units[i], 24), reading.occurrence(i)),
        bar(axis, numbers[i], within?.[i], reading.undirected(key)),
        make("span", { class: `number ${side}` }, reading.written(key, numbers[i], places), make("small", {}, plusMinus(within?.[i], places))));
    });
    const tops = new Map([...this.before].map(([i, row]) => [i, row.offsetTop]));
    this.holder.replaceChildren(...rows);
    if (move && !still.matches) for (const row of rows) this.glide(row, this.before.get(Number(row.dataset.i)), tops.get(Number(row.dataset.i)));
    this.before = new Map(rows.map((row) => [Number(row.dataset.i), row]));
  }

  glide(row, before, top) {
    const timing = { duration: 500, easing: "ease-out" };
    if (!before) {
      row.animate([{ opacity: 0 }, { opacity: 1 }], timing);
      return;
    }
    if (top !== row.offsetTop) row.animate([{ transform: `translateY(${top - row.offsetTop}px)` }, { transform: "none" }], timing);
    for (const name of ["zero", "stem", "whisker"]) {
      const [was, is] = [before, row].map((one) => one.querySelector(`.${name}`));
      if (was && is) is.animate([was, is].map(({ style: { left, width } }) => ({ left, width })), timing);
    }
  }

  mark(gone) {
    for (const row of this.holder.children) row.classList.toggle("gone", gone[Number(row.dataset.i)]);
  }

  highlight(unit) {
    for (const row of this.holder.children) row.classList.toggle("on", Number(row.dataset.i) === unit);
  }
}
