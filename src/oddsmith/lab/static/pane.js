// A pane: its controls, its question to the server, its picture and its numbers.

import { ask, latest, later } from "./api.js";
import { Frame, drawAbove, drawBelow, drawPane, readMap } from "./drawing.js";
import { digits, download, make, options, say } from "./elements.js";
import { isDark } from "./looks.js";
import { BASES, BASIS_NUMBER, MODELS, PRIORS, isLogistic, modelFields, takesPrior, titleOf } from "./models.js";
import { commit, points, state } from "./store.js";
import { CanvasSurface, SvgSurface } from "./surfaces.js";

const LAYERS = { posterior: "Posterior as colour", boundary: "Boundary", levels: "Level lines", uncertainty: "Uncertainty (predictive minus plug-in)", density: "Class densities", samples: "Posterior samples" };
const FROM_SERVER = ["uncertainty", "density", "samples"];
const COARSE = [46, 34], FINE = [136, 102];

export class Pane {
  /** ``room`` knows what is common to panes: overrides of the weights, decisions, and where points are edited. */
  constructor(index, room) {
    this.index = index; this.room = room; this.answer = null; this.map = null;
    this.ask = latest((grid) => this.fetch(grid));
    this.refine = later(140, () => this.ask(FINE));
    this.build();
  }

  get settings() { return state.panes[this.index]; }
  get letter() { return "ABCD"[this.index]; }

  build() {
    const on = (change) => (event) => { change(event.target); this.sync(); this.refresh(); commit({ push: true }); };
    this.model = options(make("select", { class: "model", "aria-label": `Model of pane ${this.letter}`, change: on((e) => { this.settings.model = e.value; this.settings.weights = null; }) }), MODELS);
    this.basis = options(make("select", { "aria-label": `Basis functions of pane ${this.letter}`, change: on((e) => this.chooseBasis(e.value)) }), BASES);
    this.number = make("input", { type: "number", change: on((e) => { if (e.checkValidity()) this.settings.basis = { ...this.settings.basis, [this.numberField]: Number(e.value) }; this.settings.weights = null; }) });
    this.prior = options(make("select", { "aria-label": `Prior of pane ${this.letter}`, change: on((e) => { this.settings.prior.kind = e.value; this.settings.weights = null; }) }), PRIORS);
    this.scale = make("input", { type: "number", min: 0.001, max: 10000, step: "any", "aria-label": `Scale of the prior of pane ${this.letter}`, change: on((e) => { if (e.checkValidity()) this.settings.prior.scale = Number(e.value); }) });
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-describedby": "keys" });
    this.facts = make("div", { class: "facts" });
    this.care = make("div", { class: "care", hidden: true });
    this.layers = make("div", { class: "layers" });
    for (const [name, title] of Object.entries(LAYERS)) {
      const box = make("input", { type: "checkbox", value: name, change: on((e) => this.toggle(name, e.checked)) });
      this.layers.append(make("label", {}, box, title));
    }
    this.weights = make("div", { class: "weights", tabindex: 0, role: "region", "aria-label": `Weights of pane ${this.letter}` });
    const details = make("details", {}, make("summary", {}, "Weights"), this.weights);
    this.element = make("section", { class: "pane", "aria-label": `Pane ${this.letter}` },
      make("div", { class: "head" }, make("span", { class: "name" }, this.letter), this.model, this.basis, this.number, this.prior, this.scale),
      this.canvas, this.facts, this.care,
      make("div", { class: "foot" }, make("details", {}, make("summary", {}, "Show"), this.layers), details,
        make("button", { type: "button", click: () => this.copyPython() }, "Copy as Python"),
        make("button", { type: "button", click: () => this.savePng() }, "PNG"), make("button", { type: "button", click: () => this.saveSvg() }, "SVG")));
    this.sync();
  }

  chooseBasis(kind) {
    const rule = BASIS_NUMBER[kind];
    this.settings.basis = { kind, ...(rule ? { [rule[0]]: rule[4] } : {}) };
    if (kind === "radial") {
      const [x0, x1, y0, y1] = state.view, at = (a, b, i) => Number((a + ((b - a) * (i + 0.5)) / 3).toPrecision(4));
      this.settings.basis.places = state.dims === 1 ? [0, 1, 2].map((i) => [at(x0, x1, i)]) : [0, 1, 2].flatMap((i) => [0, 1, 2].map((j) => [at(x0, x1, i), at(y0, y1, j)]));
      this.settings.basis.width = Number(((x1 - x0) / 5).toPrecision(2));
    }
    this.settings.weights = null;
  }

  toggle(name, on) { this.settings.show = Object.keys(LAYERS).filter((key) => (key === name ? on : this.settings.show.includes(key))); }

