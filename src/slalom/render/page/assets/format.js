// Elements and numbers. Data becomes text nodes and attributes only, never markup.

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const extent = (numbers) => numbers.reduce(([low, high], x) => [Math.min(low, x), Math.max(high, x)], [Infinity, -Infinity]);
const largest = (numbers) => numbers.reduce((top, x) => Math.max(top, Math.abs(x)), 0);

// Decimals that give the largest of some numbers about three digits.
function decimals(numbers) {
  const top = largest(numbers);
  return top > 0 ? Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(top)))) : 2;
}

const minus = (written) => written.replaceAll("-", "−");

function plain(x, places = decimals([x])) {
  if (x !== 0 && (Math.abs(x) >= 1e6 || (Math.abs(x) < 1e-5 && places >= 6))) return minus(x.toExponential(1));
  return minus(Number(x.toFixed(places)) === 0 ? (0).toFixed(places) : x.toFixed(places));
}

function signed(x, places) {
  const written = plain(x, places);
  return x > 0 && /[1-9]/.test(written) ? `+${written}` : written;
}

// Certainty is not rounded to 100 %.
function percent(p) {
  if (p > 0 && p < 0.0005) return "< 0.1 %";
  if (p < 1 && p > 0.9995) return "> 99.9 %";
  return (100 * p).toFixed(1) + " %";
}

// A name on one line, short, with white space made visible.
function brief(name, most = 28) {
  const line = name.trim() ? name.trim().replace(/\s+/g, " ") : name.replace(/\r?\n|\r/g, "↵").replace(/\s/g, "␣") || "(empty)";
  const letters = Array.from(line);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : line;
}

const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
