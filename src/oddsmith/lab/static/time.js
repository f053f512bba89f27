// The time panel: a method step by step, its path over the objective, its trace.

import { ask, latest, later, unpack } from "./api.js";
import { chart } from "./charts.js";
import { contour, surfaceLevels } from "./contours.js";
import { Frame } from "./drawing.js";
import { digits, make, options, say, slider } from "./elements.js";
import { look } from "./looks.js";
import { commit, points, state } from "./store.js";
import { CanvasSurface } from "./surfaces.js";

const METHODS = { newton: "Newton, IRLS", gradient: "Gradient descent", sgd: "Stochastic gradient", perceptron: "Perceptron" };
const PLOTS = { log_likelihood: "Log likelihood", objective: "Objective", gap: "Bound on the gap", gradient_norm: "Gradient norm" };
const LOG = ["gap", "gradient_norm"];
const STEP_SIZES = { gradient: 0.02, sgd: 0.1, perceptron: 1 };

export class TimePanel {
  constructor(room) {
    this.room = room; this.walk = null; this.timer = null;
    this.fetch = latest(() => this.load());
    this.soon = later(160, () => this.fetch());
  }

  /** Weights of the current step, C rows. */
  get weights() {
    if (!this.walk || this.key !== this.problemKey()) return null;
    const flat = this.walk.path[Math.min(state.time.at, this.walk.path.length - 1)], [C, M] = this.walk.shape;
    return Array.from({ length: C }, (_, c) => flat.slice(c * M, (c + 1) * M));
  }

  /** What the weights belong to: columns, classes and basis. A path of another problem is not shown. */
  problemKey() { return JSON.stringify([state.dims, [...new Set(points.t)].sort(), state.panes[0].basis]); }

  mount(panel) {
    const T = state.time, change = (set) => (event) => { set(event.target); T.at = 0; this.fetch(); commit(); };
    this.method = options(make("select", { change: change((e) => { T.method = e.value; T.eta = STEP_SIZES[e.value] ?? T.eta; this.room.panel(); }) }), METHODS, T.method);
    this.plot = options(make("select", { "aria-label": "What the trace shows", change: (e) => { T.plot = e.target.value; this.draw(); commit(); } }), PLOTS, T.plot);
    this.axes = [0, 1].map((d) => make("select", { "aria-label": d ? "Weight on the vertical axis" : "Weight on the horizontal axis", change: change(() => { T.axes = this.axes.map((s) => Number(s.value)); }) }));
    const button = (text, title, click) => make("button", { type: "button", title, "aria-label": title, click }, text);
    this.playButton = button("Play", "Play", () => this.play());
    this.steps = make("input", { type: "range", min: 0, max: 1, step: 1, "aria-label": "Step", input: (e) => this.go(Number(e.target.value)), change: () => commit() });
    this.status = make("p", { id: "time-status" });
    this.care = make("div", { class: "care", hidden: true });
    this.surface = make("canvas", { role: "img", "aria-label": "Path of the weights over the contours of the objective" });
    this.surface.addEventListener("click", (event) => this.startAt(event));
    this.trace = make("canvas", { role: "img", "aria-label": "Trace of the method" });
    const eta = T.method === "newton" ? null : slider("Step size η", { low: 1e-4, high: 10, value: T.eta, log: true }, (v, done) => { T.eta = Number(v.toPrecision(3)); this.soon(); if (done) commit(); });
    panel.replaceChildren(
      make("p", { class: "hint" }, "Textbook methods on pane A, with its basis and prior: sums over rows, no scaling, from the start that you choose."),
      make("div", { class: "grid" }, make("label", {}, "Method ", this.method), eta,
        slider("Most steps", { low: 1, high: 2000, value: T.count, log: true, show: Math.round }, (v, done) => { T.count = Math.round(v); this.soon(); if (done) commit(); })),
      make("div", { class: "transport" }, button("First", "First step", () => this.go(0, true)), button("Back", "Step back", () => this.go(T.at - 1, true)), this.playButton,
        button("Step", "Step", () => this.go(T.at + 1, true)), button("Last", "Last step", () => this.go(Infinity, true)),
        slider("Steps a second", { low: 1, high: 60, value: T.speed, log: true, show: Math.round }, (v) => { T.speed = Math.round(v); if (this.timer) { this.stop(); this.play(); } })),
      this.steps, this.status, this.care,
      make("div", { class: "grid" },
        make("figure", {}, this.surface, make("figcaption", {}, "Objective against ", this.axes[0], " and ", this.axes[1], ", other weights as at the optimum. Click to start there. ", button("Start at 0", "Start at zero", () => { T.start = null; T.at = 0; this.fetch(); commit(); }))),
        make("figure", {}, this.trace, make("figcaption", {}, this.plot))));
    this.draw();
    this.fetch();
  }