  /** Put the controls as the state has them. */
  sync() {
    const s = this.settings, rule = BASIS_NUMBER[s.basis.kind];
    this.model.value = s.model; this.basis.value = s.basis.kind; this.prior.value = s.prior.kind;
    this.number.hidden = !rule;
    if (rule) {
      [this.numberField] = rule;
      Object.assign(this.number, { min: rule[2], max: rule[3], step: rule[0] === "width" ? "any" : 1, value: s.basis[rule[0]] ?? rule[4], title: rule[1] });
      this.number.setAttribute("aria-label", `${rule[1]} of pane ${this.letter}`);
    }
    this.prior.hidden = !takesPrior(s.model);
    this.scale.hidden = !takesPrior(s.model) || s.prior.kind !== "gaussian";
    this.scale.value = Number(s.prior.scale.toPrecision(4));
    for (const box of this.layers.querySelectorAll("input")) box.checked = s.show.includes(box.value);
    this.canvas.setAttribute("aria-label", `Pane ${this.letter}: ${titleOf(s.model)}, ${points.X.length} points. Arrow keys move a cursor, Enter adds a point.`);
  }

  get size() {
    const width = this.element.clientWidth || 600, most = state.count === 4 ? 0.72 : 0.75;
    return [width, Math.round(Math.min(width * most, state.count === 1 ? 640 : 560))];
  }

  /** The view of the state, widened so that a unit is as long in both directions where that is wanted. */
  get view() {
    const [x0, x1, y0, y1] = state.view, [width, height] = this.size;
    if (state.dims === 1) return [x0, x1, -0.14, 1.14];
    const unit = (x1 - x0) / (y1 - y0), ratio = width / height;
    if (unit > 8 || unit < 1 / 8) return state.view;
    const w = Math.max(x1 - x0, (y1 - y0) * ratio), h = w / ratio, cx = (x0 + x1) / 2, cy = (y0 + y1) / 2;
    return [cx - w / 2, cx + w / 2, cy - h / 2, cy + h / 2];
  }

  get frame() { return new Frame(this.view, ...this.size); }

  question(grid) {
    const forced = this.room.override(this), s = { ...this.settings, ...(forced?.settings ?? {}) };
    const fields = { X: points.X, t: points.t, split: { share: state.split, seed: 0 }, model: modelFields(s), view: this.view, grid: state.dims === 1 ? [240, 2] : grid, layers: s.show.filter((name) => FROM_SERVER.includes(name)) };
    const weights = forced ? forced.weights : s.weights;
    if (weights) fields.weights = weights;
    const decision = this.room.decision(this);
    if (decision) fields.decision = decision;
    return fields;
  }

  /** Draw at once, ask for a coarse map while a hand moves, for a fine one when it rests. */
  refresh({ moving = false } = {}) {
    if (moving) this.drawSoon(); else this.draw();
    if (moving && points.X.length) this.ask(COARSE);
    this.refine();
  }

  async fetch(grid) {
    if (!points.X.length) { this.answer = this.map = null; this.show("Add points of two classes: click, or choose an example."); return; }
    const asked = this.question(grid);
    try {
      this.answer = await ask("pane", asked);
      this.map = readMap(this.answer);
      this.show();
    } catch (error) {
      this.answer = this.map = null;
      this.show(error.message);
      if (asked.weights && this.settings.weights) { this.settings.weights = null; this.refine(); }
    }
  }

  show(problem = null) {
    this.draw();
    const a = this.answer, parts = [];
    if (a) {
      if (a.loss) parts.push([a.loss.name, digits(a.loss.value)]);
      const share = (s) => `${digits((100 * s.right) / s.of, 3)} %`;
      if (a.accuracy.train) parts.push(["right", `${share(a.accuracy.train)} of ${a.accuracy.train.of}`]);
      if (a.accuracy.test) parts.push(["correct on held-out points", `${share(a.accuracy.test)} of ${a.accuracy.test.of}`]);
      const log = (a.accuracy.test ?? a.accuracy.train)?.log_loss;
      if (log !== undefined) parts.push(["log loss", digits(log, 3)]);
      if (state.count < 4 && a.facts.certificate && !this.room.override(this) && !this.settings.weights) parts.push(["gap to the optimum", a.facts.certificate.gap === null ? "none exists" : `≤ ${digits(a.facts.certificate.gap, 2)}`], ["iterations", a.facts.iterations]);
      if (state.count < 4 && a.facts.parameters) parts.push(["parameters", a.facts.parameters]);
    }
    this.facts.replaceChildren(...parts.map(([name, value]) => make("span", {}, `${name} `, make("b", {}, String(value)))));
    const texts = problem ? [problem] : this.room.override(this) ? [] : a?.warnings ?? [], text = texts.join(" ");
    this.care.hidden = !text;
    if (this.care.textContent !== text) { this.care.textContent = text; if (text) say(`Pane ${this.letter}: ${text}`); }
    this.showWeights();
    this.room.answered(this);
  }

