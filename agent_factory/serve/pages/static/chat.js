"use strict";
// The conversation and what people write: copies, files, branches, what the run does now.
(() => {
  const byId = (id) => document.getElementById(id);
  const talk = byId("conversation");

  // Copies

  async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Without https, browsers have no clipboard for scripts.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.("[data-copy], [data-copy-code]");
    if (button) {
      const part = button.closest(".code-block")?.querySelector("code") ||
        button.closest(".message").querySelector(".text");
      const text = button.dataset.copy || part.textContent;
      const label = button.textContent, focused = document.activeElement;
      copy(text).then(() => {
        focused?.focus?.({ preventScroll: true });
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = label; }, 1500);
      }, () => { button.textContent = "Not copied"; });
      return;
    }
    if (target.matches?.("[data-close]")) {
      const part = target.closest("details");
      part.open = false;
      part.querySelector("summary").focus();
    }
  });

  // Files

  const form = byId("write"), place = form?.querySelector(".attach"), agent = byId("agent");
  const words = byId("text");
  const isRequired = words?.required;
  const types = () => (place.dataset.types ? place.dataset.types.split(",") : []);
  const attached = () => [...place.querySelectorAll(".attached li")];
  const say = (text) => {
    const problem = place.querySelector(".problem");
    problem.textContent = text;
    problem.hidden = !text;
  };
  const amount = (bytes) => `${bytes.toLocaleString("en")} bytes`;

  function read(file) {
    return new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(reader.error);
      reader.readAsDataURL(file);
    });
  }

  async function attach(files) {
    say("");
    for (const file of files) {
      const total = attached().reduce((sum, item) => sum + Number(item.dataset.bytes), file.size);
      const name = file.name || "file";
      if (!types().includes(file.type)) {
        say(`${name}: this agent takes ${types().join(", ")}, got ${file.type || "another type"}.`);
        continue;
      }
      if (total > Number(place.dataset.limit)) {
        say(`${name}: the files have ${amount(total)} together, and ${amount(Number(place.dataset.limit))} is the most.`);
        continue;
      }
      const item = document.createElement("li"), remove = document.createElement("button");
      item.dataset.bytes = file.size;
      place.querySelector(".attached").append(item);
      const address = await read(file);
      for (const [field, value] of [["file", address], ["file_name", name]]) {
        const input = document.createElement("input");
        Object.assign(input, { type: "hidden", name: field, value });
        item.append(input);
      }
      if (file.type.startsWith("image/")) {
        const picture = document.createElement("img");
        Object.assign(picture, { src: address, alt: "" });
        item.append(picture);
      }
      const label = document.createElement("span");
      label.textContent = `${name}, ${amount(file.size)}`;
      Object.assign(remove, { type: "button", className: "quiet", textContent: "Remove" });
      remove.setAttribute("aria-label", `Remove ${name}`);
      remove.addEventListener("click", () => { item.remove(); words.required = isRequired && !attached().length; words.focus(); });
      item.append(label, remove);
      words.required = false;
    }
  }

  function clearFiles() {
    if (!place) return;
    place.querySelector(".attached").replaceChildren();
    words.required = isRequired;
    say("");
  }

  if (place) {
    const choose = byId("files");
    choose.addEventListener("change", () => { attach([...choose.files]); choose.value = ""; });
    words.addEventListener("paste", (event) => {
      const { files } = event.clipboardData;
      if (!files.length || place.hidden) return;
      event.preventDefault();
      attach([...files]);
    });
    const area = document.querySelector("main");
    const hasFiles = (event) => !place.hidden && [...event.dataTransfer.types].includes("Files");
    area.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      form.classList.add("over");
    });
    for (const name of ["dragleave", "drop"]) {
      area.addEventListener(name, () => form.classList.remove("over"));
    }
    area.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      attach([...event.dataTransfer.files]);
    });
    const offer = () => {
      if (!agent) return;
      place.dataset.types = choose.accept = agent.selectedOptions[0]?.dataset.types || "";
      place.hidden = !types().length;
      clearFiles();
    };
    agent?.addEventListener("change", offer);
    offer();
  }
  document.body.addEventListener("written", clearFiles);
  if (!talk) return;

  // What the run does now

  const calling = new Set();
  let now = "";
  const isWorking = () => Boolean(byId("doing")?.closest("[data-working]"));
  function does(text) {
    now = text;
    if (now && isWorking()) byId("doing").textContent = now;
  }
  const on = (name, listener) =>
    document.body.addEventListener(`run:${name}`, ({ detail }) => listener(detail));
  on("status", () => { calling.clear(); now = ""; });
  on("begun", () => does("thinking"));
  on("token", ({ calls }) => does(calls.length ? `calling ${calls.join(", ")}` : "writing"));
  on("message", ({ calls }) => {
    for (const name of calls) calling.add(name);
    does(calling.size ? `calling ${[...calling].join(", ")}` : "thinking");
  });
  on("result", () => { calling.clear(); does("thinking"); });
  on("settled", () => { now = ""; });

  // A conversation that is drawn again keeps the messages that are the same, with what is open in
  // them: nobody who reads or edits loses the place.
  const plain = (part) => {
    const copy = part.cloneNode(true);
    for (const one of copy.querySelectorAll("details")) one.removeAttribute("open");
    for (const one of copy.querySelectorAll("[data-copy], [data-copy-code]")) one.textContent = "";
    return copy.outerHTML;
  };
  let focused = null;
  document.body.addEventListener("htmx:oobBeforeSwap", ({ detail: { target, fragment } }) => {
    if (target !== talk) return;
    focused = talk.contains(document.activeElement) ? document.activeElement : null;
    for (const message of [...fragment.querySelectorAll(".message")]) {
      const shown = byId(message.id);
      if (!shown || !talk.contains(shown)) continue;
      const isUsed = shown.querySelector("details.fork[open]") && message.querySelector("details.fork");
      if (isUsed || plain(shown) === plain(message)) {
        message.replaceWith(shown);
        continue;
      }
      const before = [...shown.querySelectorAll("details:not(.fork)")];
      message.querySelectorAll("details:not(.fork)").forEach((one, index) => {
        one.open = Boolean(before[index]?.open);
      });
    }
    if (isWorking()) fragment.append(...talk.querySelectorAll(".message.writing"));
  });
  document.body.addEventListener("htmx:oobAfterSwap", ({ detail: { target } }) => {
    if (target === talk && focused?.isConnected) focused.focus({ preventScroll: true });
    if (target.id === "activity") does(now);
  });

  // Breakpoints are for the next run, and a part that somebody edits is not drawn again.

  const developer = byId("developer"), stops = byId("stops");
  const boxes = () => [...developer.querySelectorAll("input[type=checkbox]:checked")];
  function sayStops() {
    const places = boxes().map((box) => `${box.name.replace("interrupt_", "")} ${box.value}`);
    stops.textContent = places.length ? `The next run stops ${places.join(", ")}.` : "";
    stops.hidden = !places.length;
  }
  developer?.addEventListener("change", sayStops);
  document.body.addEventListener("written", () => {
    for (const box of boxes()) box.checked = false;
    developer?.querySelector(".note")?.remove();
    sayStops();
  });
  let note = null;  // of the last edit: the refresh after the edit knows nothing of it
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const { target, requestConfig } = event.detail;
    if (target !== developer) return;
    note = requestConfig.verb === "get" ? developer.querySelector(".note") : null;
    if (requestConfig.verb !== "get") return;
    const isEdited = [...developer.querySelectorAll("[data-before]")]
      .some((field) => field.value !== field.dataset.before);
    if (isEdited || boxes().length || developer.contains(document.activeElement)) {
      event.detail.shouldSwap = false;
    }
  });
  document.body.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (detail.target !== developer) return;
    note?.removeAttribute("role");  // a screen reader has read it
    if (note) developer.prepend(note);
    sayStops();
  });

  document.addEventListener("toggle", ({ target }) => {
    if (!target.matches("details.fork[open]")) return;
    target.scrollIntoView({ block: "nearest" });
    const field = target.querySelector("textarea");
    if (!field) return;
    field.focus();
    field.selectionStart = field.value.length;
  }, true);
})();
