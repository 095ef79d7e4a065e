"use strict";
// In the head, before anything is drawn: a page must not flash in the other theme.
(() => {
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "day" || theme === "night") document.documentElement.dataset.theme = theme;
  } catch { /* storage is off */ }
  document.documentElement.classList.add("scripted");
})();