  showWeights() {
    const a = this.answer;
    if (!a?.weights) { this.table = null; this.weights.replaceChildren(make("p", { class: "hint" }, "This model has no weights to show: it is not linear, or there are very many.")); return; }
    const key = JSON.stringify([a.names, a.functions, a.editable]);
    if (this.table?.key !== key) this.buildWeights(key);
    const { cells, best, loss, back } = this.table;
    a.weights.forEach((row, i) => row.forEach((v, j) => {
      const cell = cells[i][j];
      if (!a.editable) cell.textContent = digits(v, 6);
      else if (cell !== document.activeElement) cell.value = Number(v.toPrecision(7));
      best[i][j].textContent = digits(a.optimum[i][j], 6);
    }));
    loss.textContent = a.loss ? `${a.loss.name}: ${digits(a.loss.value, 7)}, at the optimum ${digits(a.loss.optimum, 7)}` : "";
    back.hidden = !this.settings.weights;
  }

  buildWeights(key) {
    const a = this.answer, grid = (cell) => a.weights.map((row, i) => row.map((_, j) => cell(i, j)));
    const cells = grid((i, j) => (a.editable ? make("input", { type: "number", step: "any", "aria-label": `${a.names[j]}, function ${i + 1}, pane ${this.letter}`, change: (e) => this.edit(i, j, e.target) }) : make("span")));
    const best = grid(() => make("td", { class: "number" })), loss = make("p"), back = make("button", { type: "button", click: () => { this.settings.weights = null; this.refresh(); commit(); } }, "Back to the optimum");
    const head = make("tr", {}, make("th", { scope: "col" }, "Weight"), ...a.functions.flatMap((f) => [make("th", { scope: "col" }, a.functions.length > 1 ? `class ${f}` : "by hand"), make("th", { scope: "col" }, "optimum")]));
    const rows = a.names.map((name, j) => make("tr", {}, make("th", { scope: "row" }, name), ...a.weights.flatMap((_, i) => [make("td", {}, cells[i][j]), best[i][j]])));
    this.table = { key, cells, best, loss, back };
    this.weights.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)), loss, back);
  }

  edit(i, j, input) {
    const value = Number(input.value);
    if (!input.checkValidity() || input.value === "" || !this.answer) return;
    this.settings.weights = this.answer.weights.map((row, r) => row.map((v, c) => (r === i && c === j ? value : v)));
    this.refresh(); commit();
  }

  scene(extra = {}) {
    const forced = this.room.override(this), s = { ...this.settings, ...(forced?.settings ?? {}) };
    return { ...points, dims: state.dims, K: state.K, names: state.names, test: this.answer?.test ?? [], map: this.map, classes: this.answer?.classes ?? [], show: new Set(s.show), centres: s.basis.kind === "radial" ? s.basis.places : null, ...extra };
  }

  draw() {
    const [width, height] = this.size, { frame } = this, ratio = window.devicePixelRatio || 1, scene = this.scene(this.room.marks(this));
    if (this.canvas.style.height !== `${height}px`) this.canvas.style.height = `${height}px`;
    const surface = new CanvasSurface(this.canvas, width, height, ratio);
    // The map is drawn once for each answer; while a hand moves, only the points are drawn again.
    const key = JSON.stringify([width, height, ratio, isDark(), state.large, state.names, [...scene.show], frame.view, scene.dims]);
    if (this.below?.key !== key || this.below.map !== this.map) {
      const canvas = document.createElement("canvas");
      drawBelow(new CanvasSurface(canvas, width, height, ratio), frame, scene);
      this.below = { key, map: this.map, canvas };
    }
    surface.image(this.below.canvas, 0, 0, width, height);
    drawAbove(surface, frame, scene);
  }

  /** Draw with the next frame of the screen, once however often it is asked for. */
  drawSoon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  async copyPython() {
    try {
      const { X, t, split, model, weights, decision } = this.question(FINE);
      const { script } = await ask("script", { X, t, split, model, ...(weights ? { weights } : {}), ...(decision && this.answer?.map.probabilistic ? { decision } : {}) });
      this.room.dialog(script);
    } catch (error) { say(error.message); this.care.hidden = false; this.care.textContent = error.message; }
  }

  savePng() {
    const canvas = document.createElement("canvas"), [width, height] = this.size;
    drawPane(new CanvasSurface(canvas, width, height, 2), this.frame, this.scene());
    canvas.toBlob((blob) => download(`oddsmith-${this.letter}.png`, blob));
  }

  saveSvg() {
    const surface = new SvgSurface(...this.size);
    drawPane(surface, this.frame, this.scene());
    download(`oddsmith-${this.letter}.svg`, new Blob([surface.toString()], { type: "image/svg+xml" }));
  }
}

export { isLogistic };
