// The numbers of one unit, beside it. Escape puts the tip away.

const tip = {
  show(element, name, { rows, note }) {
    const box = byId("tip");
    const list = make("dl");
    for (const [label, value, mark] of rows) list.append(make("dt", {}, label), make("dd", mark ? { class: mark } : {}, value));
    box.replaceChildren(make("b", { dir: "auto" }, brief(name, 60)), list, ...(note ? [make("p", {}, note)] : []));
    box.hidden = false;
    this.follow(element);
  },
  // Go where the element is; away with it where that is out of sight.
  follow(element) {
    const box = byId("tip");
    const { left, right, top, bottom } = element.getClientRects()[0] ?? element.getBoundingClientRect();
    const x = Math.min(Math.max(8, (left + right) / 2 - box.offsetWidth / 2), document.documentElement.clientWidth - box.offsetWidth - 8);
    const below = bottom + 8 + box.offsetHeight < window.innerHeight || top < box.offsetHeight + 8;
    if (bottom < 0 || top > window.innerHeight) this.hide();
    box.style.left = `${Math.max(8, x)}px`;
    box.style.top = `${below ? bottom + 8 : top - box.offsetHeight - 8}px`;
  },
  hide() {
    byId("tip").hidden = true;
  },
};
