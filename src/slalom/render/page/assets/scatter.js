// Value to the right, importance upwards, area by share of attention. Labels go to the strongest units, where there is room.
// Limits are those of slalom.render.charts.View.frame.

const HEIGHT = 380;
const MARGIN = { left: 44, right: 16, top: 24, bottom: 42 };
const LABELLED = 40; // units that may get a label
const AVOIDED = 150; // points that a label does not cover
const CROSSED = 25; // units whose intervals are drawn at once; of others when they are looked at

// Round numbers about `wanted` times between low and high.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
  return { found, places: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function padded([low, high]) {
  const gap = (high - low || Math.max(1, Math.abs(high))) * 0.08;
  return [low - gap, high + gap];
}

// Return boxes { x, y, width, height, anchor } for texts beside points, or null for those without room. O(labels * avoided).
function place(wanted, obstacles, bounds) {
  const taken = [...obstacles];
  const free = (box) =>
    box.x >= bounds.left && box.x + box.width <= bounds.right && box.y >= bounds.top && box.y + box.height <= bounds.bottom &&
    taken.every((o) => o.x + o.width <= box.x || box.x + box.width <= o.x || o.y + o.height <= box.y || box.y + box.height <= o.y);
  return wanted.map(({ x, y, r, width, height }) => {
    const gap = r + 3;
    const slant = 0.75 * r + 2;
    const box = [
      [x + gap, y - height / 2], [x - gap - width, y - height / 2], [x - width / 2, y - gap - height], [x - width / 2, y + gap],
      [x + slant, y - slant - height], [x - slant - width, y - slant - height], [x + slant, y + slant], [x - slant - width, y + slant],
    ].map(([left, top]) => ({ x: left, y: top, width, height })).find(free);
    if (box) taken.push(box);
    return box ?? null;
  });
}

class Scatter {
  // hooks: over(unit, element), out(), toggle(unit)
  constructor(holder, hooks) {
    this.holder = holder;
    this.hooks = hooks;
    this.ruler = document.createElement("canvas").getContext("2d");
    holder.addEventListener("pointermove", (event) => this.nearest(event));
    holder.addEventListener("pointerleave", () => hooks.out());
    holder.addEventListener("click", (event) => this.nearest(event));
    holder.addEventListener("focusin", (event) => {
      const unit = Number(event.target.dataset.i);
      event.target.setAttribute("aria-describedby", "tip");
      hooks.over(unit, event.target);
    });
    holder.addEventListener("focusout", () => hooks.out());
    holder.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resized()).observe(holder);
  }

  // Drawn for another width; the unit that has the focus keeps it, and the one that is looked at its ring.
  resized() {
    if (!this.shown || Math.abs(this.holder.clientWidth - this.width) <= 2) return;
    const focused = this.circles.indexOf(document.activeElement);
    const ringed = this.ring.style.display === "none" ? null : Number(this.ring.dataset.i);
    this.show(this.shown);
    if (focused >= 0) this.focus(focused);
    else this.highlight(ringed);
  }

  focus(unit) {
    this.holder.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    this.circles[unit].setAttribute("tabindex", "0");
    this.circles[unit].focus({ preventScroll: true });
  }

  // shown: { names, x, y, within, weights, frame, gone, axes }, and what paint takes; within: { x, y }, half the 95% intervals;
  // frame: { x, y }, see content.py; axes: { x, y }, what they are called if not value and importance
  show(shown) {
    this.shown = shown;
    this.width = Math.max(280, this.holder.clientWidth);
    const { names, x, y, weights, frame } = shown;
    const n = names.length;
    const [left, right] = padded(frame.x);
    const [low, high] = padded(frame.y);
    const inner = { left: MARGIN.left, right: this.width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
    const toX = (v) => inner.left + ((v - left) / (right - left)) * (inner.right - inner.left);
    const toY = (s) => inner.bottom - ((s - low) / (high - low)) * (inner.bottom - inner.top);
    const heaviest = largest(weights) || 1;
    const widest = n > 1000 ? 10 : n > 200 ? 13 : 16;
    this.points = names.map((_, i) => ({ x: toX(x[i]), y: toY(y[i]), r: Math.max(2.2, widest * Math.sqrt(weights[i] / heaviest)) }));

    this.crossAt = (i) => this.cross(i, { toX, toY, inner });
    const sure = shown.within?.x && n <= CROSSED ? names.map((_, i) => i) : [];
    this.crossed = sure.length > 0;
    const crosses = draw("g", { class: "crosses", "aria-hidden": "true" }, ...sure.map((i) => draw("path", { d: this.crossAt(i) })));
    const grid = draw("g", { class: "grid", "aria-hidden": "true" });
    const across = ticks(left, right, this.width < 420 ? 4 : 6);
    for (const v of across.found) {
      const at = toX(v);
      grid.append(draw("line", { x1: at, x2: at, y1: inner.top, y2: inner.bottom, class: v === 0 ? "zero" : "" }));
      grid.append(draw("text", { x: at, y: inner.bottom + 16, "text-anchor": "middle" }, v === 0 ? "0" : signed(v, across.places)));
    }
    const upwards = ticks(low, high, 5);
    for (const s of upwards.found) {
      const at = toY(s);
      grid.append(draw("line", { x1: inner.left, x2: inner.right, y1: at, y2: at }));
      grid.append(draw("text", { x: inner.left - 8, y: at + 4, "text-anchor": "end" }, s === 0 ? "0" : signed(s, upwards.places)));
    }
    grid.append(draw("text", { x: 4, y: 12, class: "axis" }, shown.axes?.y ?? "importance ↑"));
    grid.append(draw("text", { x: inner.right, y: HEIGHT - 6, "text-anchor": "end", class: "axis" }, shown.axes?.x ?? "value →"));

    const dots = draw("g", { class: n > 1000 ? "dots crowd" : "dots" });
    this.circles = new Array(n);
    const byWeight = Array.from({ length: n }, (_, i) => i).sort((a, b) => weights[b] - weights[a]);
    for (const i of byWeight) {
      const { x: cx, y: cy, r } = this.points[i];
      this.circles[i] = draw("circle", { cx, cy, r, tabindex: "-1", role: "button", "data-i": i, "aria-label": brief(names[i]) });
      dots.append(this.circles[i]);
    }
    this.order = Array.from({ length: n }, (_, i) => i).sort((a, b) => x[a] - x[b]);
    this.circles[this.order[0]].setAttribute("tabindex", "0");

    this.heavy = byWeight.slice(0, AVOIDED);
    this.inner = inner;
    this.labels = draw("g", { class: "labels", "aria-hidden": "true" });
    this.reach = draw("path", { class: "reach", "aria-hidden": "true" });
    this.ring = draw("circle", { class: "ring", r: 0, "aria-hidden": "true" });
    this.ring.style.display = "none";
    const said = `Scatter of ${plural(n, "unit")}: ${shown.axes?.x ?? "value"} across, ${shown.axes?.y ?? "importance"} up. Arrow keys go from unit to unit.`;
    this.holder.replaceChildren(
      draw("svg", { viewBox: `0 0 ${this.width} ${HEIGHT}`, width: this.width, height: HEIGHT, role: "group", "aria-label": said },
        grid, crosses, this.reach, dots, this.labels, this.ring),
    );
    this.paint(shown);
  }

  // Colours and labels. strengths: of the colours, without a direction where undirected; order: of the units, strongest first.
  paint({ strengths, undirected, order }) {
    Object.assign(this.shown, { strengths, undirected, order });
    const { names, gone } = this.shown;
    const crowded = names.length > 1000;
    this.circles.forEach((circle, i) => {
      const t = Math.abs(strengths[i]);
      const side = undirected ? "neutral" : t < 0.002 ? "silent" : strengths[i] < 0 ? "against" : "for";
      const small = this.points[i].r <= 5;
      circle.setAttribute("class", [side, ...(small ? ["small"] : []), ...(gone[i] ? ["gone"] : [])].join(" "));
      circle.setAttribute("fill-opacity", (crowded ? 0.04 + 0.4 * t : 0.1 + 0.6 * t).toFixed(3));
    });
    const obstacles = this.heavy.concat(order.slice(0, LABELLED)).map((i) => this.points[i])
      .map((p) => ({ x: p.x - p.r, y: p.y - p.r, width: 2 * p.r, height: 2 * p.r }));
    const { inner } = this;
    this.ruler.font = "12px system-ui, sans-serif";
    const said = (i) => !/^[\p{P}\s]*$/u.test(names[i]);
    const top = largest(strengths) || 1;
    const chosen = order.slice(0, LABELLED).filter((i, at) => names[i].trim() && (at < 8 || (Math.abs(strengths[i]) > 0.03 * top && said(i))));
    const wanted = chosen.map((i) => ({ ...this.points[i], width: this.ruler.measureText(brief(names[i], 22)).width + 4, height: 14 }));
    this.labels.replaceChildren();
    place(wanted, obstacles, { left: inner.left, right: inner.right, top: inner.top - 10, bottom: inner.bottom }).forEach((box, k) => {
      if (!box) return;
      const look = { x: box.x + box.width / 2, y: box.y + 11, "text-anchor": "middle" };
      this.labels.append(draw("text", look, brief(names[chosen[k]], 22)));
    });
  }

  // The 95% intervals of value and importance as a path, cut at the edges.
  cross(i, { toX, toY, inner }) {
    const { x, y, within } = this.shown;
    if (!within?.x) return "";
    const cut = (at, low, high) => Math.min(high, Math.max(low, at)).toFixed(1);
    const reach = (half) => (half === null ? 1e9 : half);
    const across = [-1, 1].map((side) => cut(toX(x[i] + side * reach(within.x[i])), inner.left, inner.right));
    const up = within.y ? [-1, 1].map((side) => cut(toY(y[i] + side * reach(within.y[i])), inner.top, inner.bottom)) : null;
    const { x: cx, y: cy } = this.points[i];
    return `M${across[0]} ${cy}H${across[1]}${up ? `M${cx} ${up[0]}V${up[1]}` : ""}`;
  }

  nearest(event) {
    const box = this.holder.getBoundingClientRect();
    const scale = this.width / Math.max(1, this.holder.firstChild.getBoundingClientRect().width);
    const x = (event.clientX - box.left) * scale;
    const y = (event.clientY - box.top) * scale;
    let best = -1;
    let least = 24;
    this.points.forEach((p, i) => {
      const far = Math.max(0, Math.hypot(p.x - x, p.y - y) - p.r) + p.r / 1000;
      if (far < least) [best, least] = [i, far];
    });
    if (best < 0) this.hooks.out();
    else {
      this.hooks.over(best, this.circles[best]);
      if (event.type === "click") this.hooks.toggle(best);
    }
  }

  key(event) {
    const unit = Number(event.target.dataset.i);
    if (event.key === "Enter" || event.key === " ") this.hooks.toggle(unit);
    else {
      const at = this.order.indexOf(unit);
      const to = stepped(event.key, at, this.order.length);
      if (to === null) return;
      this.focus(this.order[to]);
    }
    event.preventDefault();
  }

  highlight(unit) {
    this.ring.style.display = this.reach.style.display = unit === null ? "none" : "";
    if (unit === null) return;
    this.reach.setAttribute("d", this.crossAt(unit));
    const { x, y, r } = this.points[unit];
    this.ring.setAttribute("cx", x);
    this.ring.setAttribute("cy", y);
    this.ring.setAttribute("r", r + 3);
    this.ring.dataset.i = unit;
  }

  mark(gone) {
    this.shown.gone = gone;
    this.circles.forEach((circle, i) => circle.classList.toggle("gone", gone[i]));
  }
}

// Where an arrow key leads from place `at` of n; null for other keys.
function stepped(key, at, n, mirrored = false) {
  const onward = mirrored ? "ArrowLeft" : "ArrowRight";
  const back = mirrored ? "ArrowRight" : "ArrowLeft";
  if (key === onward || key === "ArrowDown") return Math.min(n - 1, at + 1);
  if (key === back || key === "ArrowUp") return Math.max(0, at - 1);
  return key === "Home" ? 0 : key === "End" ? n - 1 : null;
}
