// The elements of a viewer, by name. Their ids have the prefix of the viewer.

function viewerLayout(root, prefix) {
  const ui = {};
  const id = (name) => prefix + name;
  const part = (tag, name, attributes, ...children) => {
    ui[name] = make(tag, { ...attributes, id: id(name) }, ...children);
    return ui[name];
  };
  const noun = () => make("span", { class: "noun" }, "word");
  const target = () => make("b", { class: "target", dir: "auto" });
  const card = (name, ...children) => section(`${name}-card`, { class: `card ${name}-part`, "aria-labelledby": id(`${name}-title`) }, ...children);
  const title = (name, text) => part("h2", `${name}-title`, {}, text);

  // The sections of the first viewer are landmarks; those of a second one would have the same names.
  const section = (name, attributes, ...children) => part("section", name, prefix ? { ...attributes, role: "group" } : attributes, ...children);

  root.classList.add("viewer");
  root.replaceChildren(
    section("answer-card", { class: "card answer-part", "aria-labelledby": id("answer-title"), hidden: "" },
      make("div", { class: "bar" }, title("answer", "Answer and sources"), part("span", "answer-by", { class: "soft" })),
      part("p", "answer-question", { class: "answer-question", dir: "auto" }),
      make("div", { class: "map" },
        make("div", {}, part("div", "answer-text", { class: "answer", dir: "auto", role: "group", "aria-labelledby": id("answer-title") }),
          part("p", "answer-said", { class: "help", role: "status" })),
        part("ol", "answer-sources", { "aria-label": "Sources" }))),
    part("p", "headline", { class: "headline", dir: "auto" }),
    section("head", { class: "facts", "aria-label": "Prediction" }),
    part("div", "warnings", {}),
    card("text",
      make("div", { class: "bar" }, title("text", "Text"),
        part("label", "class-pick", { class: "pick", hidden: "" }, "Class ", part("select", "class", {})),
        part("fieldset", "scores", { class: "switch" }, make("legend", { class: "hidden" }, "Colour by"))),
      part("p", "legend", { class: "legend" }),
      make("div", { class: "read" },
        make("div", {},
          part("div", "text", { class: "text", dir: "auto", role: "group", "aria-labelledby": id("text-title"), "aria-describedby": id("text-help") }),
          part("p", "text-help", { class: "help" }, "Click a ", noun(), " to remove it, click again to restore it. ",
            part("span", "field-help", { hidden: "" }, "Click the name of a field to remove or restore all of it; beside it: how much the model's",
              " score falls without the field (removal), and the sum of the Shapley values of its ", noun(), "s. "),
            part("span", "phrase-help", { hidden: "" }, "Drag to remove a phrase, double-click to replace a ", noun(), ". "),
            make("span", { class: "keys" }, "Keyboard: arrow keys move, Enter or Space removes",
              part("span", "phrase-keys", { hidden: "" }, ", Shift and arrow keys select a phrase, R replaces"), ".")),
          part("div", "strongest-part", { class: "strongest-part" },
            part("h3", "strongest-title", {}), part("ol", "strongest", { class: "strongest", "aria-labelledby": id("strongest-title") }))),
        part("div", "live", { class: "live", role: "group", "aria-label": "slalom's prediction" },
          part("div", "live-said", { class: "live-said", "aria-live": "polite" }),
          part("div", "bars", { class: "bars" }),
          part("p", "bars-help", { class: "help" }, "The mark on a bar is the prediction for the whole text",
            part("span", "bars-within", { hidden: "" }, ", the whisker the 95% interval of the model's answer"),
            part("span", "bars-model", { hidden: "" }, ", the diamond the model's own answer"), "."),
          make("div", { class: "row" }, part("button", "restore", { type: "button", disabled: "" }, "Restore all"), part("span", "extra", { class: "row" })),
          part("div", "below", { class: "below" })))),
    section("classes-card", { class: "card", "aria-labelledby": id("classes-title"), hidden: "" },
      title("classes", "All classes at a glance"),
      part("p", "classes-help", { class: "help" }),
      part("div", "classes", { class: "sideways", tabindex: "0", role: "group", "aria-labelledby": id("classes-title") })),
    part("div", "pair", { class: "pair" },
      card("scatter", title("scatter", "Value and importance"),
        make("p", { class: "help" }, "Right: ", make("span", { class: "toward" }, "for"), " ", target(), ", left: ", make("span", { class: "away" }, "against it"), "; higher: louder. The area of a point is its share of attention.", part("span", "competition", {}),
          part("span", "scatter-within", { hidden: "" }, " Crosses are 95% intervals.")),
        part("div", "scatter", { class: "scatter" })),
      card("table", title("table", "Units"),
        make("p", { class: "help" }, "Click a heading to sort: strongest first, then from the highest, then from the lowest. Scores are for the whole text",
          part("span", "table-se", {}, "; ± and whiskers are 95% intervals, numbers marked asked are the model's own answers",
            part("span", "table-doubt", {}, ", ", make("span", { class: "doubt" }, "grey"), " numbers and ",
              make("i", { class: "stem neutral unsure", "aria-hidden": "true" }), " hatched bars are not distinguishable from zero: their interval contains it")),
          ".", part("span", "table-place", { hidden: "" }),
          make("span", { class: "if-narrow" }, " Beside removal it shows the score that is chosen above; a wider window shows all.")),
        part("div", "table", { class: "scroll", tabindex: "-1" }))),
    section("pairs-card", { class: "card", "aria-labelledby": id("pairs-title"), hidden: "" },
      title("pairs", ""),
      make("p", { class: "help" }, "By how much two ", noun(), "s together change the score of ", target(),
        " beyond the sum of what each does alone (", part("span", "pairs-scale", {}), "); ± and whiskers are 95% intervals."),
      part("table", "pairs", { class: "pairs", "aria-labelledby": id("pairs-title") }, make("tbody"))),
    card("facts", title("facts", "How it was made, and how well it predicts the model"), part("dl", "facts", { class: "facts-list" })),
  );
  return ui;
}
