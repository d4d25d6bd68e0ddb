// Makes pages live; they also work without it. It reloads elements with data-live when the server sends a tick,
// describes the part of a strip under the pointer, and adds messages as they arrive. It sets text only as text.
"use strict";

(() => {
  const PAUSED = "lacuna.paused";
  const button = document.querySelector("#live");
  const fresh = document.querySelector("main").dataset.refresh === "yes";
  let source = null;
  let isBusy = false;
  let nextAt = 0;

  const isPaused = () => {
    try { return localStorage.getItem(PAUSED) === "yes"; } catch { return false; }
  };

  const setPaused = (paused) => {
    try { localStorage.setItem(PAUSED, paused ? "yes" : "no"); } catch { /* no storage: it holds for this page */ }
  };

  // --- numbers ---

  const isInUse = (part) => {
    const selection = document.getSelection();
    return part.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) ||
      part.querySelector(".strip:hover") !== null;
  };

  const refresh = async () => {
    const began = performance.now();
    if (isBusy || document.hidden || began < nextAt) return;
    isBusy = true;
    try {
      const answer = await fetch(location.href, { headers: { "x-console": "refresh" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const next = page.querySelector(`[data-live="${part.dataset.live}"]`);
        if (next && !isInUse(part) && next.innerHTML !== part.innerHTML) {
          part.replaceChildren(...document.importNode(next, true).childNodes);
        }
      }
    } catch { /* the server is away: the next event tells when it is back */ } finally {
      isBusy = false;
      // Slow pages are reloaded less often, so that a viewer costs the server at most a twentieth of a core.
      nextAt = performance.now() + 20 * (performance.now() - began);
    }
  };

  const stop = () => { if (source) { source.close(); source = null; } };

  const begin = () => {
    stop();
    const paused = isPaused();
    button.hidden = false;
    button.setAttribute("aria-pressed", String(!paused));
    button.textContent = paused ? "Paused" : "Live";
    if (paused || document.hidden) return;
    source = new EventSource("/live");
    source.addEventListener("tick", refresh);
  };

  if (button && fresh) {
    button.addEventListener("click", () => { setPaused(!isPaused()); begin(); });
    document.addEventListener("visibilitychange", () => document.hidden ? stop() : begin());
    begin();
  }

  // --- strips: the part under the pointer, described below ---

  const told = (strip, text) => {
    const readout = strip.querySelector(".readout");
    if (!readout) return;
    if (readout.dataset.first === undefined) readout.dataset.first = readout.textContent;
    readout.textContent = text === null ? readout.dataset.first : text;
  };

  // The listener is on the document, because each reload replaces the strip.
  document.addEventListener("pointerover", (event) => {
    const strip = event.target.closest(".strip");
    if (!strip) return;
    const part = event.target.closest("g");
    const title = part && part.querySelector("title");
    told(strip, title ? title.textContent.trim() : null);
  });

  // --- messages as they arrive ---

  const follow = document.querySelector("#follow");
  if (follow) {
    const MOST = 500;
    const body = document.querySelector("#messages tbody");
    const note = document.querySelector("#follow-note");
    let tail = null;

    const cell = (label, text, isPre) => {
      const made = document.createElement("td");
      made.dataset.label = label;
      if (isPre) {
        made.className = "wide";
        const pre = document.createElement("pre");
        pre.textContent = text;
        made.append(pre);
      } else { made.textContent = text; }
      return made;
    };

    const add = (message) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = message.offset.toLocaleString("en");
      row.append(head, cell("Time (UTC)", message.time, false), cell("Key", message.key, true),
        cell("Value", message.value, true));
      body.prepend(row);
      while (body.rows.length > MOST) body.lastElementChild.remove();
    };

    const end = (text) => {
      if (tail) tail.close();
      tail = null;
      follow.setAttribute("aria-pressed", "false");
      follow.textContent = "Follow";
      note.textContent = text;
    };

    follow.hidden = false;
    follow.addEventListener("click", () => {
      if (tail) { end(""); return; }
      follow.setAttribute("aria-pressed", "true");
      follow.textContent = "Stop following";
      note.textContent = "New messages appear at the top.";
      tail = new EventSource(follow.dataset.url);
      tail.addEventListener("messages", (event) => {
        const data = JSON.parse(event.data);
        for (const message of data.messages) add(message);
        if (data.skipped) note.textContent = `${data.skipped} messages arrived too fast and are not shown.`;
      });
      tail.addEventListener("failed", (event) => end(JSON.parse(event.data)));
    });
  }
})();
