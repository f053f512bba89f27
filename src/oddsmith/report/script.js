"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  const button = document.getElementById("theme");
  const dress = (name) => {
    if (name === "system") delete root.dataset.theme;
    else root.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    button.dataset.now = name;
  };
  let kept = "system";
  // A page opened from a disk or a mail may not remember anything.
  try { kept = localStorage.getItem("oddsmith-theme") || kept; } catch {}
  dress(themes.includes(kept) ? kept : "system");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.now) + 1) % themes.length];
    dress(next);
    try { localStorage.setItem("oddsmith-theme", next); } catch {}
  });

  const words = new Intl.Collator(undefined, { numeric: true });
  const sort = (header) => {
    const place = [...header.parentNode.children].indexOf(header);
    const body = header.closest("table").tBodies[0];
    const up = header.getAttribute("aria-sort") !== "ascending";
    const numbers = header.classList.contains("n");
    const key = (row) => {
      const cell = row.cells[place];
      return numbers ? parseFloat(cell.dataset.v) : cell.textContent;
    };
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (!numbers) return up ? words.compare(a, b) : words.compare(b, a);
      if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b); // what has no value comes last, either way
      return a === b ? 0 : (a < b) === up ? -1 : 1;
    });
    for (const other of header.parentNode.children) {
      if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    }
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows.map(([, row]) => row));
  };
  for (const header of document.querySelectorAll("th[aria-sort]")) {
    header.querySelector("button").addEventListener("click", () => sort(header));
  }

  // The part of the page that is being read is marked in the contents: the last one whose title has passed the upper third.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const parts = [...document.querySelectorAll("main > section")];
  const mark = () => {
    const passed = parts.filter((part) => part.getBoundingClientRect().top < innerHeight / 3);
    const last = root.scrollHeight - innerHeight - scrollY < 2;
    const now = last && scrollY > 0 ? parts.at(-1) : passed.at(-1) || parts[0];
    for (const [id, link] of links) {
      if (id === now.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };

  // A table that is wider than the screen says so until its end has been seen.
  const tables = [...document.querySelectorAll(".scroll")];
  const hint = (box) => box.classList.toggle("more", box.scrollWidth - box.clientWidth - box.scrollLeft > 8);
  const fit = () => { mark(); tables.forEach(hint); };
  tables.forEach((box) => box.addEventListener("scroll", () => hint(box), { passive: true }));
  document.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", fit));
  addEventListener("scroll", mark, { passive: true });
  addEventListener("resize", fit);
  fit();

  for (const plot of document.querySelectorAll(".plot")) {
    const values = JSON.parse(plot.dataset.values);
    const svg = plot.querySelector("svg");
    const ring = svg.querySelector(".ring");
    const readout = plot.parentNode.querySelector(".readout");
    if (!values.length) continue;
    let now = -1;
    const show = (i) => {
      now = i;
      const [x, y, text] = i < 0 ? [-20, -20, "\u00a0"] : values[i];
      ring.setAttribute("cx", x);
      ring.setAttribute("cy", y);
      readout.textContent = text;
    };
    const point = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      let best = 0;
      let least = Infinity;
      values.forEach(([x, y], i) => {
        const away = (x - at.x) ** 2 + (y - at.y) ** 2;
        if (away < least) [least, best] = [away, i];
      });
      show(best);
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") show(-1); });
    plot.addEventListener("focus", () => { if (now < 0 && plot.matches(":focus-visible")) show(0); });
    plot.addEventListener("blur", () => show(-1));
    plot.addEventListener("keydown", (event) => {
      const last = values.length - 1;
      const to = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(Math.max(0, Math.min(last, to)));
    });
  }
})();
