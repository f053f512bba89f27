// The panels of stories, of decisions and of the prior.

import { ask, latest, later } from "./api.js";
import { chart } from "./charts.js";
import { digits, make, options, slider } from "./elements.js";
import { look, strong } from "./looks.js";
import { isLogistic, modelFields, titleOf } from "./models.js";
import { apply, commit, points, state } from "./store.js";

const common = () => ({ X: points.X, t: points.t, split: { share: state.split, seed: 0 } });
const present = () => [...new Set(points.t)].sort();
const nameOf = (k) => state.labels?.[k] ?? `class ${k + 1}`;

export class StoryPanel {
  constructor(room) { this.room = room; }
  get stories() { return this.room.menu.stories; }

  mount(panel) {
    const stories = this.stories, at = Math.min(state.story, stories.length - 1);
    if (at < 0) { panel.replaceChildren(make("p", {}, "There are no stories.")); return; }
    const story = stories[at];
    const titles = Object.fromEntries(stories.map((s, i) => [i, `${s.topic}. ${s.title}`]));
    const choose = options(make("select", { "aria-label": "Story", change: (e) => this.open(Number(e.target.value)) }), titles, String(at));
    panel.replaceChildren(
      make("div", { class: "row" }, make("button", { type: "button", click: () => this.open(at - 1), ...(at === 0 ? { disabled: true } : {}) }, "Back"), choose, make("button", { type: "button", click: () => this.open(at + 1), ...(at === stories.length - 1 ? { disabled: true } : {}) }, "Next")),
      make("p", { class: "story" }, story.text),
      make("button", { type: "button", click: () => this.open(at) }, "From its start"));
  }

  /** Open the state of a story; theme and size of text stay. */
  async open(at) {
    if (!this.stories[at]) return;
    const { theme, large } = state;
    apply({ ...this.stories[at].state, story: at });
    Object.assign(state, { theme, large });
    await this.room.redraw();
    commit({ push: true });
  }
}

/** The models of all panes side by side, in numbers. */
export class FitPanel {
  constructor(room) { this.room = room; }

  mount(panel) {
    this.table = make("div", { class: "weights", tabindex: 0, role: "region", "aria-label": "Numbers of all panes" });
    panel.replaceChildren(make("p", { class: "hint" }, "The library's own fits. Move a point, and every number changes."), this.table);
    this.draw();
  }

  draw() {
    if (!this.table?.isConnected) return;
    const panes = this.room.panes.filter((pane) => pane.answer), share = (s) => (s ? `${digits((100 * s.right) / s.of, 3)} %` : "–");
    const rows = {
      model: (p) => titleOf(p.settings.model),
      "right": (p) => share(p.answer.accuracy.train), "correct on held-out points": (p) => share(p.answer.accuracy.test),
      "log loss": (p) => digits((p.answer.accuracy.train ?? {}).log_loss ?? NaN, 3), "log likelihood": (p) => digits(p.answer.facts.log_likelihood ?? NaN, 5),
      "loss": (p) => (p.answer.loss ? `${digits(p.answer.loss.value, 5)} (${p.answer.loss.name})` : "–"),
      parameters: (p) => String(p.answer.facts.parameters ?? "–"), iterations: (p) => String(p.answer.facts.iterations ?? "–"),
      "bound on the gap": (p) => (p.answer.facts.certificate ? (p.answer.facts.certificate.gap === null ? "no optimum" : digits(p.answer.facts.certificate.gap, 2)) : "–"),
      "gradient norm": (p) => (p.answer.facts.certificate ? digits(p.answer.facts.certificate.gradient_norm, 2) : "–"),
    };
    const head = make("tr", {}, make("td", {}), ...panes.map((p) => make("th", { scope: "col" }, p.letter)));
    const cells = Object.entries(rows).map(([name, value]) => [name, panes.map((p) => value(p).replace("NaN", "–"))]).filter(([, row]) => row.some((text) => text !== "–"));
    const body = cells.map(([name, row]) => make("tr", {}, make("th", { scope: "row" }, name), ...row.map((text) => make("td", {}, text))));
    this.table.replaceChildren(make("table", { class: "fits" }, make("thead", {}, head), make("tbody", {}, ...body)));
  }
}

export class DecisionPanel {
  constructor(room) {
    this.room = room; this.found = null;
    this.fetch = latest(() => this.load());
    this.soon = later(160, () => this.fetch());
  }

  /** The field "decision" of a request, for the classes that are there. */
  fields() {
    const D = state.decision, K = present().length;
    const out = { loss: D.loss?.length === K ? D.loss : Array.from({ length: K }, (_, i) => Array.from({ length: K }, (_, j) => Number(i !== j))) };
    if (D.reject !== null) out.reject = D.reject;
    if (D.prior?.length === K) out.class_prior = D.prior;
    return out;
  }

