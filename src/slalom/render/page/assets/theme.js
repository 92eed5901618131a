// Light or dark: the system's choice until the button says otherwise; light on paper.

const theme = {
  system: window.matchMedia("(prefers-color-scheme: dark)"),
  chosen: null,
  paint(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    byId("theme").textContent = dark ? "☀ Light" : "☾ Dark";
  },
  // onPaper(printing): before and after the page is printed
  start(onPaper) {
    byId("theme").addEventListener("click", () => {
      this.chosen = document.documentElement.dataset.theme !== "dark";
      this.paint(this.chosen);
    });
    this.system.addEventListener("change", () => this.chosen === null && this.paint(this.system.matches));
    window.addEventListener("beforeprint", () => {
      this.paint(false);
      onPaper(true);
    });
    window.addEventListener("afterprint", () => {
      this.paint(this.chosen ?? this.system.matches);
      onPaper(false);
    });
    this.paint(this.system.matches);
  },
};
