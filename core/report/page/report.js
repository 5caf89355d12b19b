"use strict";
(() => {
  const CHARACTER_PX = 6.4;  // same as kCharacterPx in timeline_drawing.cc
  const MAX_ZOOM = 60;
  const MARK_PX = 80;  // minimum distance of the time axis's marks
  document.documentElement.classList.add("js");

  // Redraws the marks of the time axis for the current width, which grows with the zoom.
  function drawAxis(lanes) {
    const axis = lanes.querySelector(".axis"), width = lanes.getBoundingClientRect().width;
    if (!axis || !width) return;
    const range = Number(axis.dataset.ms), bottom = Number(axis.dataset.bottom);
    const least = range / Math.max(1, Math.floor(width / MARK_PX)), power = 10 ** Math.floor(Math.log10(least));
    const mark = power * [1, 2, 5, 10].find(factor => factor * power >= least * 0.9999);
    let marks = "";
    for (let i = 0; i * mark <= range * 1.0001; ++i) {
      const x = 100 * i * mark / range;
      const anchor = i === 0 ? "start" : x > 100 - 3000 / width ? "end" : "middle";
      marks += `<line class="grid" x1="${x}%" x2="${x}%" y1="${axis.dataset.top}" y2="${bottom + 4}"/>` +
          `<text class="mut" x="${x}%" y="${bottom + 17}" text-anchor="${anchor}">` +
          `${Number((i * mark).toPrecision(6))} ms</text>`;
    }
    axis.innerHTML = marks;
  }

  // Labels each box with the longest of its names that fits at the current width.
  function relabel(lanes) {
    const width = lanes.getBoundingClientRect().width;
    if (!width) return;
    drawAxis(lanes);
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

  // The figures of each comparison, which zoom and scroll together.
  const peers = new Map();
  const sameLane = (a, b) => a.y === b.y;

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
        frame.classList.toggle("can-drag", zoom > 1);
        showRuns(lanes, zoom);
        drawAxis(lanes);
        later();
      }
      if (Math.abs(scroll.scrollLeft - left) > 1) scroll.scrollLeft = left;
    }
    const page = figure.closest(".compare") || figure;
    if (!peers.has(page)) peers.set(page, { shows: [], zoom: 1, left: 0 });
    const together = peers.get(page), shows = together.shows;
    shows.push(show);
    show(together.zoom, together.left);
    scroll.addEventListener("scroll", () => {
      if (!scroll.clientWidth) return;  // in a closed fold
      together.left = scroll.scrollLeft;
      for (const other of shows) if (other !== show) other(zoom, scroll.scrollLeft);
    });
    // Zooms around the point `x` pixels from the frame's left edge.
    function zoomTo(next, x) {
      next = Math.min(MAX_ZOOM, Math.max(1, next));
      const left = (scroll.scrollLeft + x) / zoom * next - x;
      together.zoom = next;
      together.left = left;
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

    // Keys: + - 0 zoom; arrows go from box to box and say what each is, as tapping does.
    let selected = null;
    function select(box) {
      if (!box) return;
      if (selected) selected.element.classList.remove("sel");
      selected = box;
      box.element.classList.add("sel");
      info.textContent = box.element.querySelector("title").textContent;
      const at = box.x / 100 * lanes.getBoundingClientRect().width;
      if (at < scroll.scrollLeft || at > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = at - middle();
    }
    function neighbour(boxes, key) {
      if (!selected) return boxes[0];
      const step = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
      if (key === "ArrowLeft" || key === "ArrowRight") {
        const lane = boxes.filter(box => sameLane(box, selected)).sort((a, b) => a.x - b.x);
        return lane[lane.findIndex(box => box.element === selected.element) + step];
      }
      const tops = [...new Set(boxes.map(box => box.y))].sort((a, b) => a - b);
      const top = tops[tops.indexOf(selected.y) + step];
      return boxes.filter(box => box.y === top).sort((a, b) => Math.abs(a.x - selected.x) - Math.abs(b.x - selected.x))[0];
    }
    scroll.addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const zooms = { "+": actions.in, "=": actions.in, "-": actions.out, "0": actions.all };
      if (zooms[event.key]) zooms[event.key]();
      else if (event.key.startsWith("Arrow")) {
        const boxes = [...lanes.querySelectorAll(".e[data-k]")].map(element => {
          const rect = element.querySelector("rect");
          return { element, x: parseFloat(rect.getAttribute("x")), y: Number(rect.getAttribute("y")) };
        });
        select(neighbour(boxes, event.key));
      } else return;
      event.preventDefault();
    });

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
  // Paper cannot be unfolded.
  window.addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll(".strategy details, section > details:not(.packed)")) fold.open = true;
  });
  window.addEventListener("resize", relabelRows);
  document.addEventListener("toggle", relabelRows, true);  // captures, because toggle events do not bubble
  relabelRows();
  for (const fold of document.querySelectorAll("details.packed")) {
    fold.addEventListener("toggle", () => unpack(fold));
    if (fold.open) unpack(fold);
  }
})();
