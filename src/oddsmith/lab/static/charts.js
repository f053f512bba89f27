// Small charts: lines over an axis, with a mark.

import { ticks } from "./drawing.js";
import { digits } from "./elements.js";
import { look } from "./looks.js";
import { CanvasSurface } from "./surfaces.js";

/** Draw series [{points, color, dash, dots}] with axes; ``logX``, ``logY``; ``marks`` are vertical lines [{x, color}]. */
export function chart(canvas, { series, box = null, logX = false, logY = false, marks = [], title = "", diagonal = false, height = 190 }) {
  const width = canvas.clientWidth || 380, L = look();
  canvas.style.height = `${height}px`;
  const surface = new CanvasSurface(canvas, width, height, window.devicePixelRatio || 1);
  surface.rect(0, 0, width, height, `rgb(${L.paper})`);
  const fx = logX ? Math.log10 : (v) => v, fy = logY ? Math.log10 : (v) => v;
  const valid = series.map((s) => ({ ...s, points: s.points.filter(([x, y]) => x !== null && y !== null && Number.isFinite(fx(x)) && Number.isFinite(fy(y))) }));
  const all = valid.flatMap((s) => s.points);
  if (!all.length) { surface.text(width / 2, height / 2, "nothing to draw yet", { color: L.soft, align: "center", size: 12 }); return null; }
  const range = (values) => { const low = Math.min(...values), high = Math.max(...values), pad = (high - low || Math.abs(high) || 1) * 0.06; return [low - pad, high + pad]; };
  const [x0, x1] = box ? box.slice(0, 2) : range(all.map(([x]) => fx(x))), [y0, y1] = box ? box.slice(2) : range(all.map(([, y]) => fy(y)));
  const left = 54, right = 10, top = title ? 22 : 10, bottom = 20;
  const px = (x) => left + ((fx(x) - x0) / (x1 - x0)) * (width - left - right), py = (y) => height - bottom - ((fy(y) - y0) / (y1 - y0)) * (height - top - bottom);
  const back = (v, log) => (log ? 10 ** v : v);
  for (const y of ticks(y0, y1, 5)) {
    const at = height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
    surface.segments([left, at, width - right, at], { color: L.grid, width: 1 });
    surface.text(left - 6, at, logY ? `1e${digits(y, 3)}` : digits(y, 3), { color: L.soft, align: "right", size: 10.5 });
  }
  for (const x of ticks(x0, x1, 5)) surface.text(left + ((x - x0) / (x1 - x0)) * (width - left - right), height - 8, digits(back(x, logX), 2), { color: L.soft, align: "center", size: 10.5 });
  if (title) surface.text(left, 10, title, { color: L.ink, size: 11.5 });
  if (diagonal) surface.segments([px(0), py(0), px(1), py(1)], { color: L.soft, width: 1, dash: [4, 4] });
  for (const mark of marks) if (Number.isFinite(fx(mark.x))) surface.segments([px(mark.x), top, px(mark.x), height - bottom], { color: mark.color ?? L.accent, width: 1.6, dash: mark.dash ?? [] });
  for (const s of valid) {
    const places = s.points.map(([x, y]) => [px(x), py(y)]);
    if (!s.dots || s.line) surface.line(places, { color: s.color ?? L.line, width: 2, dash: s.dash ?? [] });
    if (s.dots) surface.markers(places, "circle", s.dots, { fill: s.color ?? L.line });
    if (s.bars) s.bars.forEach(([x, a, b]) => surface.segments([px(x), py(a), px(x), py(b)], { color: s.color ?? L.line, width: 1.4 }));
  }
  return { px, py };
}
