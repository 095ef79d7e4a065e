"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const tell = (name) => document.body.dispatchEvent(new Event(name));

  // Streams end while nobody looks: a browser has six connections for all windows of a site. The
  // first one has a query, which says what the page shows: later, it may be out of date.
  function follow(address, listeners, query = "") {
    let source, again, pause = 1000;
    const open = () => {
      source = new EventSource(address + query);
      query = "";
      source.addEventListener("open", () => { pause = 1000; });
      // After an answer that is no stream, such as that of a proxy whose server starts again, a
      // browser does not try again by itself.
      source.addEventListener("error", ({ target }) => {
        if (target.readyState !== EventSource.CLOSED || target !== source) return;
        again = setTimeout(open, pause);
        pause = Math.min(2 * pause, 60000);
      });
      for (const [name, listener] of Object.entries(listeners)) {
        source.addEventListener(name, (event) => {
          const detail = JSON.parse(event.data);
          listener(detail);
          document.body.dispatchEvent(new CustomEvent(`run:${name}`, { detail }));
        });
      }
    };
    const close = () => { clearTimeout(again); source.close(); };
    // Once htmx has read the page: it does not hear of a change before.
    document.addEventListener("DOMContentLoaded", () => {
      open();
      document.addEventListener("visibilitychange", () => {
        close();
        if (!document.hidden) { open(); tell("changed"); }
      });
      window.addEventListener("pagehide", close);
    });
  }

  // What waits, in the navigation. The first event comes at once: lists may have changed since the
  // page was made.
  follow(document.body.dataset.changes, {
    changed: ({ waits }) => {
      byId("waiting").hidden = !waits;
      byId("waiting").textContent = waits;
      tell("changed");
    },
  });

  const themes = ["", "day", "night"], names = { "": "auto", day: "light", night: "dark" };
  const button = byId("theme-button");
  const named = () => { byId("theme-name").textContent = names[root.dataset.theme || ""]; };
  button.hidden = false;
  named();
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    try { localStorage.setItem("theme", next); } catch { /* storage is off */ }
    named();
  });

  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  setInterval(() => {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const past = Math.floor(Date.now() / 1000 - time.dataset.ago);
      const [size, unit] = units.find(([size]) => past >= size) || [1, "s"];
      time.textContent = past < 5 ? "just now" : `${Math.floor(past / size)} ${unit} ago`;
    }
  }, 10000);

  // Keys: a part of the page says which one it has.
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("textarea") && event.key === "Enter" && !event.isComposing &&
        (event.ctrlKey || event.metaKey || event.target.rows === 1) && !event.shiftKey) {
      const form = event.target.form;
      if (form?.matches(".write, .decide, .confirm, .fork form")) { event.preventDefault(); form.requestSubmit(); }
      return;
    }
    const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j" || event.key === "k") {
      const rows = [...document.querySelectorAll("main .rows a, .list .rows a")];
      const at = rows.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
      rows[Math.min(Math.max(at, 0), rows.length - 1)]?.focus();
      return;
    }
    // The keys of a review are for the one with the focus.
    const card = event.target.closest?.(".wait");
    const part = [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)]
      .find((part) => [null, card].includes(part.closest(".wait")));
    if (!part) return;
    event.preventDefault();
    if (part.matches("details")) part.open = true;
    const field = part.matches("details")
      ? part.querySelector("input:not([type=hidden]), select, textarea") : part;
    field?.focus();
    field?.select?.();
  });

  // A list that is replaced keeps what was chosen in it, and the row that has the focus. One that is
  // scrolled is replaced once it is back at its top.
  let chosen = new Set(), focused = null, isDecision = false;
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const { target, requestConfig } = event.detail;
    if (target === requestConfig.elt && target.matches(".rows") && target.scrollTop > 0) {
      event.detail.shouldSwap = false;
      target.dataset.stale = "";
      return;
    }
    const boxes = target.querySelectorAll?.("input[name=wait]:checked") || [];
    chosen = new Set([...boxes].map((box) => box.value));
    const active = document.activeElement;
    focused = target.contains?.(active) ? active.getAttribute("href") : null;
    isDecision = target.matches?.(".wait") && target.contains(active);
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    for (const box of event.detail.target.querySelectorAll?.("input[name=wait]") || []) {
      box.checked = chosen.has(box.value) && !box.disabled;
    }
    // After a decision comes the next review, or the one that was decided.
    const decided = isDecision && byId(event.detail.target.id);
    if (decided) (document.querySelector("#waits .wait.open") || decided).focus();
    isDecision = false;
    if (focused === null) return;
    event.detail.target.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  });
  document.addEventListener("scroll", ({ target }) => {
    if (target.scrollTop > 0 || target.dataset?.stale === undefined) return;
    delete target.dataset.stale;
    tell("changed");
  }, true);
  byId("all")?.addEventListener("change", (event) => {
    for (const box of document.querySelectorAll("input[name=wait]:enabled")) {
      box.checked = event.target.checked;
    }
  });

  for (const plan of document.querySelectorAll(".plan[data-now]")) {
    plan.querySelector(`#${CSS.escape(plan.dataset.now || "none")}`)?.classList.add("waits");
  }

  // Its keys work at once.
  document.querySelector(".wait.open")?.focus();

  // The page of a thread.
  const thread = document.querySelector("[data-thread]");
  if (!thread) return;
  const place = thread.dataset.thread, scroll = byId("scroll"), plan = byId("plan");
  const talk = byId("conversation"), log = byId("decisions");
  // On narrow pages, the whole page scrolls.
  const main = byId("main"), isNarrow = () => getComputedStyle(scroll).overflowY === "visible";
  const atEnd = () => Math.abs(isNarrow() ? main.getBoundingClientRect().bottom - innerHeight
    : scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight) < 80;
  const toEnd = () => {
    if (isNarrow()) main.scrollIntoView({ block: "end" }); else scroll.scrollTop = scroll.scrollHeight;
  };
  // The end stays in view while what is around the conversation grows.
  let follows = true;
  document.addEventListener("scroll", () => { follows = atEnd(); }, { capture: true, passive: true });
  const resizes = new ResizeObserver(() => { if (follows) toEnd(); });
  for (const part of [scroll, document.querySelector(".foot")]) resizes.observe(part);
  const keeping = (change) => {
    const follows = atEnd();
    byId("nothing")?.remove();
    change();
    if (follows) toEnd();
  };
  const element = (html) => {
    const made = document.createElement("template");
    made.innerHTML = html;
    return made.content;
  };
  const part = (key) => key && plan?.querySelector(`#${CSS.escape(key)}`);
  const cards = () => [...document.querySelectorAll("#waits .wait.open")];
  // A long review is read from its head.
  const show = (card) => {
    const height = isNarrow() ? innerHeight : scroll.clientHeight;
    card.scrollIntoView({ block: card.offsetHeight > height ? "start" : "nearest" });
  };
  toEnd();
  if (cards()[0]) show(cards()[0]);

  // A review that opens takes the focus, unless somebody is writing: what is typed for a message
  // must not decide.
  let typed = false;
  byId("text").addEventListener("input", () => { typed = true; });
  function focusNew(before) {
    const [card] = cards().filter(({ id }) => !before.includes(id)), text = byId("text");
    const { activeElement } = document;
    if (!card || typed || text.value || ![document.body, text, talk].includes(activeElement)) return;
    card.focus({ preventScroll: true });
    show(card);
  }

  // One after the other: an earlier answer must not replace a later one. A request that a cut
  // connection takes with it is sent again: no other event brings its parts.
  let last = Promise.resolve();
  async function ask(query, pause = 500) {
    try {
      await htmx.ajax("GET", `${place}/parts${query}`, { swap: "none" });
    } catch {
      await new Promise((go) => { setTimeout(go, pause); });
      await ask(query, Math.min(2 * pause, 30000));
    }
  }
  function refresh(query) {
    last = last.then(() => ask(query));
    return last;
  }

  // A review that goes leaves the focus at the conversation, whose keys decide nothing and type nothing.
  let leaves = false;
  const hasFocus = () => byId("waits").contains(document.activeElement);
  const keepFocus = () => { if (leaves && !hasFocus()) talk.focus({ preventScroll: true }); };
  document.body.addEventListener("htmx:oobBeforeSwap", ({ detail: { target } }) => {
    if (target.id === "waits") leaves = hasFocus();
  });
  document.body.addEventListener("htmx:oobAfterSwap", ({ detail: { target } }) => {
    if (target.id === "waits") keepFocus();
  });

  function darken() {
    for (const one of plan?.querySelectorAll(".lit, .now, .waits") || []) {
      one.classList.remove("lit", "now", "waits");
    }
  }

  function light({ node, layer, edges = [], next = [] }) {
    const box = part(node);
    if (layer) {
      for (const frame of box?.querySelectorAll(".layer") || []) {
        if (frame.dataset.words === layer) frame.classList.add("lit");
      }
      return;
    }
    box?.classList.add("lit");
    box?.classList.remove("now");
    for (const key of edges) part(key)?.classList.add("lit");
    for (const key of next) part(key)?.classList.add("now");
  }

  function writing(id) {
    let message = byId(`m-${id}`);
    if (!message) {
      message = document.createElement("article");
      message.id = `m-${id}`;
      message.className = "message ai writing";
      message.innerHTML = "<p class='author'>Agent</p><div class='text plain'></div>";
      talk.append(message);
    }
    return message.matches(".writing") ? message : null;
  }

  follow(`${place}/events`, {
    status: ({ status, forks }) => {
      if (status === "queued" || status === "running") {
        darken();
        log.replaceChildren();
        leaves = hasFocus();
        for (const card of cards()) card.remove();  // decided, or withdrawn
        keepFocus();
        refresh(forks ? "" : "?only=head");
      }
    },
    begun: () => refresh("?only=head"),
    token: ({ id, text, calls }) => keeping(() => {
      const message = writing(id);
      if (!message) return;
      message.querySelector(".text").append(text);
      for (const name of calls) {
        const call = document.createElement("p");
        call.className = "meta";
        call.textContent = `calls ${name} …`;
        message.append(call);
      }
    }),
    message: ({ id, html }) => keeping(() => {
      const known = byId(`m-${id}`);
      if (known && !known.matches(".writing")) return;
      if (known) known.replaceWith(element(html)); else talk.append(element(html));
      if (byId("held").childElementCount) tell("read");
    }),
    result: ({ call, html }) => keeping(() => byId(`r-${call}`)?.replaceChildren(element(html))),
    node: ({ node }) => {
      part(node)?.classList.add("lit");
      part(node)?.classList.remove("now");
    },
    decision: (decision) => {
      light(decision);
      const line = document.createElement("li");
      line.className = decision.outcome.split(" ")[0];
      const cell = (name, text) => {
        const made = document.createElement("span");
        made.className = name;
        made.textContent = text;
        line.append(made);
      };
      const { where, outcome, detail, reason, ms } = decision;
      cell("where", where);
      cell("meta", ms >= 1 ? `${ms} ms` : "");
      const what = outcome === "routed" ? `→ ${detail.replaceAll("__", "")}` : `${outcome} ${detail}`;
      cell("why", reason ? `${what}: ${reason}` : what);
      const end = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
      log.append(line);
      if (end) log.scrollTop = log.scrollHeight;
    },
    resumed: ({ worker }) => {
      const line = document.createElement("li");
      line.textContent = `Worker ${worker} has taken over.`;
      log.append(line);
    },
    settled: ({ status, at, is_shown: isShown }) => {
      for (const box of plan?.querySelectorAll(".now, .waits") || []) box.classList.remove("now", "waits");
      for (const key of status === "waiting" ? at : []) part(key)?.classList.add("waits");
      if (isShown) return;
      const follows = atEnd(), before = cards().map(({ id }) => id);
      refresh("").then(() => {
        if (follows) toEnd();
        focusNew(before);
      });
      tell("settled");
    },
    gone: () => location.assign("/studio"),
  }, `?shown=${encodeURIComponent(thread.dataset.version)}`);
  document.body.addEventListener("written", () => {
    const text = byId("text");
    text.value = "";
    typed = false;
    text.focus();
    toEnd();
  });
})();
