// A pane as a picture: map, lines, points, axes, on a canvas or as SVG.

import { unpack } from "./api.js";
import { contour } from "./contours.js";
import { css, look, strong } from "./looks.js";
import { SHAPES } from "./surfaces.js";

/** Positions in the picture for a view [x0, x1, y0, y1]. */
export class Frame {
  constructor(view, width, height) { Object.assign(this, { view, width, height }); }
  px(x) { return ((x - this.view[0]) / (this.view[1] - this.view[0])) * this.width; }
  py(y) { return this.height - ((y - this.view[2]) / (this.view[3] - this.view[2])) * this.height; }
  x(px) { return this.view[0] + (px / this.width) * (this.view[1] - this.view[0]); }
  y(py) { return this.view[2] + ((this.height - py) / this.height) * (this.view[3] - this.view[2]); }
  /** Segments in grid coordinates, as pixels. */
  segments(s, nx, ny) {
    const out = new Float64Array(s.length);
    for (let i = 0; i < s.length; i += 2) { out[i] = (s[i] / (nx - 1)) * this.width; out[i + 1] = this.height - (s[i + 1] / (ny - 1)) * this.height; }
    return out;
  }
}

/** Unpack the map of an answer, once. */
export function readMap(answer) {
  const map = answer.map, cells = map.grid.reduce((a, b) => a * b, 1), all = unpack(map.scores), K = answer.classes.length;
  const split = (packed, count, size) => { const v = unpack(packed); return Array.from({ length: count }, (_, k) => v.subarray(k * size, (k + 1) * size)); };
  const size = (grid) => grid.reduce((a, b) => a * b, 1);
  return {
    grid: map.grid, probabilistic: map.probabilistic,
    scores: Array.from({ length: K }, (_, k) => all.subarray(k * cells, (k + 1) * cells)),
    actions: map.costs && split(map.costs, unpack(map.costs).length / cells, cells).map((c) => c.map((v) => -v)), // what is cheap scores high
    density: map.density && split(map.density, K, cells),
    uncertainty: map.uncertainty && split(map.uncertainty, K, size(map.uncertainty_grid)), uncertaintyGrid: map.uncertainty_grid,
    samples: map.samples && split(map.samples, map.samples_count, size(map.samples_grid)), samplesGrid: map.samples_grid,
  };
}

function image(nx, ny, color) {
  const canvas = document.createElement("canvas");
  canvas.width = nx; canvas.height = ny;
  const g = canvas.getContext("2d"), data = g.createImageData(nx, ny);
  for (let j = 0; j < ny; j++) for (let i = 0; i < nx; i++) {
    const [r, gr, b, a] = color(j * nx + i), at = ((ny - 1 - j) * nx + i) * 4;
    data.data[at] = r; data.data[at + 1] = gr; data.data[at + 2] = b; data.data[at + 3] = a ?? 255;
  }
  g.putImageData(data, 0, 0);
  return canvas;
}

/** The class of the largest score less the largest other one: zero on its boundary. */
function lead(scores, k) {
  const out = new Float32Array(scores[0].length);
  for (let i = 0; i < out.length; i++) {
    let other = -Infinity;
    for (let j = 0; j < scores.length; j++) if (j !== k && scores[j][i] > other) other = scores[j][i];
    out[i] = scores[k][i] - other;
  }
  return out;
}

function mapColor(map, classes, show) {
  const L = look(), K = classes.length, mixed = [0, 0, 0];
  return (i) => {
    const rule = map.actions ?? map.scores;
    let best = 0;
    for (let k = 1; k < rule.length; k++) if (rule[k][i] > rule[best][i]) best = k;
    mixed.fill(0);
    if (map.actions || !show.has("posterior") || !map.probabilistic) {
      if (best === K) return L.paper;
      L.classes[classes[best]].forEach((v, c) => { mixed[c] = v; });
      return mixed.map((v, c) => L.paper[c] + (v - L.paper[c]) * L.strength * 0.8);
    }
    // The colours of the classes, mixed by their probabilities; pale where none is probable.
    let sure = 0;
    for (let k = 0; k < K; k++) {
      const p = Math.exp(map.scores[k][i]);
      sure = Math.max(sure, p);
      for (let c = 0; c < 3; c++) mixed[c] += p * L.classes[classes[k]][c];
    }
    const s = L.strength * (0.28 + 0.72 * ((sure - 1 / K) / (1 - 1 / K)));
    return mixed.map((v, c) => L.paper[c] + (v - L.paper[c]) * s);
  };
}

