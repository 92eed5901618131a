// The live page: one pane, or two side by side; the address, the history of this visit, and what to do when the server is gone.

const panes = [];
const tally = new Tally();
let info = null;
let writing = null;

function toast(text) {
  byId("toast").textContent = text;
  byId("toast").classList.add("up");
  window.clearTimeout(toast.timer);
  toast.timer = window.setTimeout(() => byId("toast").classList.remove("up"), 4000);
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    toast(said);
  } catch {
    toast("The browser does not allow copying; the address line holds the link.");
  }
}

// The address follows what is shown, a moment later.
function changed() {
  window.clearTimeout(writing);
  writing = window.setTimeout(changed.now, 200);
}
changed.now = () => {
  window.clearTimeout(writing);
  if (corpusView.on || sourcesView.on) return; // they have addresses of their own
  const shown = panes.some((pane) => pane.written);
  const hash = shown ? toAddress(panes.map((pane) => pane.place)) : "";
  document.body.classList.toggle("first", !shown && panes.length === 1);
  if (hash !== window.location.hash) window.history.replaceState(null, "", hash || window.location.pathname);
  const { content } = panes[0];
  const label = content?.prediction?.[0];
  document.title = shown && content ? `${label ? `${label}: ` : ""}${brief(panes[0].written, 60)} – slalom` : "slalom";
};

function addPane() {
  const number = panes.length + 1;
  const pane = new Pane(info, number === 1 ? "" : "second-", number, {
    changed, copy, toast, tally, lost,
    tallied: () => panes.forEach(({ ui }) => tally.draw(ui.tally)),
    explained: ({ asked, content, viewer }) => {
      visits.add({ ...asked, target: asked.target ?? "" }, content, viewer.reading());
      changed();
    },
    close: () => closeSecond(),
  });
  panes.push(pane);
  byId("panes").append(pane.root);
  document.body.classList.toggle("two", panes.length === 2);
  byId("compare").hidden = panes.length === 2;
  tally.draw(pane.ui.tally);
  return pane;
}

function closeSecond() {
  const pane = panes.pop();
  pane.stop();
  pane.root.remove();
  document.body.classList.remove("two");
  byId("compare").hidden = false;
  byId("compare").focus();
  changed();
}

// The second pane begins with the same text, and with the next model where there is one.
function sideBySide() {
  const { subject } = panes[0].place;
  const at = info.models.findIndex(({ id }) => id === subject.model);
  const other = info.models.length > 1 ? info.models[(at + 1) % info.models.length].id : null;
  const pane = addPane();
  if (panes[0].written) pane.go({ subject: { ...subject, model: other, target: other ? null : subject.target } });
  pane.boxes[0].focus();
}

// The server is gone: try until it is back, then go on.
function lost(again) {
  byId("offline").hidden = false;
  byId("offline").textContent = "The server does not answer. Start it again with slalom serve; this page goes on by itself.";
  window.clearTimeout(lost.timer);
  lost.waiting = [...(lost.waiting ?? []), again];
  lost.timer = window.setTimeout(async () => {
    try {
      await api.json("/api/info");
    } catch {
      lost(() => {});
      return;
    }
    byId("offline").hidden = true;
    const waiting = lost.waiting;
    lost.waiting = [];
    for (const go of waiting) go();
  }, 1500);
}

// Show what the address holds. What was to be written into it belonged to the place that the reader left.
function load() {
  window.clearTimeout(writing);
  if (info.sources && sourcesView.load(window.location.hash)) return;
  if (info.corpus && corpusView.load(window.location.hash)) return;
  const places = fromAddress(window.location.hash);
  if (panes.length > 1 && places.length < 2) closeSecond();
  places.forEach((place, k) => (panes[k] ?? addPane()).go(place));
}

async function start() {
  try {
    info = await api.json("/api/info");
  } catch (error) {
    if (error.status === 0) lost(start);
    else {
      byId("offline").hidden = false;
      byId("offline").textContent = error.message;
    }
    return;
  }
  const name = info.models[0]?.name ?? info.sources.model;
  const kept = [...info.models, info.sources ?? {}].some(({ remote }) => remote) ? "this server sends your texts to the API of the model" : "your texts stay on this server";
  byId("about").textContent = `slalom ${info.version}, ${info.models.length > 1 ? plural(info.models.length, "model") : name}; ${kept}.`;
  if (info.models.length) addPane();
  visits.start((subject) => panes[0].go({ subject }));
  byId("compare").addEventListener("click", sideBySide);
  byId("code-close").addEventListener("click", () => byId("code").close());
  byId("code-copy").addEventListener("click", () => copy(byId("code-text").textContent, "The code is copied."));
  window.addEventListener("popstate", load); // at once: "hashchange" comes later, and an address written in between would win
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  if (info.corpus) corpusView.start(info, { explain: (subject) => panes[0].go({ subject }), texts: changed.now, lost });
  if (info.sources) sourcesView.start(info, { shown: () => info.corpus && corpusView.hide(), hidden: changed.now, lost });
  load();
  changed.now();
  if (!window.location.hash && !corpusView.on && !sourcesView.on) panes[0].boxes[0].focus();
  // For tests.
  window.slalom = Object.freeze({ panes, tally, predict: (counts) => predict(panes[0].viewer.state.text.surrogate, counts) });
}

// A token is for the server only, which has it as a cookie by now: no link and no history shall hold it.
if (window.location.search) window.history.replaceState(null, "", window.location.pathname + window.location.hash);
theme.start((printing) => panes.forEach((pane) => pane.viewer.print(printing)));
start();
