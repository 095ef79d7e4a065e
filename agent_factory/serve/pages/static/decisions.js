"use strict";
// Forms of decisions. What is typed into one of them and not sent is neither dropped nor passed over.
(() => {
  const byId = (id) => document.getElementById(id);
  const changed = (part) => [...part.querySelectorAll("[data-before]")]
    .filter((field) => field.value !== field.dataset.before);
  const cut = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text) || "nothing";
  const change = ({ dataset, value }) => dataset.before || !dataset.label.startsWith("the ")
    ? `${dataset.label} ${cut(dataset.before)} → ${cut(value)}` : `${dataset.label} “${cut(value)}”`;
  const listed = (fields) => fields.map(change).join(", ");

  function preview(form) {
    const place = form?.querySelector(".changes");
    if (place) place.textContent = listed(changed(form)) || "No changes yet.";
  }
  const prepare = () => document.querySelectorAll(".decide.edit").forEach(preview);
  prepare();
  document.body.addEventListener("htmx:afterSettle", prepare);

  document.addEventListener("input", ({ target }) => {
    const card = target.closest(".wait");
    if (!card) return;
    preview(target.form);
    card.querySelector(".unsent").hidden = true;
  });

  // Before htmx sees it.
  document.addEventListener("submit", (event) => {
    const card = event.target.closest(".wait");
    if (!card) return;
    const unsent = changed(card).filter((field) => field.form !== event.target);
    if (!unsent.length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const notice = card.querySelector(".unsent");
    notice.firstElementChild.textContent =
      `Nothing is decided: ${listed(unsent)} was typed and is not sent. Send it, or discard it first.`;
    notice.hidden = false;
  }, true);

  document.addEventListener("click", ({ target }) => {
    const notice = target.closest(".unsent"), card = target.closest(".wait");
    if (!notice || !target.matches("button")) return;
    for (const field of changed(card)) field.value = field.dataset.before;
    card.querySelectorAll(".decide.edit").forEach(preview);
    notice.hidden = true;
    card.focus();
  });

  // A card that is drawn again has the focus where its error is.
  document.body.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (!detail.target.matches?.(".wait")) return;
    const card = byId(detail.target.id);
    (card?.querySelector("[aria-invalid]") || card)?.focus();
  });
  // One that somebody uses is not drawn again, and what was chosen stays chosen.
  document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    const choice = (part) => part.querySelector(".when input")?.name;
    if (choice(target) && choice(target) === choice(fragment)) event.detail.shouldSwap = false;
    if (target.id !== "waits") return;
    for (const card of target.querySelectorAll(".wait.open")) {
      const again = fragment.querySelector(`#${CSS.escape(card.id)}`);
      const isUsed = changed(card).length || card.contains(document.activeElement) ||
        card.querySelector("details[open]");
      if (again && isUsed) event.detail.shouldSwap = false;
    }
  });

  // The list: how many of what are chosen.
  const bulk = document.querySelector(".bulk");
  if (!bulk) return;
  function count() {
    const tools = new Map();
    for (const box of document.querySelectorAll("input[name=wait]:checked")) {
      tools.set(box.dataset.tool, (tools.get(box.dataset.tool) || 0) + 1);
    }
    const parts = [...tools].map(([tool, number]) => `${number} of ${tool}`);
    if (parts.length) parts[0] = parts[0].replace(" of", parts[0].startsWith("1 ") ? " call of" : " calls of");
    // A button with the names of many tools covers the list; the next page has them all.
    const number = [...tools.values()].reduce((sum, count) => sum + count, 0);
    const what = parts.length > 2 ? `${number} calls of ${parts.length} tools` : parts.join(", ");
    for (const button of bulk.querySelectorAll("[data-verb]")) {
      button.textContent = `${button.dataset.verb} ${what || "chosen"} …`;
      button.disabled = !parts.length;
    }
  }
  count();
  document.body.addEventListener("change", count);
  document.body.addEventListener("htmx:afterSwap", count);
})();
