"use strict";
(() => {
  // The address has the filters of the list, so that it can be shared and reloaded.
  const filter = document.getElementById("filter");
  document.getElementById("runs")?.addEventListener("htmx:afterSwap", () => {
    const query = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value));
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
  });
})();
