// Effects over texts, as numbers and as a picture: bars with intervals, swarms, or before and after.

const side = (x) => (x < 0 ? "minus" : "plus");
const isSure = (effect) => effect.low !== null && effect.low * effect.high > 0;
const whole = (n) => n.toLocaleString("en");
const share = (p) => `${(100 * p).toFixed(p > 0 && p < 0.0095 ? 1 : 0)} %`;
const written = (x) => (x === null || x === undefined ? "" : signed(x, 2));
const between = (effect) => (effect.low === null ? "" : `${written(effect.low)} to ${written(effect.high)}`);

// A picture of some effects: one row each, with a common axis.

function niceTicks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10);
  const ticks = [];
  for (let x = Math.ceil(low / step) * step; x <= high + 1e-9 * step; x += step) ticks.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return ticks;
}

// Offsets of points, so that those of nearly one place lie side by side.
function swarm(places, radius, room) {
  const levels = new Map();
  return places.map((x) => {
    const cell = Math.round(x / (1.6 * radius));
    const k = levels.get(cell) ?? 0;
    levels.set(cell, k + 1);
    const step = Math.ceil(k / 2) * (k % 2 ? 1 : -1) * 1.5 * radius;
    return Math.max(-room, Math.min(room, step));
  });
}

// rows: [{ name, effect, sample, old, value, chosen, pick }]
function picture(holder, rows, { label, wide = true }) {
  const width = Math.max(280, holder.clientWidth || 700);
  const swarms = rows.some((row) => row.sample);
  const high = swarms ? 30 : 26;
  const left = Math.min(width * 0.34, 14 + 7.8 * Math.max(...rows.map((row) => Array.from(brief(row.name, 24)).length)));
  const right = wide && width > 520 ? 132 : 52;
  const numbers = rows.flatMap(({ effect, sample, old }) => [effect.mean, effect.low, effect.high, old, ...(sample ?? []).map(([y]) => y)]);
  let [low, top] = extent([0, ...numbers.filter((x) => x !== null && x !== undefined)]);
  if (low === top) top = low + 1;
  const pad = 0.04 * (top - low);
  [low, top] = [low - pad, top + pad];
  const at = (x) => left + ((x - low) / (top - low)) * (width - left - right);
  const height = rows.length * high + 24;
  const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
  svg.style.height = `${height}px`;
  for (const x of niceTicks(low, top)) {
    svg.append(draw("line", { class: x === 0 ? "axis" : "grid", x1: at(x), x2: at(x), y1: 0, y2: height - 20 }));
    svg.append(draw("text", { class: "tick", x: at(x), y: height - 5, "text-anchor": "middle" }, minus(String(Number(x.toPrecision(6))))));
  }
  rows.forEach(({ name, effect, sample, old, chosen, pick }, i) => {
    const y = i * high + high / 2;
    const says = `${brief(name, 60)}: ${written(effect.mean)}${effect.low === null ? "" : `, 95% interval ${between(effect)}`}${effect.texts === undefined ? "" : `, ${plural(effect.texts, "text")}`}`;
    const row = draw("g", { class: chosen ? "row on" : "row", ...(pick ? { tabindex: 0, role: "button" } : { role: "img" }) });
    row.append(draw("title", {}, says)); // names the row
    row.append(draw("rect", { class: "hit", x: 0, y: y - high / 2, width, height: high, rx: 4 }));
    row.append(draw("text", { x: left - 8, y: y + 4, "text-anchor": "end", direction: "ltr" }, brief(name, 24)));
    const mean = effect.mean ?? 0;
    if (sample) {
      const off = swarm(sample.map(([x]) => at(x)), 2.6, high / 2 - 3);
      sample.forEach(([x, wrong], k) => row.append(draw("circle", { class: `dot ${side(x)}${wrong ? " wrong" : ""}`, cx: at(x).toFixed(1), cy: (y + off[k]).toFixed(1), r: 2.6 })));
      row.append(draw("line", { class: "mean", x1: at(mean), x2: at(mean), y1: y - high / 2 + 3, y2: y + high / 2 - 3 }));
    } else if (old !== undefined) {
      row.append(draw("line", { class: "link", x1: at(old), x2: at(mean), y1: y, y2: y }));
      row.append(draw("circle", { class: "old", cx: at(old), cy: y, r: 5 }), draw("circle", { class: side(mean - old), cx: at(mean), cy: y, r: 6 }));
    } else if (effect.mean !== null) {
      row.append(draw("rect", { class: `${side(mean)}${isSure(effect) || (effect.texts === undefined && effect.low === null) ? "" : " weak"}`, x: Math.min(at(0), at(mean)), y: y - 8, width: Math.abs(at(mean) - at(0)), height: 16 }));
    }
    if (!sample && old === undefined && effect.low !== null) {
      const [a, b] = [at(effect.low), at(effect.high)];
      row.append(draw("path", { class: "error", fill: "none", d: `M${a} ${y}H${b}M${a} ${y - 4}v8M${b} ${y - 4}v8` }));
    }
    const end = wide && width > 520 && effect.texts !== undefined ? `${written(effect.mean)} · ${whole(effect.texts)}` : written(effect.mean);
    row.append(draw("text", { class: "soft", x: width - 4, y: y + 4, "text-anchor": "end" }, end));
    if (pick) {
      row.addEventListener("click", pick);
      row.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        pick();
      });
    }
    svg.append(row);
  });
  holder.replaceChildren(svg);
}
