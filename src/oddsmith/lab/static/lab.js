// The lab: puts the parts of the page together.

import { ask, latest, later } from "./api.js";
import { placeOf } from "./drawing.js";
import { attach } from "./editing.js";
import { make, options, say } from "./elements.js";
import { css, look } from "./looks.js";
import { Pane } from "./pane.js";
import { DecisionPanel, FitPanel, PriorPanel, StoryPanel } from "./panels.js";
import { SHAPES } from "./surfaces.js";
import { apply, canRedo, canUndo, commit, onRestore, points, redo, restore, rounded, state, undo } from "./store.js";
import { TimePanel } from "./time.js";

const $ = (id) => document.getElementById(id);
const panes = [];
let menu = null, csv = null;

/** What panes and panels ask of the page. */
const room = {
  get menu() { return menu; },
  /** Pane A shows the weights of the current step while the time panel is open. */
  override(pane) {
    if (pane.index || state.bench !== "time" || !time.weights) return null;
    return { settings: { model: "logistic:logit", show: state.panes[0].show.filter((s) => s !== "uncertainty" && s !== "samples") }, weights: time.weights };
  },
  decision: (pane) => (pane.index === 0 && state.bench === "decisions" && points.X.length ? decisions.fields() : null),
  marks(pane) {
    const hand = pane.hand ?? {};
    const seen = time.walk && pane.index === 0 && state.bench === "time" ? time.walk.rows[state.time.at - 1] : undefined;
    const train = seen === undefined ? null : trainRow(seen, pane);
    return { cursor: hand.cursor, active: train };
  },
  get panes() { return panes.filter(visible); },
  answered() { if (state.bench === "fit") fit.draw(); $("undo").disabled = !canUndo(); $("redo").disabled = !canRedo(); },
  changed: () => { panes.forEach((pane) => { pane.sync(); pane.refresh(); }); afterChange(); },
  repaint: () => panes[0].refresh({ moving: Boolean(time.timer) }),
  panel: () => showPanel(),
  redraw: () => redraw(),
  dialog(text) { $("dialog-text").textContent = text; $("dialog").showModal(); },
};
const time = new TimePanel(room), decisions = new DecisionPanel(room), prior = new PriorPanel(room), fit = new FitPanel(room), story = new StoryPanel(room);
const PANELS = { fit, time, decisions, prior };
const afterChange = later(220, () => { if (state.bench === "time") { time.fetch(); } else if (state.bench === "decisions") decisions.fetch(); else if (state.bench === "prior") prior.fetch?.(); });

/** Where the row is drawn that a step looked at: steps count the rows of the fit, without those held out. */
function trainRow(n, pane) {
  const test = new Set(pane.answer?.test ?? []), rows = points.X.map((_, i) => i).filter((i) => !test.has(i)), i = rows[n];
  if (i === undefined) return null;
  return placeOf(pane.frame, points.X[i], points.t[i], state.dims, state.K);
}

/** Points have changed: all panes answer. */
function edited(moving) {
  const K = Math.max(2, ...points.t.map((k) => k + 1));
  if (K !== state.K) { state.K = K; }
  panes.forEach((pane) => { pane.settings.weights = null; if (visible(pane)) pane.refresh({ moving }); });
  if (!moving) { syncData(); }
  afterChange();
}

const visible = (pane) => pane.index < state.count;

/** Draw the points of the preset, and the view that shows them. */
const redraw = latest(async ({ keepView = false } = {}) => {
  try {
    const found = await ask("points", state.data);
    Object.assign(points, { X: found.X, t: found.t });
    Object.assign(state, { points: null, dims: found.dims, K: found.classes, names: null, labels: null });
    if (state.cls >= 4) state.cls = 0;
    if (!keepView) fitView();
  } catch (error) { say(error.message); }
  showAll();
});

function fitView() {
  if (!points.X.length) { state.view = [-4, 4, -3, 3]; return; }
  const side = (d) => {
    const low = points.X.reduce((m, row) => Math.min(m, row[d]), Infinity), high = points.X.reduce((m, row) => Math.max(m, row[d]), -Infinity), pad = (high - low || 1) * 0.14;
    return [low - pad, high + pad].map((v) => Number(v.toPrecision(4)));
  };
  state.view = [...side(0), ...(state.dims === 2 ? side(1) : [0, 1])];
}