function drawMap(surface, frame, map, classes, show) {
  const [nx, ny] = map.grid;
  surface.image(image(nx, ny, mapColor(map, classes, show)), 0, 0, frame.width, frame.height);
  if (map.uncertainty && show.has("uncertainty")) {
    const [ux, uy] = map.uncertaintyGrid, L = look();
    const shade = image(ux, uy, (i) => {
      const d = Math.max(...map.uncertainty.map((u) => Math.abs(u[i])));
      return [...(L.paper[0] > 100 ? [30, 30, 40] : [240, 240, 250]), Math.min(200, 255 * 1.6 * d)];
    });
    surface.image(shade, 0, 0, frame.width, frame.height);
  }
}

function drawLines(surface, frame, map, classes, show) {
  const [nx, ny] = map.grid, L = look(), K = classes.length;
  if (map.density && show.has("density")) {
    map.density.forEach((values, k) => {
      const top = values.reduce((a, b) => Math.max(a, b), -Infinity);
      [0.125, 0.5, 1.125, 2, 3.125, 4.5].forEach((drop) => surface.segments(frame.segments(contour(values, nx, ny, top - drop), nx, ny), { color: strong(classes[k]), width: 1.1, alpha: 0.8 }));
    });
  }
  if (map.samples && show.has("samples")) {
    const [sx, sy] = map.samplesGrid;
    map.samples.forEach((values) => surface.segments(frame.segments(contour(values, sx, sy), sx, sy), { color: L.ink, width: 1, alpha: 0.28 }));
  }
  if (show.has("levels") && map.probabilistic) {
    for (let k = K === 2 ? 1 : 0; k < K; k++) {
      const odds = Float32Array.from(map.scores[k], (s) => s - Math.log(Math.max(1 - Math.exp(s), 1e-26)));
      for (const p of K === 2 ? [0.01, 0.1, 0.25, 0.75, 0.9, 0.99] : [0.75, 0.95]) surface.segments(frame.segments(contour(odds, nx, ny, Math.log(p / (1 - p))), nx, ny), { color: L.soft, width: 1, dash: [4, 4] });
    }
  }
  if (map.actions) {
    for (let k = map.actions.length === 2 ? 1 : 0; k < map.actions.length; k++) surface.segments(frame.segments(contour(lead(map.actions, k), nx, ny), nx, ny), { color: L.ink, width: 2.2 });
  } else if (show.has("boundary")) {
    for (let k = K === 2 ? 1 : 0; k < K; k++) surface.segments(frame.segments(contour(lead(map.scores, k), nx, ny), nx, ny), { color: L.ink, width: 2.2 });
  }
}

/** One dimension: the probabilities as curves over x. */
function drawCurves(surface, frame, map, classes, show) {
  const [nx] = map.grid, L = look(), K = classes.length;
  const place = (v, i) => [(i / (nx - 1)) * frame.width, frame.py(Math.max(-0.2, Math.min(1.2, v)))];
  surface.segments([0, frame.py(0.5), frame.width, frame.py(0.5)], { color: L.grid, width: 1, dash: [4, 4] });
  for (const y of [0, 1]) surface.segments([0, frame.py(y), frame.width, frame.py(y)], { color: L.grid, width: 1 });
  if (map.density && show.has("density")) {
    const top = Math.max(...map.density.map((d) => Math.exp(Math.max(...d))));
    map.density.forEach((d, k) => surface.line(Array.from(d, (v, i) => place((0.9 * Math.exp(v)) / top, i)), { color: strong(classes[k]), width: 1.2, dash: [5, 4] }));
  }
  if (map.samples && show.has("samples")) map.samples.forEach((a) => surface.line(Array.from(a, (v, i) => place(1 / (1 + Math.exp(-v)), i)), { color: L.ink, width: 1, alpha: 0.22 }));
  for (let k = K === 2 ? 1 : 0; k < K; k++) {
    const value = map.probabilistic ? Math.exp : K === 2 ? (s) => 0.5 + s : (s) => s;
    surface.line(Array.from(map.scores[k], (s, i) => place(value(s), i)), { color: strong(classes[k]), width: 2.4 });
  }
  if (show.has("boundary")) {
    for (let k = K === 2 ? 1 : 0; k < K; k++) {
      const f = lead(map.scores, k);
      for (let i = 0; i + 1 < nx; i++) if (f[i] > 0 !== f[i + 1] > 0) {
        const x = ((i + f[i] / (f[i] - f[i + 1])) / (nx - 1)) * frame.width;
        surface.segments([x, 0, x, frame.height], { color: L.ink, width: 1.6 });
      }
    }
  }
}

