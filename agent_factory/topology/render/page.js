"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;
  const stage = byId("stage");
  const svg = stage.querySelector("svg");
  const parts = [...svg.querySelectorAll("g[id]")];
  const { x, y, width, height } = svg.viewBox.baseVal;
  const whole = { x, y, width, height };
  const MOST = 6, LEAST = 0.05, LEGIBLE = 0.7;

  // The view: the point of the picture in the upper left corner of the stage, and the scale.
  let view = { x: 0, y: 0, k: 1 };
  let initial = view;
  let size = { width: 0, height: 0 };
  const within = (low, value, high) => Math.min(high, Math.max(low, value));

  function show(next) {
    view = next;
    const box = [view.x, view.y, size.width / view.k, size.height / view.k];
    svg.setAttribute("viewBox", box.join(" "));
    byId("scale").textContent = `${Math.round(view.k * 100)} %`;
  }

  function at(k, middle, top) {
    const left = middle - size.width / k / 2;
    show({ k, x: left, y: top });
  }

  function fit() {
    const k = within(LEAST, Math.min(size.width / whole.width, size.height / whole.height), 1.6);
    const spare = size.height / k - whole.height;
    at(k, whole.x + whole.width / 2, whole.y - spare / 2);
    return k;
  }

  // The whole picture if it is legible; else its upper end, as wide as the window.
  function begin() {
    if (fit() < LEGIBLE) {
      const k = within(LEGIBLE, size.width / whole.width, 1);
      at(k, whole.x + whole.width / 2, whole.y);
    }
    initial = view;
  }

  function zoom(factor, px = size.width / 2, py = size.height / 2) {
    const k = within(LEAST, view.k * factor, MOST);
    show({ k, x: view.x + px / view.k - px / k, y: view.y + py / view.k - py / k });
  }

  function move(dx, dy) {
    show({ ...view, x: view.x - dx / view.k, y: view.y - dy / view.k });
  }

  function reveal(part) {
    const box = part.getBoundingClientRect(), home = stage.getBoundingClientRect();
    const outside = box.right < home.left + 20 || box.left > home.right - 20 ||
      box.bottom < home.top + 20 || box.top > home.bottom - 20;
    if (outside) {
      move((home.left + home.right - box.left - box.right) / 2,
        (home.top + home.bottom - box.top - box.bottom) / 2);
    }
  }

  // Details of the part under the pointer, else of the chosen part, else of the whole plan.
  let chosen = "";
  function showDetails(key) {
    for (const article of document.querySelectorAll("article")) {
      article.classList.toggle("on", article.id === `about-${key || "all"}`);
    }
    for (const part of parts) {
      part.classList.toggle("chosen", part.id === key);
      part.classList.toggle("near", key !== "" && part.classList.contains(key));
    }
  }

  function choose(key) {
    chosen = parts.some((part) => part.id === key) ? key : "";
    showDetails(chosen);
    if (chosen) reveal(byId(chosen));
    document.querySelector("aside").scrollTop = 0;
  }

  const keyOf = (link) => link.replace(/^.*#about-/, "");
  const partOf = (event) => event.target.closest("g[id]");
  for (const [over, out] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    stage.addEventListener(over, (event) => showDetails(partOf(event)?.id ?? chosen));
    stage.addEventListener(out, () => showDetails(chosen));
  }
  stage.addEventListener("focusin", (event) => {
    if (event.target.matches("a:focus-visible")) reveal(partOf(event));
  });
  window.addEventListener("hashchange", () => choose(keyOf(location.hash)));

  // Panning and zooming: one finger pans, two also zoom. A press that moved is not a click.
  const held = new Map();
  let moved = 0;
  const middle = () => {
    const all = [...held.values()];
    const mean = (axis) => all.reduce((sum, point) => sum + point[axis], 0) / all.length;
    const [a, b = a] = all;
    return { x: mean("x"), y: mean("y"), gap: Math.hypot(a.x - b.x, a.y - b.y) };
  };
  const place = (event) => {
    const home = stage.getBoundingClientRect();
    return { x: event.clientX - home.left, y: event.clientY - home.top };
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (!held.size) moved = 0;
    held.set(event.pointerId, place(event));
  });
  window.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) return;
    const before = middle();
    held.set(event.pointerId, place(event));
    const after = middle();
    moved += Math.hypot(after.x - before.x, after.y - before.y);
    if (moved < 4 && held.size < 2) return;
    stage.classList.add("held");
    move(after.x - before.x, after.y - before.y);
    if (before.gap && after.gap) zoom(after.gap / before.gap, after.x, after.y);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    window.addEventListener(end, (event) => {
      held.delete(event.pointerId);
      stage.classList.toggle("held", held.size > 0 && moved >= 4);
    });
  }
  stage.addEventListener("dragstart", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const dragged = event.detail > 0 && moved >= 4;
    const link = event.target.closest("a");
    moved = 0;
    if (link) event.preventDefault();
    if (dragged) return;
    if (link) choose(keyOf(link.getAttribute("href")));
    else if (event.target.closest("#stage")) choose("");
  });
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    const point = place(event);
    zoom(Math.exp(-within(-300, event.deltaY * lines, 300) / 500), point.x, point.y);
  }, { passive: false });

  const STEP = 60;
  const keys = {
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), "0": fit, f: fit,
    "/": () => search.focus(), Escape: () => choose(""),
    ArrowLeft: () => move(STEP, 0), ArrowRight: () => move(-STEP, 0),
    ArrowUp: () => move(0, STEP), ArrowDown: () => move(0, -STEP),
  };
  document.addEventListener("keydown", (event) => {
    const scrolls = event.target.closest("aside") && event.key.startsWith("Arrow");
    const busy = event.target === search || scrolls;
    if (busy || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // The search marks every place of a name: nodes, layers, tools, and edges it is a reason for.
  const search = byId("search"), found = byId("found");
  const places = [...svg.querySelectorAll("[data-words]")];
  let hits = [], turn = 0;
  function runSearch() {
    const words = search.value.trim().toLowerCase();
    for (const item of places) {
      const match = words !== "" && item.dataset.words.toLowerCase().includes(words);
      item.classList.toggle("found", match);
    }
    for (const part of parts) {
      const lit = part.matches(".found") || part.querySelector(".found");
      part.classList.toggle("faint", words !== "" && !lit);
    }
    hits = places.filter((item) => item.matches(".found"));
    turn = 0;
    found.textContent = words && `${hits.length} ${hits.length === 1 ? "place" : "places"}`;
  }
  search.addEventListener("input", runSearch);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && hits.length) {
      const hit = hits[turn++ % hits.length];
      choose(hit.closest("g[id]").id);
      reveal(hit);
    }
    if (event.key === "Escape") {
      search.value = "";
      runSearch();
      search.blur();
    }
  });

  const themes = ["", "day", "night"];
  byId("theme").addEventListener("click", (event) => {
    const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    event.currentTarget.textContent =
      { "": "Theme: auto", day: "Theme: light", night: "Theme: dark" }[next];
  });
  byId("closer").addEventListener("click", () => zoom(1.25));
  byId("farther").addEventListener("click", () => zoom(0.8));
  byId("fit").addEventListener("click", fit);

  root.classList.add("live");
  byId("controls").hidden = false;
  new ResizeObserver(() => {
    const first = !size.width, untouched = view === initial;
    const middle = { x: view.x + size.width / view.k / 2, y: view.y + size.height / view.k / 2 };
    size = { width: stage.clientWidth, height: stage.clientHeight };
    if (untouched) begin();
    else show({ ...view, x: middle.x - size.width / view.k / 2,
      y: middle.y - size.height / view.k / 2 });
    if (first) choose(keyOf(location.hash));
  }).observe(stage);
})();
