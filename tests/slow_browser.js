// A browser that takes its time: what it reports after the fact (hashchange, resize, answers, timers, ...) comes later by `wait`.
// Events that it reports at once (clicks, keys, popstate) do not.
((wait) => {
  const after = window.setTimeout.bind(window);
  const later = (call) => function delayed(...arguments_) { after(() => call.apply(this, arguments_), wait); };
  const slow = new Set(["hashchange", "resize", "scroll", "selectionchange", "visibilitychange"]);
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function addEventListener(name, call, options) {
    const late = typeof call === "function" && (slow.has(name) || this instanceof MediaQueryList);
    return listen.call(this, name, late ? later(call) : call, options);
  };
  window.setTimeout = (call, time = 0, ...arguments_) => after(call, time + wait, ...arguments_);
  const { ResizeObserver: Observer, fetch } = window;
  window.ResizeObserver = class extends Observer { constructor(call) { super(later(call)); } };
  window.fetch = async (...asked) => {
    const answer = await fetch(...asked);
    await new Promise((go) => { after(go, wait); });
    return answer;
  };
})