/** Where a point is drawn: in one dimension its class is its height. */
export const placeOf = (frame, row, k, dims, K) => [frame.px(row[0]), dims === 2 ? frame.py(row[1]) : frame.py(k / Math.max(1, K - 1) + jitter(row[0]))];
/** A little up or down, the same for the same point, so that points of one dimension do not hide each other. */
const jitter = (x) => 0.07 * (Math.abs(Math.sin(x * 9973.1) * 437.58) % 1) - 0.035;

function drawPoints(surface, frame, scene) {
  const { X, t, test, dims, K } = scene, held = new Set(test), L = look();
  const many = X.length > 800, r = many ? (X.length > 4000 ? 1.8 : 2.6) : Math.max(3.6, Math.min(5.4, frame.width / 130));
  for (let k = 0; k < 4; k++) {
    const places = [], hollow = [];
    for (let i = 0; i < X.length; i++) if (t[i] === k) (held.has(i) ? hollow : places).push(placeOf(frame, X[i], k, dims, K));
    const color = css(L.classes[k]);
    // Shapes of two pixels cannot be told apart: dots are ten times as fast.
    if (places.length && X.length > 2000) surface.dots(places, 3, color);
    else if (places.length) surface.markers(places, SHAPES[k], r, { fill: color, stroke: many ? null : L.halo, width: 1.3 });
    if (hollow.length) surface.markers(hollow, SHAPES[k], r - 0.3, { stroke: color, width: 1.7 });
  }
}

export function ticks(low, high, count) {
  const raw = (high - low) / count, unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v < high - step * 0.1; v += step) out.push(Math.abs(v) < step / 1e6 ? 0 : v);
  return out;
}

function drawAxes(surface, frame, scene) {
  const L = look(), label = (v) => String(Number(v.toPrecision(6)));
  for (const v of ticks(frame.view[0], frame.view[1], 6)) if (frame.px(v) > 18 && frame.px(v) < frame.width - 18) {
    surface.segments([frame.px(v), frame.height, frame.px(v), frame.height - 5], { color: L.soft, width: 1 });
    surface.text(frame.px(v), frame.height - 13, label(v), { color: L.soft, align: "center" });
  }
  for (const v of ticks(frame.view[2], frame.view[3], 5)) if (frame.py(v) > 14 && frame.py(v) < frame.height - 22) {
    surface.segments([0, frame.py(v), 5, frame.py(v)], { color: L.soft, width: 1 });
    surface.text(9, frame.py(v), label(v), { color: L.soft });
  }
  if (scene.names) {
    surface.text(frame.width - 8, frame.height - 28, scene.names[0], { color: L.ink, align: "right", size: 12 });
    if (scene.dims === 2) surface.text(9, 12, scene.names[1], { color: L.ink, size: 12 });
  }
}

/** Draw a pane: ``scene`` holds points, answer, what to show, centres, cursor. */
export function drawPane(surface, frame, scene) {
  drawBelow(surface, frame, scene);
  drawAbove(surface, frame, scene);
}

/** What changes only with an answer: the map, its lines, the axes. */
export function drawBelow(surface, frame, scene) {
  const { map, classes, show, dims } = scene, L = look();
  surface.rect(0, 0, frame.width, frame.height, css(L.paper));
  if (map && map.grid.length === dims) {
    if (dims === 2) { drawMap(surface, frame, map, classes, show); drawLines(surface, frame, map, classes, show); }
    else drawCurves(surface, frame, map, classes, show);
  }
  drawAxes(surface, frame, scene);
}

/** What changes under the hand: points, centres, the cursor. */
export function drawAbove(surface, frame, scene) {
  const { dims } = scene, L = look();
  drawPoints(surface, frame, scene);
  for (const [x, y] of scene.centres ?? []) {
    const [a, b] = [frame.px(x), dims === 2 ? frame.py(y) : frame.py(0.5)];
    surface.markers([[a, b]], "circle", 7, { stroke: L.ink, width: 1.4 });
    surface.segments([a - 4, b, a + 4, b, a, b - 4, a, b + 4], { color: L.ink, width: 1.4 });
  }
  if (scene.active !== undefined && scene.active !== null) surface.markers([scene.active], "circle", 10, { stroke: L.accent, width: 2 });
  if (scene.cursor) {
    const [a, b] = scene.cursor;
    surface.segments([a - 11, b, a - 3, b, a + 3, b, a + 11, b, a, b - 11, a, b - 3, a, b + 3, a, b + 11], { color: L.accent, width: 2 });
  }
}
