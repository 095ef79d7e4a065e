"use strict";
// The plan at the side: the steps of the run first, and the size. And on a phone, the way to a review.
(() => {
  for (const plan of document.querySelectorAll(".plan")) {
    const svg = plan.querySelector("svg"), width = svg?.width.baseVal.value;
    if (!svg) continue;
    const path = document.createElement("ol");
    path.className = "path";
    path.setAttribute("aria-label", "Steps of the run");
    plan.before(path);

    const show = (node) => {
      const box = node.getBoundingClientRect(), frame = plan.getBoundingClientRect();
      plan.scrollTo({ top: plan.scrollTop + box.top - frame.top - (frame.height - box.height) / 2,
        left: plan.scrollLeft + box.left - frame.left - (frame.width - box.width) / 2 });
    };
    // "before_model ModelCallLimitMiddleware"; of the nodes for the model and for tools, the name.
    const named = (node) => ["note", "name"]
      .filter((kind) => kind === "name" || !node.matches(".model, .tools"))
      .map((kind) => node.querySelector(`.core ~ .${kind}`)?.textContent.trim()).join(" ");
    const items = new Map();
    function trace() {
      const lit = [...svg.querySelectorAll(".node.lit, .node.now, .node.waits")]
        .filter((node) => !node.matches(".terminal"));
      plan.classList.toggle("traced", lit.length > 1);
      for (const [node, item] of items) {
        if (!lit.includes(node)) { item.remove(); items.delete(node); }
      }
      for (const node of lit) {
        if (!items.has(node)) {
          const item = document.createElement("li"), button = document.createElement("button");
          button.type = "button";
          button.textContent = named(node);
          button.addEventListener("click", () => show(node));
          item.append(button);
          path.append(item);
          items.set(node, item);
        }
        items.get(node).className = node.matches(".waits") ? "waits" : "";
      }
      path.append(...path.querySelectorAll(".waits"));
      const place = svg.querySelector(".waits, .now") || lit.at(-1);
      if (place && !plan.matches(":hover, :focus-within")) show(place);
    }
    let planned = 0;
    new MutationObserver(() => {
      cancelAnimationFrame(planned);
      planned = requestAnimationFrame(trace);
    }).observe(svg, { attributes: true, attributeFilter: ["class"], subtree: true });
    trace();

    const zoom = plan.parentElement.querySelector(".zoom");
    zoom?.addEventListener("click", ({ target }) => {
      const way = target.dataset?.zoom;
      if (!way) return;
      const factor = way === "in" ? 1.25 : 0.8;
      plan.classList.toggle("zoomed", way !== "fit");
      svg.style.width = way === "fit" ? "" : `${Math.min(Math.max(svg.clientWidth * factor, 120), width * 4)}px`;
    });
  }

  // A review that is in view needs no bar that leads to it.
  function look() {
    const bar = document.querySelector(".waiting-bar"), card = document.querySelector("#waits .wait.open");
    if (!bar || !card) return;
    const { top, bottom } = card.getBoundingClientRect();
    bar.hidden = top < innerHeight * 0.7 && bottom > 80;
  }
  addEventListener("scroll", look, { passive: true });
  addEventListener("resize", look);
  document.body.addEventListener("htmx:oobAfterSwap", look);
  // A phone opens at the review.
  if (matchMedia("(max-width: 820px)").matches && !location.hash) {
    document.querySelector("#waits .wait.open")?.scrollIntoView({ block: "start" });
  }
  look();
})();
