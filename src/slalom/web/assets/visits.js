// What was explained during this visit: kept by the tab, gone with it.

const KEPT_VISITS = 40;
const PREVIEWED = 80; // characters

const visits = {
  list: [],
  open: () => {},
  start(open) {
    this.open = open;
    try {
      this.list = JSON.parse(window.sessionStorage.getItem("slalom")) ?? [];
    } catch {
      this.list = []; // storage that is switched off, or of another version
    }
    byId("forget").addEventListener("click", () => {
      this.list = [];
      this.keep();
    });
    this.draw();
  },
  add(subject, content, reading) {
    const key = JSON.stringify(subject);
    const strengths = reading.strengths("removal");
    const parts = [];
    let left = PREVIEWED;
    for (const [text, unit] of content.pieces) {
      parts.push([Array.from(text).slice(0, left).join(""), unit === null || !content.signed ? null : Number(strengths[unit].toFixed(2))]);
      left -= Array.from(text).length;
      if (left <= 0) break;
    }
    const said = { prediction: content.prediction, target: reading.target, score: reading.score, preview: parts };
    this.list = [{ key, ...said }, ...this.list.filter((visit) => visit.key !== key)].slice(0, KEPT_VISITS);
    this.keep();
  },
  keep() {
    try {
      window.sessionStorage.setItem("slalom", JSON.stringify(this.list));
    } catch {
      // full or switched off: the list is still there until the page is closed
    }
    this.draw();
  },
  draw() {
    byId("visits").hidden = !this.list.length;
    byId("visits-list").replaceChildren(...this.list.map(({ key, prediction, target, score, preview: parts }) => {
      const chance = prediction && prediction[1] !== null ? soft(percent(prediction[1])) : "";
      const entry = button("", () => {
        byId("visits").open = false;
        this.open(JSON.parse(key));
      });
      entry.append(make("span", { class: "line" }, bold(prediction ? prediction[0] : target), chance, scoreOf(score, target)), preview(parts));
      return make("li", {}, entry);
    }));
  },
};
