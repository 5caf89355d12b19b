"use strict";
(() => {
  const CHARACTER_PX = 6.4;  // same as kCharacterPx in timeline_drawing.cc
  const MAX_ZOOM = 60;
  const MIN_WIDTH_PX = 640;  // same as in report.css; a small screen shows only a part
  document.documentElement.classList.add("js");

  // Labels each box with the longest of its names that fits at the current width.
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

  // Hides the names of runs of boxes when zoomed in, because the boxes then show their own.
  function showRuns(lanes, zoom) {
    for (const run of lanes.querySelectorAll(".run")) run.style.display = zoom > 1 ? "none" : "";
  }

  // The figures of each comparison page, which zoom and scroll together.
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
        lanes.style.minWidth = MIN_WIDTH_PX * zoom + "px";
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
    // Zooms around the point `x` pixels from the frame's left edge.
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
    // Zooms only with Ctrl (browsers report a pinch on a touchpad as Ctrl), so that the page stays scrollable.
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

  // Replaces a fold's packed script by its unpacked content.
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
      inside.textContent = "This browser cannot unpack this part: " + error.message;
    }
    inside.querySelectorAll(".figure").forEach(setUp);
    relabelRows();
  }

  function relabelRows() {
    document.querySelectorAll(".rows svg").forEach(relabel);
  }

  document.querySelectorAll(".figure").forEach(setUp);
  window.addEventListener("resize", relabelRows);
  document.addEventListener("toggle", relabelRows, true);  // captures, because toggle events do not bubble
  relabelRows();
  for (const fold of document.querySelectorAll("details.packed")) {
    fold.addEventListener("toggle", () => unpack(fold));
    if (fold.open) unpack(fold);
  }
})();