  async load() {
    const T = state.time, A = state.panes[0], { prior } = A, key = this.problemKey();
    try {
      this.walk = await ask("walk", { X: points.X, t: points.t, split: { share: state.split, seed: 0 }, basis: A.basis, prior, method: T.method, step_size: T.eta, count: T.count, ...(T.start ? { start: T.start } : {}), ...(T.axes ? { axes: T.axes } : {}) });
      this.values = unpack(this.walk.surface.values);
      this.problem = null; this.key = key;
    } catch (error) { this.walk = null; this.problem = error.message; }
    if (state.bench !== "time") return;
    this.draw();
    this.room.repaint();
  }

  /** Show a step; ``done``: by a button, so that it can be undone. */
  go(at, done = false) {
    if (!this.walk) return;
    if (done) this.stop();
    state.time.at = Math.max(0, Math.min(at, this.walk.path.length - 1));
    this.draw();
    this.room.repaint();
    if (done) commit();
  }

  play() {
    if (this.timer) { this.stop(); return; }
    if (!this.walk) return;
    if (state.time.at >= this.walk.path.length - 1) state.time.at = 0;
    this.playButton.textContent = "Pause"; this.playButton.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => {
      if (!this.walk || state.time.at >= this.walk.path.length - 1) { this.stop(); commit(); return; }
      this.go(state.time.at + 1);
    }, 1000 / state.time.speed);
  }

  stop() {
    clearInterval(this.timer); this.timer = null;
    if (this.playButton) { this.playButton.textContent = "Play"; this.playButton.setAttribute("aria-label", "Play"); }
  }

  startAt(event) {
    if (!this.walk) return;
    const box = this.surface.getBoundingClientRect(), f = this.frame, [i, j] = this.walk.surface.axes;
    const start = (state.time.start?.length === this.walk.path[0].length ? state.time.start : this.walk.path[0]).slice();
    start[i] = Number(f.x(event.clientX - box.left).toPrecision(4)); start[j] = Number(f.y(event.clientY - box.top).toPrecision(4));
    state.time.start = start; state.time.at = 0;
    this.fetch(); commit();
  }

  describe() {
    const w = this.walk, at = Math.min(state.time.at, w.path.length - 1), last = w.path.length - 1;
    const W = w.path[at].map((v) => digits(v, 4)).slice(0, 6).join(", ");
    const ends = { converged: `It converges in ${last} steps.`, stopped: `It was stopped after ${last} steps.`, diverged: `It diverges after ${last} steps.`, "no mistakes": `It makes no mistake after ${last} corrections.` };
    return `Step ${at} of ${last}: w = (${W}${w.path[at].length > 6 ? ", …" : ""}). ${ends[w.ending]}`;
  }

  draw() {
    if (!this.steps?.isConnected) return;
    const w = this.walk, T = state.time;
    this.care.hidden = true;
    if (!w) { this.status.textContent = this.problem ?? "…"; return; }
    this.steps.max = w.path.length - 1; this.steps.value = Math.min(T.at, w.path.length - 1);
    this.status.textContent = this.describe();
    const prior = state.panes[0].prior.kind;
    if (w.separation !== "none" && w.separation !== "unknown" && prior === "none" && T.method !== "perceptron") {
      this.care.hidden = false;
      const use = (kind, text) => make("button", { type: "button", click: () => { state.panes[0].prior.kind = kind; T.at = 0; this.room.changed(); commit(); this.fetch(); } }, text);
      this.care.replaceChildren(make("b", {}, `The classes are ${w.separation === "complete" ? "completely" : "quasi-completely"} separated. `), "The likelihood has no maximum: the weights grow without end, and the boundary gets ever sharper. ", use("gaussian", "Gaussian prior"), " ", use("jeffreys", "Firth"));
    }
    const titles = Object.fromEntries(w.path[0].map((_, p) => [p, w.shape[0] > 1 ? `${w.names[p % w.shape[1]]}, class ${Math.floor(p / w.shape[1]) + 1}` : w.names[p]]));
    this.axes.forEach((select, d) => options(select, titles, String(w.surface.axes[d])));
    this.drawSurface();
    this.drawTrace();
  }

  drawSurface() {
    const w = this.walk, L = look(), width = this.surface.clientWidth || 380, height = Math.round(width * 0.75), [i, j] = w.surface.axes;
    this.surface.style.height = `${height}px`;
    const s = new CanvasSurface(this.surface, width, height, window.devicePixelRatio || 1), f = (this.frame = new Frame(w.surface.box, width, height));
    s.rect(0, 0, width, height, `rgb(${L.paper})`);
    const [nx, ny] = w.surface.grid;
    for (const level of surfaceLevels(this.values)) s.segments(f.segments(contour(this.values, nx, ny, level), nx, ny), { color: L.line, width: 1, alpha: 0.45 });
    const at = Math.min(state.time.at, w.path.length - 1), place = (p) => [f.px(p[i]), f.py(p[j])];
    s.line(w.path.map(place), { color: L.soft, width: 1, alpha: 0.5, dash: [3, 3] });
    s.line(w.path.slice(0, at + 1).map(place), { color: L.accent, width: 2 });
    if (w.path.length < 200) s.markers(w.path.slice(0, at + 1).map(place), "circle", 2.4, { fill: L.accent });
    s.markers([place(w.path[0])], "square", 4, { fill: L.ink });
    if (w.optimum) { const [a, b] = place(w.optimum); s.segments([a - 6, b - 6, a + 6, b + 6, a - 6, b + 6, a + 6, b - 6], { color: L.ink, width: 2 }); }
    s.markers([place(w.path[at])], "circle", 5, { fill: L.accent, stroke: L.halo, width: 1.5 });
    const [x0, x1, y0, y1] = w.surface.box;
    s.text(6, height - 10, digits(x0, 3), { color: L.soft }); s.text(width - 6, height - 10, digits(x1, 3), { color: L.soft, align: "right" });
    s.text(6, height - 26, digits(y0, 3), { color: L.soft }); s.text(6, 10, digits(y1, 3), { color: L.soft });
    this.surface.setAttribute("aria-label", `Contours of the objective. ${this.describe()}`);
  }

  drawTrace() {
    const { trace } = this.walk, name = state.time.plot, values = trace[name];
    chart(this.trace, { series: [{ points: trace.step.map((step, i) => [step, values[i]]), dots: trace.step.length < 60 ? 2.5 : 0, line: true }], logY: LOG.includes(name), marks: [{ x: state.time.at }], title: PLOTS[name], height: Math.round((this.trace.clientWidth || 380) * 0.62) });
    const here = values[Math.max(0, trace.step.findLastIndex((s) => s <= state.time.at))];
    this.trace.setAttribute("aria-label", `${PLOTS[name]} over the steps; now ${digits(here)}.`);
  }
}