  mount(panel) {
    const D = state.decision, classes = present(), K = classes.length, { loss } = this.fields();
    const set = (done) => { this.soon(); this.room.repaint(); if (done) commit(); };
    const cost = (i, j) => make("input", { type: "number", min: 0, max: 1000, step: 0.5, value: loss[i][j], "aria-label": `Cost of deciding for ${nameOf(classes[j])} if it is ${nameOf(classes[i])}`, change: (e) => { if (!e.target.checkValidity() || e.target.value === "") return; D.loss = loss.map((row, r) => row.map((v, c) => (r === i && c === j ? Number(e.target.value) : v))); set(true); this.room.panel(); } });
    const table = make("table", { class: "costs" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "If it is"), ...classes.map((k) => make("th", { scope: "col" }, `say ${nameOf(k)}`)))),
      make("tbody", {}, ...classes.map((k, i) => make("tr", {}, make("th", { scope: "row" }, nameOf(k)), ...classes.map((_, j) => make("td", {}, cost(i, j)))))));
    const threshold = K === 2 ? slider("Threshold for the second class", { low: 0.01, high: 0.99, step: 0.01, value: this.threshold(loss), show: (v) => Number(v.toFixed(2)) }, (v, done) => { D.loss = [[0, Number(v.toFixed(3))], [Number((1 - v).toFixed(3)), 0]]; set(done); if (done) this.room.panel(); }) : null;
    const reject = make("label", { class: "check" }, make("input", { type: "checkbox", ...(D.reject !== null ? { checked: true } : {}), change: (e) => { D.reject = e.target.checked ? 0.2 : null; set(true); this.room.panel(); } }), "Allow rejecting");
    const rejectCost = D.reject !== null ? slider("Cost of rejecting", { low: 0, high: 1, step: 0.01, value: D.reject }, (v, done) => { D.reject = v; set(done); }) : null;
    const prior = K === 2 ? slider("Share of the second class in use", { low: 0.01, high: 0.99, step: 0.01, value: D.prior?.[1] ?? points.t.filter((k) => k === classes[1]).length / points.t.length, show: (v) => Number(v.toFixed(2)) }, (v, done) => { D.prior = [Number((1 - v).toFixed(3)), Number(v.toFixed(3))]; set(done); }) : null;
    this.out = make("div", {}); this.roc = make("canvas", { role: "img", "aria-label": "ROC curve" }); this.calibration = make("canvas", { role: "img", "aria-label": "Calibration" });
    panel.replaceChildren(
      make("p", { class: "hint" }, "Decisions of pane A under a loss: its regions now show the action of smallest expected loss."),
      make("div", { class: "grid" }, make("div", { class: "weights", tabindex: 0, role: "region", "aria-label": "Loss matrix" }, table), threshold, make("div", {}, reject, rejectCost), prior),
      make("div", { class: "row" }, make("button", { type: "button", click: () => { state.decision = { loss: null, reject: null, prior: null }; this.room.panel(); this.room.repaint(); commit(); } }, "Errors cost 1, prior of the points")),
      this.out, make("div", { class: "grid" }, make("figure", {}, this.roc, make("figcaption", {}, "True against false positives; the dot is the current threshold.")), make("figure", {}, this.calibration, make("figcaption", {}, "Observed frequency against predicted probability, with 95% intervals."))));
    this.fetch();
  }

  threshold(loss) { const gain = loss[1][0] - loss[1][1], risk = loss[0][1] - loss[0][0]; return gain + risk > 0 ? risk / (gain + risk) : 0.5; }

  async load() {
    try { this.found = await ask("decisions", { ...common(), model: modelFields(state.panes[0]), decision: this.fields() }); this.problem = null; } catch (error) { this.found = null; this.problem = error.message; }
    if (this.out?.isConnected) this.draw();
  }

  draw() {
    const d = this.found;
    if (!d) { this.out.replaceChildren(make("div", { class: "care" }, this.problem)); return; }
    const counts = make("table", { id: "confusion" }, make("caption", { class: "visually-hidden" }, "Confusion matrix"), make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "It is"), ...d.classes.map((k) => make("th", { scope: "col" }, `said ${nameOf(k)}`)), make("th", { scope: "col" }, "rejected"))),
      make("tbody", {}, ...d.confusion.map((row, i) => make("tr", {}, make("th", { scope: "row" }, nameOf(d.classes[i])), ...row.map((v) => make("td", { class: "number" }, String(v)))))));
    const parts = [`On ${d.rows} points ${d.on === "test" ? "held out" : "of the fit"}: mean cost `, make("b", {}, digits(d.cost, 3)), `, the model expects ${digits(d.expected, 3)}.`];
    if (d.threshold !== null && state.decision.reject === null) parts.push(` The second class is chosen above a probability of ${digits(d.threshold, 3)}.`);
    this.out.replaceChildren(make("p", {}, ...parts), make("div", { class: "weights", tabindex: 0, role: "region", "aria-label": "Confusion matrix" }, counts));
    const { roc, calibration } = d.curves, L = look();
    this.roc.parentElement.hidden = !roc; this.calibration.parentElement.hidden = !calibration;
    if (roc) {
      chart(this.roc, { series: [{ points: roc.x.map((x, i) => [x, roc.y[i]]) }, { points: [roc.here], dots: 5, color: L.accent }], box: [0, 1, 0, 1.04], diagonal: true, title: `ROC, area ${digits(roc.area, 3)}` });
      this.roc.setAttribute("aria-label", `ROC curve of area ${digits(roc.area, 3)}`);
    }
    if (calibration) {
      const series = [...new Set(calibration.class)].map((k) => {
        const at = calibration.class.map((c, i) => (c === k ? i : -1)).filter((i) => i >= 0);
        return { points: at.map((i) => [calibration.probability[i], calibration.frequency[i]]), dots: 4, color: strong(k), bars: at.map((i) => [calibration.probability[i], calibration.lower[i], calibration.upper[i]]) };
      });
      chart(this.calibration, { series, box: [0, 1, 0, 1.04], diagonal: true, title: `Calibration, error ${digits(calibration.error, 2)}` });
      this.calibration.setAttribute("aria-label", `Calibration: mean error ${digits(calibration.error, 2)}`);
    }
  }
}