function showAll() {
  document.documentElement.toggleAttribute("data-large", state.large);
  $("large").setAttribute("aria-pressed", String(state.large));
  if (state.theme === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = state.theme;
  $("theme").textContent = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[state.theme];
  $("panes").dataset.count = state.count;
  panes.forEach((pane) => { pane.element.hidden = !visible(pane); });
  panes.filter((pane) => !visible(pane) && pane.element.isConnected).forEach((pane) => pane.element.remove());
  $("panes").replaceChildren(...panes.filter(visible).map((pane) => pane.element));
  syncData(); syncTools();
  panes.filter(visible).forEach((pane) => { pane.sync(); pane.refresh(); });
  showPanel();
}

function syncData() {
  const d = state.data;
  $("preset").value = d.preset; $("n").value = d.n; $("noise").value = d.noise; $("seed").value = d.seed; $("split").value = state.split;
  $("n-out").textContent = state.points ? points.X.length : d.n; $("noise-out").textContent = d.noise; $("share-out").textContent = `${Math.round(state.split * 100)} %`;
}

function syncTools() {
  const L = look();
  $("classes").querySelectorAll("label").forEach((label, k) => { label.querySelector("svg").setAttribute("fill", css(L.classes[k])); label.querySelector("b").textContent = state.labels?.[k] ?? String(k + 1); });
  for (const [name, value] of [["tool", state.tool], ["count", state.count], ["cls", state.cls]]) {
    const box = document.querySelector(`input[name="${name}"][value="${value}"]`);
    if (box) box.checked = true;
  }
}

function showPanel() {
  time.stop();
  for (const name of Object.keys(PANELS)) {
    const tab = $(`tab-${name}`), on = name === state.bench;
    tab.setAttribute("aria-selected", String(on)); tab.tabIndex = on ? 0 : -1;
  }
  $("panel").setAttribute("aria-labelledby", `tab-${state.bench}`);
  PANELS[state.bench].mount($("panel"));
  story.mount($("story"));
}

function chooseTab(name) {
  state.bench = name;
  showPanel();
  panes[0].refresh();
  commit({ push: true });
}

function buildControls() {
  const SVG = "http://www.w3.org/2000/svg", shapes = ['M1 6.5a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0', "M1.5 1.5h10v10h-10z", "M6.5 1L12.5 12H0.5z", "M6.5 0L13 6.5L6.5 13L0 6.5z"];
  SHAPES.forEach((_, k) => {
    const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
    svg.setAttribute("viewBox", "0 0 13 13"); svg.setAttribute("aria-hidden", "true"); path.setAttribute("d", shapes[k]); path.setAttribute("stroke", "#fff"); path.setAttribute("stroke-width", "0.8"); svg.append(path);
    $("classes").append(make("label", {}, make("input", { type: "radio", name: "cls", value: k, change: () => { state.cls = k; commit(); } }), make("span", {}, svg, make("b", {}, String(k + 1)))));
  });
  options($("preset"), menu.presets);
  const data = (id, read, done = true) => $(id).addEventListener(done ? "change" : "input", (e) => { if (!e.target.checkValidity()) return; state.data[id] = read(e.target.value); panes.forEach((p) => { p.settings.weights = null; }); redraw({ keepView: id === "seed" }).then?.(() => {}); later0(); });
  const later0 = later(300, () => commit({ push: true }));
  data("preset", String); data("n", Number, false); data("noise", Number, false); data("seed", Number);
  $("split").addEventListener("input", (e) => { state.split = Number(e.target.value); syncData(); panes.filter(visible).forEach((p) => p.refresh()); afterChange(); });
  $("split").addEventListener("change", () => commit());
  $("redraw").addEventListener("click", async () => { state.data.seed = (state.data.seed + 1) % 1000000; await redraw({ keepView: true }); later0(); });
  $("clear").addEventListener("click", () => { points.X = []; points.t = []; state.points = true; edited(false); commit({ push: true }); });
  for (const box of document.querySelectorAll('input[name="tool"]')) box.addEventListener("change", () => { state.tool = box.value; commit(); });
  for (const box of document.querySelectorAll('input[name="count"]')) box.addEventListener("change", () => { state.count = Number(box.value); showAll(); commit({ push: true }); });
  for (const name of Object.keys(PANELS)) $(`tab-${name}`).addEventListener("click", () => chooseTab(name));
  document.querySelector(".tabs").addEventListener("keydown", (event) => {
    const names = Object.keys(PANELS), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(state.bench) + step + names.length) % names.length];
    chooseTab(next); $(`tab-${next}`).focus(); event.preventDefault();
  });
  $("undo").addEventListener("click", undo); $("redo").addEventListener("click", redo);
  $("share").addEventListener("click", () => copy(location.href, "The address of this state is copied."));
  $("large").addEventListener("click", () => { state.large = !state.large; showAll(); commit(); });
  $("theme").addEventListener("click", () => { state.theme = { system: "dark", dark: "light", light: "system" }[state.theme]; showAll(); commit(); });
  $("dialog-copy").addEventListener("click", () => copy($("dialog-text").textContent, "The script is copied."));
  $("dialog-close").addEventListener("click", () => $("dialog").close());
}

