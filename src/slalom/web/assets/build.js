// What both views build: buttons, and tiles of facts.

function button(label, act, attributes = {}) {
  const made = make("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

// One of several choices that exclude each other.
function choice(name, value, label, checked, act) {
  const input = make("input", { type: "radio", name, value });
  input.checked = checked;
  input.addEventListener("change", act);
  return make("label", {}, input, make("span", {}, label));
}

const tile = (name, ...said) => make("div", {}, make("span", { class: "term" }, name), make("span", { class: "said" }, ...said));
const soft = (text) => make("span", { class: "soft" }, text);
const bold = (text, kind = "") => make("b", { dir: "auto", class: kind }, text);
const signOf = (x) => (x < 0 ? "minus" : "plus");
const scoreOf = (score, target) => make("span", { class: `score ${signOf(score)}`, title: `score of ${target}` }, signed(score, 2));
