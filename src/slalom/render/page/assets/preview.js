// The first words of a text in its colours, for lists: parts [[text, strength in [-1, 1] or null]].

function preview(parts) {
  const shown = make("span", { class: "preview", dir: "auto" });
  for (const [text, strength] of parts) {
    if (strength === null || Math.abs(strength) < 0.15) {
      shown.append(text);
      continue;
    }
    const span = make("span", { class: strength < 0 ? "against" : "for" }, text);
    span.style.setProperty("--t", Math.abs(strength).toFixed(3));
    shown.append(span);
  }
  return shown;
}
