// A small editor beside a unit: what shall stand there instead?

// done(text) with the new text; Escape and Cancel leave it as it is.
function editUnit(beside, name, done) {
  document.querySelector(".swap")?.remove();
  const input = make("input", { type: "text", "aria-label": `Instead of “${brief(name)}”`, dir: "auto", autocomplete: "off", spellcheck: "false", maxlength: "1000" });
  input.value = beside.textContent;
  const form = make("form", {}, input, make("button", { type: "submit", class: "primary" }, "Ask the model"), button("Cancel", () => close()));
  const box = make("div", { class: "swap", role: "dialog", "aria-label": `Replace “${brief(name)}”` }, form);
  const close = () => {
    box.remove();
    beside.focus({ preventScroll: true });
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    close();
    done(input.value);
  });
  form.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") close();
  });
  document.body.append(box);
  const at = beside.getClientRects()[0] ?? beside.getBoundingClientRect();
  const left = Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 8);
  box.style.left = `${Math.max(8, left) + window.scrollX}px`;
  box.style.top = `${at.bottom + window.scrollY + 6}px`;
  tip.hide();
  input.focus();
  input.select();
}
