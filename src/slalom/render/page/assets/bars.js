// Bars with whiskers in a cell. A whisker is the 95% interval; a bar whose interval contains zero is pale and hatched.

const REACH = 0.5; // of the range of the bars: whiskers beyond it are cut, as in the figure
const NORMAL_95 = 1.959963984540054; // half a 95% interval in standard errors

// Whether a number is not distinguishable from zero: null is an interval without end, 0 that of the model's own answer.
const unsure = (x, within) => within === null || (within > 0 && Math.abs(x) <= within);

// " ± 0.12", " asked" where the number is the model's own answer; empty where there is no interval.
function plusMinus(within, places) {
  if (within === undefined) return "";
  if (within === 0) return " asked";
  return ` ± ${within === null ? "∞" : plain(within, places)}`;
}

// The axis of some bars: all of them, and whiskers as far as half their range.
function barAxis(numbers, within) {
  const [low, high] = extent([...numbers, 0]);
  const span = high - low || 1;
  const ends = within ? numbers.flatMap((x, i) => [x - (within[i] ?? Infinity), x + (within[i] ?? Infinity)]) : [];
  const [first, last] = extent([...ends.map((end) => Math.min(high + REACH * span, Math.max(low - REACH * span, end))), low, high]);
  return { low: first, span: last - first || 1 };
}

function bar({ low, span }, x, within, undirected) {
  const share = (y) => 100 * Math.min(1, Math.max(0, (y - low) / span));
  const part = (name, from, to) => {
    const piece = make("i", { class: name });
    piece.style.left = `${share(from).toFixed(2)}%`;
    piece.style.width = `${(share(to) - share(from)).toFixed(2)}%`;
    return piece;
  };
  const side = undirected ? "neutral" : x < 0 ? "against" : "for";
  const known = within === undefined || !unsure(x, within);
  const pieces = [part("zero", 0, 0), part(`stem ${side}${known ? "" : " unsure"}`, Math.min(0, x), Math.max(0, x))];
  if (within !== undefined && within !== 0) {
    const [from, to] = [x - (within ?? Infinity), x + (within ?? Infinity)];
    const cut = `${from < low - 1e-9 * span ? " cut-left" : ""}${to > low + span * (1 + 1e-9) ? " cut-right" : ""}`;
    pieces.push(part(`whisker${cut}`, from, to));
  }
  return make("span", { class: "mini", "aria-hidden": "true" }, ...pieces);
}
