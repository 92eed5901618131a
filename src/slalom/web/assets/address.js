// The address holds everything that is shown, after the #: a link leads to the same texts, models, settings and removed words.
// The fragment never leaves the browser.

const FIELDS = ["text", "model", "method", "unit", "queries", "target", "seed"];

// places: one per pane, { subject, removed: [unit], swaps: [[unit, text]], score }
function toAddress(places) {
  const fields = new URLSearchParams();
  places.forEach(({ subject, removed, swaps, score }, k) => {
    const name = (field) => (k ? `${field}${k + 1}` : field);
    const given = typeof subject.text === "string" ? subject : { ...subject, text: null, fields: JSON.stringify(subject.text) };
    for (const field of ["fields", ...FIELDS]) {
      if (given[field] !== null && given[field] !== undefined) fields.append(name(field), String(given[field]));
    }
    if (removed.length) fields.append(name("removed"), removed.join("."));
    for (const [unit, text] of swaps) fields.append(name("replaced"), `${unit}.${text}`);
    if (score !== null) fields.append(name("score"), score);
  });
  return `#${fields}`;
}

// The fields that an address holds; empty where it holds none.
function recordOf(json) {
  try {
    const record = JSON.parse(json);
    if (Object.values(record).every((value) => value === null || ["string", "number"].includes(typeof value))) return record;
  } catch {
    // an address that somebody cut or wrote
  }
  return "";
}

function fromAddress(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const places = [];
  for (const k of ["", "2"]) {
    if (!fields.has(`text${k}`) && !fields.has(`fields${k}`)) break;
    const subject = Object.fromEntries(FIELDS.map((field) => [field, fields.get(field + k)]));
    subject.text ??= recordOf(fields.get(`fields${k}`));
    for (const field of ["queries", "seed"]) subject[field] = /^[0-9]{1,15}$/.test(subject[field] ?? "") ? Number(subject[field]) : null;
    const removed = (fields.get(`removed${k}`) ?? "").split(".").filter((unit) => /^[0-9]{1,7}$/.test(unit)).map(Number);
    const swaps = fields.getAll(`replaced${k}`).map((swap) => /^([0-9]{1,7})\.(.*)$/s.exec(swap)).filter(Boolean).map(([, unit, text]) => [Number(unit), text]);
    places.push({ subject, removed, swaps, score: fields.get(`score${k}`) });
  }
  return places;
}