export class PriorPanel {
  constructor(room) { this.room = room; this.found = null; this.fetch = latest(() => this.load()); }

  mount(panel) {
    const A = state.panes[0];
    if (!isLogistic(A.model)) {
      panel.replaceChildren(make("p", {}, `Pane A shows ${titleOf(A.model)}, whose weights have no prior here.`), make("button", { type: "button", class: "primary", click: () => { A.model = "logistic:logit"; A.prior.kind = "gaussian"; this.room.changed(); this.room.panel(); commit(); } }, "Show logistic regression"));
      return;
    }
    const set = (v, done) => { A.prior = { kind: "gaussian", scale: Number(v.toPrecision(4)) }; A.weights = null; this.room.changed(); this.draw(); if (done) commit(); };
    const show = (name, title) => make("label", { class: "check" }, make("input", { type: "checkbox", ...(A.show.includes(name) ? { checked: true } : {}), change: (e) => { A.show = e.target.checked ? [...A.show, name] : A.show.filter((s) => s !== name); this.room.changed(); commit(); } }), title);
    this.charts = ["log_evidence", "loo", "cv"].map(() => make("canvas", { role: "img" }));
    this.chosen = make("div", { class: "row" });
    this.note = make("p", { id: "prior-note" });
    panel.replaceChildren(
      make("p", { class: "hint" }, "The Gaussian prior of pane A: a small scale σ shrinks the weights to zero, a large one lets the points determine them."),
      slider("Scale σ of the prior", { low: 0.03, high: 100, value: A.prior.scale, log: true }, set), make("div", { class: "row" }, show("samples", "Posterior samples as lines"), show("uncertainty", "Predictive minus plug-in")),
      this.note, this.chosen, ...this.charts.map((c) => make("figure", {}, c)));
    this.fetch();
  }

  async load() {
    try { this.found = await ask("widths", { ...common(), model: modelFields(state.panes[0]) }); this.problem = null; } catch (error) { this.found = null; this.problem = error.message; }
    if (this.note?.isConnected) this.draw();
  }

  draw() {
    if (!this.found) { this.note.textContent = this.problem ?? ""; return; }
    const { curve, chosen } = this.found, A = state.panes[0], L = look();
    const names = { evidence: "evidence", loo: "leave-one-out", cv: "cross-validation" };
    this.note.textContent = `Scale ${A.prior.kind === "gaussian" ? digits(A.prior.scale, 3) : "∞ (no prior)"}. The criteria choose:`;
    this.chosen.replaceChildren(...Object.entries(chosen).map(([how, width]) => make("button", { type: "button", click: () => { A.prior = { kind: "gaussian", scale: Number(width.toPrecision(4)) }; this.room.changed(); this.room.panel(); commit(); } }, `${names[how]}: ${digits(width, 3)}`)));
    const titles = { log_evidence: "Log evidence (high is good)", loo: "Leave-one-out log loss (low is good)", cv: "Cross-validation log loss (low is good)" };
    Object.entries(titles).forEach(([name, title], i) => {
      const marks = A.prior.kind === "gaussian" ? [{ x: A.prior.scale }] : [];
      marks.push({ x: chosen[Object.keys(names)[i]], color: L.soft, dash: [4, 4] });
      chart(this.charts[i], { series: [{ points: curve.width.map((w, j) => [w, curve[name][j]]) }], logX: true, marks, title, height: 130 });
      this.charts[i].setAttribute("aria-label", `${title} over the scale of the prior; best at ${digits(chosen[Object.keys(names)[i]], 3)}.`);
    });
  }
}
