// The viewer of one explanation: text with coloured units, what the surrogate predicts, strongest units, classes, scatter, table,
// pairs, facts. The report has one viewer, the live page one or two.

const PLURALS = { sentence: "Sentences", paragraph: "Paragraphs", document: "Documents", turn: "Turns" };

// options: prefix, of the ids; asks, whether a model can be asked; phrases, whether dragging removes a phrase; and what to call:
// changed(keep) after the reader removed or restored units, replace(unit, element) when one is to be replaced, painted() after the
// class or the score was chosen.
function createViewer(root, options = {}) {
  const { prefix = "", asks = false, phrases = false, changed = () => {}, replace = null, painted = () => {} } = options;
  const ui = viewerLayout(root, prefix);
  const state = { text: null, score: null, class: 0, keep: [], answer: asks ? null : undefined, on: null };
  const hooks = { over: (unit, element) => look(unit, element), out: () => look(null), toggle: (unit) => toggle([unit]) };
  const several = { ...hooks, toggle: (units) => toggle(units), replace };
  const text = new UnitText(ui.text, several, phrases);
  const strongest = new Strongest(ui.strongest, several);
  const scatter = new Scatter(ui.scatter, hooks);
  const table = new Table(ui.table, hooks, `${prefix}table-title`);
  const classes = new Classes(ui.classes, { ...hooks, choose: (column) => choose(column) });
  const guess = new Guess(ui, prefix);
  const map = new AnswerMap(ui, { ...hooks, choose: () => about(map.content), find: (unit) => text.focus(unit) });
  let reading = null;
  let picked = null; // the score that the reader chose
  let same = false; // whether the text is the one that was shown before

  const gone = () => state.keep.map((kept) => !kept);
  const marks = () => reading.content.told_apart;

  // keep: which units are kept, 1 or 0, the caller's own array; default: all. column: of the class; default: the leading one.
  // rough: more rounds follow, so that warnings wait for the last.
  function show(content, { keep = new Array(content.units.length).fill(1), column = content.leading, rough = false } = {}) {
    same = state.text !== null && state.text.units.length === content.units.length && state.text.units.every((name, i) => name === content.units[i]);
    state.keep = keep;
    state.answer = asks ? null : undefined;
    const shown = map.show(content) ?? content;
    text.show(content.pieces, content.units, content.fields);
    if (content.sentences.length) text.spans.forEach((span, i) => { span.dataset.number = content.numbers[i]; });
    state.spans = text.spans;
    about(shown, column, rough);
  }

  // Draw what depends on the explanation, of a whole answer or of one of its sentences.
  function about(content, column = content.leading, rough = false) {
    same ||= content.units === state.text?.units;
    state.text = content;
    state.class = column;
    reading = new Reading(content, state.class);
    state.score = picked ?? content.initial_score;
    if (reading.numbers(state.score) === null) state.score = reading.kinds[0].name;
    root.classList.toggle("effects-only", !content.told_apart);
    root.classList.toggle("no-sign", !content.signed); // such scores predict nothing, so nothing can be removed
    ui.live.hidden = ui["text-help"].hidden = !content.signed;
    ui["field-help"].hidden = !content.fields;
    ui["phrase-help"].hidden = ui["phrase-keys"].hidden = !phrases;
    tip.hide();
    drawChoices();
    drawFacts(rough ? [] : content.warnings);
    rescore();
  }

  // All that depends on the chosen class or score.
  function rescore() {
    reading = new Reading(state.text, state.class);
    drawHead();
    recolour(true);
    text.sums(reading);
    drawClasses();
    drawTable();
    drawPairs();
    if (state.text.signed) guess.show(reading, state.keep, state.answer);
    mark();
  }

  function choose(column) {
    state.class = column;
    ui.class.value = String(column);
    rescore();
    painted();
  }

  function drawHead() {
    const { prediction, answer, score_name: scale } = state.text;
    const tile = (name, ...said) => make("div", {}, make("span", { class: "term" }, name), make("span", { class: "said" }, ...said));
    ui["text-title"].textContent = answer ? "Sources" : "Text";
    ui.headline.textContent = state.text.headline;
    ui.headline.hidden = !state.text.headline;
    ui.competition.textContent = state.text.competition && ` ${state.text.competition[0].toUpperCase()}${state.text.competition.slice(1)}.`;
    ui.head.replaceChildren(...(answer || reading.number ? [] : [
      prediction
        ? tile("The model predicts", make("b", { dir: "auto" }, prediction[0]), make("span", { class: "soft" }, prediction[1] === null ? "" : percent(prediction[1])))
        : tile("The model predicts", make("span", { class: "soft" }, "not known")),
      tile("Explained class", make("b", { dir: "auto" }, reading.target)),
    ]),
      tile(reading.number && !answer ? `The model's number (${reading.target})` : `Score${answer ? ` of ${map.chosen === null ? "the answer" : reading.target}` : ""} (${scale})`, make("b", { id: `${prefix}score`, class: `number ${answer ? "" : reading.score < 0 ? "minus" : "plus"}` }, signed(reading.score, 3))),
    );
    for (const spot of root.querySelectorAll(".noun")) spot.textContent = reading.noun;
    for (const spot of root.querySelectorAll(".target")) spot.textContent = reading.target;
    for (const spot of root.querySelectorAll(".toward")) spot.textContent = reading.number ? "raises" : "for";
    for (const spot of root.querySelectorAll(".away")) spot.textContent = reading.number ? "lowers it" : reading.opposite ? `for ${reading.opposite}` : "against it";
  }

  function drawChoices() {
    ui["class-pick"].hidden = !reading.several;
    ui.class.replaceChildren(...(reading.several ? state.text.labels.map((label, c) => make("option", { value: c }, label)) : []));
    ui.class.value = String(state.class);
    const legend = ui.scores.querySelector("legend");
    ui.scores.replaceChildren(legend, ...reading.kinds.map(({ name: key, label, meaning: title }) => {
      const input = make("input", { type: "radio", name: `${prefix}score`, value: key });
      input.checked = key === state.score;
      input.disabled = reading.numbers(key) === null;
      return make("label", { title: input.disabled ? "not defined for this text" : title }, input, make("span", {}, label));
    }));
  }

  function recolour(moved = false) {
    const shares = reading.strengths(state.score);
    const undirected = reading.undirected(state.score);
    const doubt = reading.doubtful(state.score);
    text.colour(shares, undirected, doubt);
    const key = (side, ...said) => make("span", { class: `key ${side}` }, ...said);
    const named = () => make("bdi", {}, reading.target);
    const { label: name, meaning: title } = reading.rows[state.score];
    const more = state.text.signed ? "louder" : "counts more";
    ui.legend.replaceChildren(
      ...(undirected ? [key("neutral", more)] : [key("for", reading.number ? "raises " : "for ", named()), key("against", reading.number ? "lowers " : reading.opposite ? "for " : "against ", make("bdi", {}, reading.opposite ?? reading.target))]),
      ...(doubt.some(Boolean) ? [key(`${undirected ? "neutral" : "for"} unsure`, "not distinguishable from zero")] : []),
      make("span", { class: "means" }, `Colour: ${title}.`),
    );
    ui["strongest-title"].textContent = `Strongest by ${name.toLowerCase()}`;
    strongest.show(reading, state.score, same);
    const { units } = state.text;
    const order = units.map((_, i) => i).sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a]));
    const look = { strengths: shares, undirected, order };
    ui["scatter-card"].hidden = !marks();
    if (!marks()) return;
    const frame = state.text.frames[reading.at];
    const within = { x: reading.within("value"), y: reading.within("importance") };
    if (moved) scatter.show({ names: units, x: reading.numbers("value"), y: reading.numbers("importance"), within, weights: reading.numbers("weight"), frame, gone: gone(), ...look });
    else scatter.paint(look);
    ui["scatter-within"].hidden = !scatter.crossed;
  }

  function drawClasses() {
    ui["classes-card"].hidden = !reading.several || !state.text.signed;
    if (ui["classes-card"].hidden) return;
    const { rows, columns } = classes.show(reading);
    const left = state.text.labels.length - columns;
    ui["classes-help"].textContent = `By how much the score of each class falls when a ${reading.noun} is removed: the ${plural(rows, `strongest ${reading.noun}`)}`
      + `${left ? `, the ${columns} most probable of ${columns + left} classes` : ""}. Hatched: not distinguishable from zero. Click a class to explain it.`;
  }

  function drawTable() {
    const { units, place_effect: moved } = state.text;
    const [main] = reading.kinds;
    ui["table-se"].hidden = !reading.kinds.some(({ name: key }) => reading.within(key) !== undefined);
    ui["table-doubt"].hidden = !reading.kinds.some(({ name: key }) => reading.numbers(key) !== null && reading.doubtful(key).some(Boolean));
    ui["table-place"].hidden = moved === null;
    const own = (part) => (reading.several ? part[state.class] : part);
    const changes = reading.kinds.filter(({ kind }) => kind === "effect" || kind === "share").map(({ label }) => label);
    if (moved !== null) ui["table-place"].textContent = ` Up to ${own(moved).toFixed(3)} of a removal arises because later words shift position. ${changes.join(", ")} include it.`;
    const columns = [{ key: "unit", label: "Unit", title: "in the order of the text", numbers: units.map((_, i) => i) }];
    for (const { name: key, label, meaning: title, kind } of reading.kinds) {
      const [numbers, within] = [reading.numbers(key), reading.within(key)];
      if (numbers === null) continue;
      const places = decimals(numbers);
      const directed = kind !== "attention";
      columns.push({
        key, label, title, numbers, places, within, signed: directed, marked: directed, brief: key !== main.name && ["effect", "share"].includes(kind), // its interval is in the tip
        strengths: directed || !state.text.signed ? reading.sizes(key) : undefined,
        axis: key === main.name ? barAxis(numbers, within) : undefined,
        write: (x) => reading.written(key, x, places),
      });
    }
    table.choose(state.score);
    table.show({ columns, names: units, numbered: (unit) => reading.occurrence(unit), first: state.text.initial_score, gone: gone(), stay: same });
  }

  // Pairs of units that act together, strongest first; no card where there are none.
  function drawPairs() {
    const { pairs, units, unit } = state.text;
    ui["pairs-card"].hidden = !pairs.length;
    ui["pairs-title"].textContent = `${PLURALS[unit] ?? "Words"} that act together`;
    ui["pairs-scale"].textContent = state.text.score_name;
    const own = (part) => (Array.isArray(part) ? part[state.class] : part);
    const rows = pairs.map(([both, effect, within]) => ({ both, effect: own(effect), within: own(within) ?? undefined })) // merged units have none
      .sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect));
    const effects = rows.map(({ effect }) => effect);
    const axis = barAxis(effects, rows.map(({ within }) => within ?? 0));
    const places = decimals(effects);
    ui.pairs.tBodies[0].replaceChildren(...rows.map(({ both, effect, within }) => {
      const name = both.map((i) => `${brief(units[i])}${reading.occurrence(i)}`).join(" + ");
      const doubt = within !== undefined && unsure(effect, within) ? "doubt" : effect < 0 ? "minus" : "plus";
      const row = make("tr", { "data-pair": both.join(" ") }, make("th", { scope: "row", class: "name", dir: "auto" }, name),
        make("td", { class: doubt }, signed(effect, places), make("small", {}, plusMinus(within, places)), bar(axis, effect, within, false)));
      const light = (lit) => both.forEach((i) => text.light(i, lit));
      row.addEventListener("pointerenter", () => light(true));
      row.addEventListener("pointerleave", () => light(false));
      return row;
    }));
  }

  function drawFacts(warnings) {
    const { facts } = state.text;
    ui.facts.replaceChildren(...facts.map(([name, said]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, said))));
    ui.warnings.replaceChildren(...warnings.map((said) => make("p", { class: "warning", role: "note" }, said)));
  }

  // --- doing

  function mark() {
    text.mark(state.keep);
    strongest.mark(gone());
    if (marks()) scatter.mark(gone());
    table.mark(gone());
  }

  // Remove units, or restore them where all of them are removed.
  function toggle(units) {
    if (!state.text.signed) return;
    const kept = units.every((unit) => !state.keep[unit]) ? 1 : 0;
    for (const unit of units) state.keep[unit] = kept;
    afterChange();
    if (units.length === 1 && state.on === units[0] && state.beside && !byId("tip").hidden) tip.show(state.beside, state.text.units[state.on], said(state.on));
  }

  function afterChange() {
    state.answer = asks ? null : undefined;
    mark();
    guess.show(reading, state.keep, state.answer);
    changed(state.keep);
  }

  // Keep these units, as if the reader had clicked.
  function setKeep(keep) {
    keep.forEach((kept, i) => { state.keep[i] = kept; });
    afterChange();
  }

  // Show what the model answers: "waiting", or { scores }.
  function setAnswer(answer) {
    state.answer = answer;
    guess.show(reading, state.keep, answer);
  }

  // Look at one unit, in the text, the scatter and the table at once; null looks away.
  function look(unit, element) {
    if (state.on !== null) text.light(state.on, false);
    map.look(unit);
    state.on = unit;
    state.beside = element;
    if (marks()) scatter.highlight(unit);
    table.highlight(unit, Boolean(element));
    strongest.highlight(unit);
    if (reading.several) classes.highlight(unit);
    if (unit === null) {
      tip.hide();
      return;
    }
    text.light(unit, true);
    if (element) tip.show(element, state.text.units[unit], said(unit));
    else tip.hide();
  }

  function said(unit) {
    const rows = [];
    let any = false;
    for (const { name: key, label } of reading.kinds) {
      const numbers = reading.numbers(key);
      if (numbers === null) continue;
      const within = reading.within(key)?.[unit];
      any ||= within !== undefined;
      const doubt = within !== undefined && !reading.undirected(key) && unsure(numbers[unit], within);
      const digits = decimals([numbers[unit], within ?? 0]);
      rows.push([label, reading.written(key, numbers[unit], digits) + plusMinus(within, digits), `${key === state.score ? "chosen" : ""}${doubt ? " doubt" : ""}`]);
    }
    if (!state.keep[unit]) rows.push(["Now", "removed", ""]);
    const grey = rows.some(([, , mark]) => mark.includes("doubt")) ? "; grey: contains zero" : "";
    return { rows, note: any ? `± 95% interval${grey}` : "" };
  }

  ui.restore.addEventListener("click", () => {
    state.keep.fill(1);
    afterChange();
  });
  ui.scores.addEventListener("change", (event) => pick(event.target.value));
  ui.class.addEventListener("change", (event) => choose(Number(event.target.value)));
  document.addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
  window.addEventListener("scroll", () => state.on === null || !state.beside || byId("tip").hidden || tip.follow(state.beside), { capture: true, passive: true });

  // Colour by a score; it stays chosen for the next texts. null: these have the score that each begins with.
  function pick(score) {
    picked = score;
    if (score === null || !state.text || reading.numbers(score) === null) return;
    state.score = score;
    table.choose(score);
    const input = ui.scores.querySelector(`input[value="${score}"]`);
    if (input) input.checked = true;
    same = true;
    recolour();
    painted();
  }

  // All rows of the table, for paper.
  function print(printing) {
    table.all = printing;
    if (state.text) table.rows();
  }

  return { ui, state, show, setKeep, setAnswer, choose, pick, print, text, reading: () => reading };
}
