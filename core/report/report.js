"use strict";
(() => {
  const CHARACTER_PX = 6.4;  // as in the drawing program
  const MAX_ZOOM = 60;
  const NARROWEST_PX = 640;  // as in the style: a small screen shows a part
  document.documentElement.classList.add("js");

  // Writes into each box the longest of its names that fits at the present width.
  function relabel(lanes) {
    const width = lanes.getBoundingClientRect().width;
    if (!width) return;
    for (const box of lanes.querySelectorAll(".e[data-t]")) {
      const rect = box.querySelector("rect");
      const percent = parseFloat(rect.getAttribute("width"));
      const room = percent / 100 * width - 4;
      const name = box.dataset.t.split("|").find(text => text.length * CHARACTER_PX <= room);
      let text = box.querySelector("text");
      if (!name) {
        if (text) text.remove();
        continue;
      }
      if (!text) {
        text = document.createElementNS("http://www.w3.org/2000/svg", "text");
        text.setAttribute("class", "t" + rect.getAttribute("class"));
        text.setAttribute("x", parseFloat(rect.getAttribute("x")) + percent / 2 + "%");
        text.setAttribute("y", Number(rect.getAttribute("y")) + Math.floor(rect.getAttribute("height") / 2) + 4);
        box.appendChild(text);
      }
      if (text.textContent !== name) text.textContent = name;
    }
  }

  // Names of runs of boxes step aside for the boxes' own.
  function showRuns(lanes, zoom) {
    for (const run of lanes.querySelectorAll(".run")) run.style.display = zoom > 1 ? "none" : "";
  }

  // Of figures that are compared: what one shows, all show.
  const peers = new Map();

  function setUp(figure) {
    const frame = figure.querySelector(".tl");
    const scroll = frame.querySelector(".scroll");
    const lanes = frame.querySelector(".lanes");
    const info = figure.querySelector(".info");
    let zoom = 1, pending = 0;

    function later() {
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(() => relabel(lanes));
    }
    function show(next, left) {
      if (next !== zoom) {
        zoom = next;
        lanes.style.width = 100 * zoom + "%";
        lanes.style.minWidth = NARROWEST_PX * zoom + "px";
        frame.classList.toggle("can-drag", zoom > 1);
        showRuns(lanes, zoom);
        later();
      }
      if (Math.abs(scroll.scrollLeft - left) > 1) scroll.scrollLeft = left;
    }
    const page = figure.closest(".compare") || figure;
    if (!peers.has(page)) peers.set(page, []);
    const shows = peers.get(page);
    shows.push(show);
    scroll.addEventListener("scroll", () => {
      for (const other of shows) if (other !== show) other(zoom, scroll.scrollLeft);
    });
    // Keeps the point at `x`, in pixels from the frame's left edge, where it is.
    function zoomTo(next, x) {
      next = Math.min(MAX_ZOOM, Math.max(1, next));
      const left = (scroll.scrollLeft + x) / zoom * next - x;
      for (const one of shows) one(next, left);
    }
    const middle = () => scroll.clientWidth / 2;
    const actions = { in: () => zoomTo(zoom * 1.6, middle()), out: () => zoomTo(zoom / 1.6, middle()),
                      all: () => zoomTo(1, 0) };
    for (const button of figure.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => {
        if (button.dataset.do !== "path") return actions[button.dataset.do]();
        const hidden = figure.classList.toggle("no-crit");
        button.setAttribute("aria-pressed", String(!hidden));
      });
    }
    // Only with Ctrl (or a pinch on a touchpad, which browsers report so): the page must stay scrollable.
    scroll.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomTo(zoom * Math.exp(-event.deltaY * 0.004), event.clientX - scroll.getBoundingClientRect().left);
    }, { passive: false });

    let from = null;
    scroll.addEventListener("mousedown", event => {
      if (event.button === 0) from = { x: event.clientX, left: scroll.scrollLeft };
    });
    window.addEventListener("mousemove", event => {
      if (!from) return;
      frame.classList.add("dragging");
      scroll.scrollLeft = from.left - (event.clientX - from.x);
    });
    window.addEventListener("mouseup", () => {
      from = null;
      frame.classList.remove("dragging");
    });
    scroll.addEventListener("click", event => {
      const box = event.target.closest(".e");
      if (box) info.textContent = box.querySelector("title").textContent;
    });
    const fold = figure.closest("details");
    if (fold) fold.addEventListener("toggle", later);
    window.addEventListener("resize", later);
    later();
  }

  // A fold's inside takes the place of what it is packed in.
  async function unpack(fold) {
    const packed = fold.querySelector(":scope > script");
    if (!packed) return;
    packed.remove();
    const inside = document.createElement("div");
    fold.append(inside);
    try {
      const bytes = Uint8Array.from(atob(packed.textContent), character => character.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      inside.innerHTML = await new Response(stream).text();
    } catch (error) {
      inside.textContent = "This browser cannot unpack it: " + error.message;
    }
    inside.querySelectorAll(".figure").forEach(setUp);
    relabelRows();
  }

  function relabelRows() {
    document.querySelectorAll(".rows svg").forEach(relabel);
  }

  document.querySelectorAll(".figure").forEach(setUp);
  window.addEventListener("resize", relabelRows);
  document.addEventListener("toggle", relabelRows, true);  // of any fold: toggle does not bubble
  relabelRows();
  for (const fold of document.querySelectorAll("details.packed")) {
    fold.addEventListener("toggle", () => unpack(fold));
    if (fold.open) unpack(fold);
  }
})();
