"use strict";
(() => {
  // The address has the filters, so that it can be shared and reloaded.
  const filter = document.getElementById("filter");
  filter?.addEventListener("htmx:afterRequest", (event) => {
    if (event.target !== filter) return;
    const query = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value));
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
  });
})();