async function copy(text, done) {
  try { await navigator.clipboard.writeText(text); say(done); } catch { say("The clipboard cannot be written to. Select the text and copy it by hand."); }
}

function buildUpload() {
  $("file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    csv = { text: await file.text() };
    try {
      const { columns } = await ask("columns", csv), numeric = columns.filter((c) => c.numeric).map((c) => c.name);
      const titles = (names) => Object.fromEntries(names.map((name) => [name, name]));
      if (numeric.length < 2) throw new Error("The table has fewer than two numeric columns.");
      const label = columns.find((c) => !c.numeric && c.values >= 2 && c.values <= 4) ?? columns.find((c) => c.values >= 2 && c.values <= 4) ?? columns.at(-1);
      const axes = numeric.filter((name) => name !== label.name);
      options($("csv-x"), titles(numeric), axes[0]); options($("csv-y"), titles(numeric), axes[1] ?? numeric[1]); options($("csv-label"), titles(columns.map((c) => c.name)), label.name);
      $("columns").hidden = false; $("csv-note").textContent = "It stays on this machine.";
      say(`${file.name} has ${columns.length} columns.`);
    } catch (error) { $("columns").hidden = true; $("csv-note").textContent = error.message; }
  });
  $("use-csv").addEventListener("click", async () => {
    try {
      const names = [$("csv-x").value, $("csv-y").value];
      const found = await ask("table", { text: csv.text, x: names[0], y: names[1], label: $("csv-label").value });
      Object.assign(points, { X: found.X.map((row) => row.map(rounded)), t: found.t });
      Object.assign(state, { points: true, dims: 2, K: found.classes.length, names, labels: found.classes });
      panes.forEach((p) => { p.settings.weights = null; });
      fitView(); showAll(); commit({ push: true });
      $("csv-note").textContent = `${found.X.length} points of ${found.classes.length} classes.${found.left_out ? ` ${found.left_out} rows with gaps are left out.` : ""}`;
    } catch (error) { $("csv-note").textContent = error.message; }
  });
}

function globalKeys(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    if (event.target.matches?.('input[type="number"], input[type="text"]')) return;
    event.preventDefault(); (event.shiftKey ? redo : undo)();
  } else if (!event.ctrlKey && !event.metaKey && !event.altKey && /^[1-4]$/.test(event.key) && !event.target.matches?.("input, select, textarea")) {
    state.cls = Number(event.key) - 1; syncTools(); say(`Class ${event.key}`);
  }
}

async function start() {
  menu = await ask("menu");
  buildControls(); buildUpload();
  for (let i = 0; i < 4; i++) {
    const pane = new Pane(i, room);
    attach(pane, edited, () => menu.most_points);
    panes.push(pane);
  }
  onRestore(({ redraw: again }) => (again ? restoreFromPreset() : showAll()));
  window.addEventListener("popstate", restore);
  window.addEventListener("keydown", globalKeys);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
  new ResizeObserver(later(120, () => panes.filter(visible).forEach((p) => p.refresh()))).observe($("panes"));
  if (!location.hash && menu.stories.length) await story.open(0);
  else restore();
}

/** Points of a preset are drawn again; the view is that of the address. */
async function restoreFromPreset() {
  const { view } = state, given = location.hash.length > 1;
  const found = await ask("points", state.data).catch(() => { apply({}); return ask("points", state.data); });
  Object.assign(points, { X: found.X, t: found.t });
  Object.assign(state, { dims: found.dims, K: found.classes });
  if (given) state.view = view; else fitView();
  showAll();
  commit();
}

start().catch((error) => { $("panes").replaceChildren(make("p", { class: "care" }, error.message)); });
