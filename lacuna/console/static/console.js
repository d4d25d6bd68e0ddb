// Makes pages live; they also work without it. It reloads elements with data-live when the server sends a tick,
// describes the part of a strip under the pointer, and adds messages as they arrive. Markup comes from the
// server's own pages alone.
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

  // --- messages: as they arrive, and as a search finds them ---

  const messages = document.querySelector("#messages tbody");

  const rowsOf = (text) => {
    // The server has escaped all values, and the page's policy runs no script.
    const page = new DOMParser().parseFromString(`<table><tbody>${text}</tbody></table>`, "text/html");
    return [...document.importNode(page.querySelector("tbody"), true).children];
  };

  const follow = document.querySelector("#follow");
  if (follow) {
    const MOST = 500;
    const note = document.querySelector("#follow-note");
    const rate = document.querySelector("#rate");
    let tail = null;

    const end = (text) => {
      if (tail) tail.close();
      tail = null;
      follow.setAttribute("aria-pressed", "false");
      follow.textContent = "Follow";
      note.textContent = text;
    };

    const start = () => {
      follow.setAttribute("aria-pressed", "true");
      follow.textContent = "Stop following";
      note.textContent = "New messages appear at the top.";
      tail = new EventSource(`${follow.dataset.url}&rate=${rate.querySelector("select").value}`);
      tail.addEventListener("messages", (event) => {
        const data = JSON.parse(event.data);
        messages.prepend(...rowsOf(data.rows).reverse());
        while (messages.rows.length > MOST) messages.lastElementChild.remove();
        if (data.skipped) note.textContent = `${data.skipped} messages arrived too fast and are not shown.`;
      });
      tail.addEventListener("failed", (event) => end(JSON.parse(event.data)));
    };

    follow.hidden = rate.hidden = false;
    follow.addEventListener("click", () => tail ? end("") : start());
    rate.addEventListener("change", () => { if (tail) { end(""); start(); } });
  }

  const search = document.querySelector("#search");
  if (search) {
    // The stream ends when the visitor leaves the page, and the server then stops searching.
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", "Messages examined");
    const said = document.createElement("span");
    said.setAttribute("role", "status");
    const stop = document.createElement("button");
    stop.type = "button";
    stop.textContent = "Stop";
    const more = search.querySelector("a");
    search.replaceChildren(bar, " ", said, " ", stop);
    const found = new EventSource(search.dataset.url);
    const end = (text, hasMore) => {
      found.close();
      bar.remove();
      stop.remove();
      said.textContent = text || said.textContent;
      if (hasMore) search.append(" ", more);
    };
    found.addEventListener("found", (event) => {
      const data = JSON.parse(event.data);
      messages.append(...rowsOf(data.rows));
      bar.value = data.share;
      said.textContent = `${data.examined.toLocaleString("en")} more messages examined, ${messages.rows.length} found.`;
      const next = new URL(more.href);
      next.searchParams.set("after", data.after);
      more.href = next.href;
    });
    found.addEventListener("done", (event) => end("", JSON.parse(event.data)));
    found.addEventListener("failed", (event) => end(JSON.parse(event.data), true));
    stop.addEventListener("click", () => end("", true));
  }
})();
