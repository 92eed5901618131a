// The report: which of its texts is shown. #text-3 is the third.

const entries = JSON.parse(byId("entries").textContent);
const contents = document.querySelectorAll("script.content");
const kept = new Map(); // per text: which units are kept
const viewer = createViewer(byId("viewer"));
const { state } = viewer;
const narrow = window.matchMedia("(max-width: 60rem)");

function show(at) {
  state.at = at;
  const content = JSON.parse(contents[at].textContent);
  if (!kept.has(at)) kept.set(at, new Array(content.units.length).fill(1));
  viewer.show(content, { keep: kept.get(at) });
  byId("index-list").querySelectorAll("a").forEach((link, k) => {
    if (k === at) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  byId("where").textContent = `Text ${at + 1} of ${entries.length}`;
  byId("previous").disabled = at === 0;
  byId("next").disabled = at === entries.length - 1;
}

const hashed = () => {
  const found = /^#text-([0-9]+)$/.exec(window.location.hash);
  const at = found ? Number(found[1]) - 1 : 0;
  return at >= 0 && at < entries.length ? at : 0;
};

function turn(at) {
  show(at);
  if (narrow.matches) byId("index-fold").open = false;
  window.scrollTo(0, 0);
}

// At once, not when the address has changed: a second click may come before that.
function go(at) {
  turn(at);
  window.location.hash = `#text-${at + 1}`;
}

function drawIndex() {
  byId("index").hidden = byId("turn").hidden = false;
  document.body.classList.add("many");
  byId("index-title").textContent = plural(entries.length, "text");
  byId("index-list").replaceChildren(...entries.map((entry, k) => {
    const label = entry.prediction ? entry.prediction[0] : entry.target;
    const line = make("span", { class: "line" }, make("b", { dir: "auto" }, label));
    if (entry.prediction && entry.prediction[1] !== null) line.append(make("span", { class: "soft" }, percent(entry.prediction[1])));
    const about = `score of ${entry.target}`;
    line.append(make("span", { class: `score ${entry.score < 0 ? "minus" : "plus"}`, title: about }, signed(entry.score, 2)));
    return make("li", {}, make("a", { href: `#text-${k + 1}` }, line, preview(entry.preview)));
  }));
  const fold = () => { byId("index-fold").open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  byId("previous").addEventListener("click", () => go(state.at - 1));
  byId("next").addEventListener("click", () => go(state.at + 1));
  byId("search").addEventListener("input", search);
}

// What is searched of each text: the whole text, its label and its target. Made when it is first needed.
let searched = null;
const folded = (text) => text.normalize("NFKC").toLocaleLowerCase();

function search() {
  searched ??= entries.map((entry, k) => {
    const { pieces } = JSON.parse(contents[k].textContent);
    return folded([pieces.map(([text]) => text).join(""), entry.prediction?.[0] ?? "", entry.target].join("\n"));
  });
  const wanted = folded(byId("search").value).split(/\s+/).filter(Boolean);
  const items = byId("index-list").children;
  const found = searched.map((text) => wanted.every((word) => text.includes(word)));
  found.forEach((match, k) => { items[k].hidden = !match; });
  const count = found.filter(Boolean).length;
  byId("found").textContent = !wanted.length ? "" : count ? `${count} of ${entries.length}` : "No text has these words.";
}

window.addEventListener("hashchange", () => {
  if (/^(#text-[0-9]+)?$/.test(window.location.hash) && hashed() !== state.at) turn(hashed());
});

theme.start((printing) => viewer.print(printing));
if (entries.length > 1) drawIndex();
show(hashed());

// For tests, and for predictions that the page does not show.
window.slalom = Object.freeze({ predict: (counts) => predict(state.text.surrogate, counts), probabilities, state });
