// The address holds everything that is shown, after the #: a link leads to the same texts, models, settings and removed words.
// The fragment never leaves the browser.

const FIELDS = ["text", "model", "method", "unit", "queries", "target", "seed"];

// places: one per pane, { subject, removed: [unit], swaps: [[unit, text]], score }
function toAddress(places) {
  const fields = new URLSearchParams();
  places.forEach(({ subject, removed, swaps, score }, k) => {
    const name = (field) => (k ? `${field}${k + 1}` : field);
    for (const field of FIELDS) {
      if (subject[field] !== null && subject[field] !== undefined) fields.append(name(field), String(subject[field]));
    }
    if (removed.length) fields.append(name("removed"), removed.join("."));
    for (const [unit, text] of swaps) fields.append(name("replaced"), `${unit}.${text}`);
    if (score !== null) fields.append(name("score"), score);
  });
  return `#${fields}`;
}

function fromAddress(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const places = [];
  for (const k of ["", "2"]) {
    if (!fields.has(`text${k}`)) break;
    const subject = Object.fromEntries(FIELDS.map((field) => [field, fields.get(field + k)]));
    for (const field of ["queries", "seed"]) subject[field] = /^[0-9]{1,15}$/.test(subject[field] ?? "") ? Number(subject[field]) : null;
    const removed = (fields.get(`removed${k}`) ?? "").split(".").filter((unit) => /^[0-9]{1,7}$/.test(unit)).map(Number);
    const swaps = fields.getAll(`replaced${k}`).map((swap) => /^([0-9]{1,7})\.(.*)$/s.exec(swap)).filter(Boolean).map(([, unit, text]) => [Number(unit), text]);
    places.push({ subject, removed, swaps, score: fields.get(`score${k}`) });
  }
  return places;
}
