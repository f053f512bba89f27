// A fitted model to ask: the form, and what the model answers.

import { ask, latest, later } from "./api.js";
import { digits, make, options, say } from "./elements.js";
import { look } from "./looks.js";
import { CanvasSurface } from "./surfaces.js";

const $ = (id) => document.getElementById(id);
let form = null, values = {}, index = null, theme = "system";
const controls = {};

const percent = (p) => (p < 1e-5 ? "< 0.001 %" : p > 1 - 1e-5 ? "> 99.999 %" : `${digits(100 * p, p > 0.999 ? 5 : 3)} %`);

function buildFields() {
  for (const column of form.columns) {
    const set = (value) => { values = { ...values, [column.name]: value }; fetchAnswer(); save(); };
    const spark = make("canvas", { class: "spark", "aria-hidden": "true" });
    let row, show;
    if (column.kind === "level") {
      const select = options(make("select", { change: (e) => set(e.target.value) }), Object.fromEntries(column.levels.map((l) => [l, l])));
      row = make("label", { class: "field" }, make("span", { class: "label" }, column.name), select);
      if (column.levels.length > 12) {
        const search = make("input", { type: "text", placeholder: "search", "aria-label": `Search the levels of ${column.name}`, input: (e) => { const text = e.target.value.toLowerCase(), kept = column.levels.filter((l) => l.toLowerCase().includes(text)); options(select, Object.fromEntries(kept.map((l) => [l, l]))); if (kept.length && !kept.includes(values[column.name])) set(kept[0]); else select.value = values[column.name]; } });
        row.append(search);
      }
      show = (v) => { select.value = v; };
    } else {
      const step = column.whole ? 1 : (column.high - column.low) / 1000;
      const range = make("input", { type: "range", min: column.low, max: column.high, step, "aria-label": column.name, input: (e) => { number.value = Number(Number(e.target.value).toPrecision(6)); set(Number(e.target.value)); } });
      const number = make("input", { type: "number", step: "any", "aria-label": `${column.name}, as a number`, change: (e) => { if (e.target.value !== "" && e.target.checkValidity()) { range.value = e.target.value; set(Number(e.target.value)); } } });
      row = make("div", { class: "field" }, make("span", { class: "label" }, column.name), number, range, spark);
      show = (v) => { range.value = v; if (number !== document.activeElement) number.value = Number(Number(v).toPrecision(6)); };
    }
    controls[column.name] = { row, show, spark, column };
    $("fields").append(row);
  }
}

const fetchAnswer = latest(async () => {
  try {
    draw(await ask("row", { values }));
    $("care").hidden = true;
  } catch (error) { $("care").hidden = false; $("care").textContent = error.message; }
});

/** A bar from zero to either side, with its text. */
function bars(rows, text) {
  const top = Math.max(...rows.map((r) => Math.abs(r.effect)), 1e-9), L = look();
  return make("table", { class: "bars" }, make("tbody", {}, ...rows.map((r) => {
    const canvas = make("canvas", { class: "bar", "aria-hidden": "true" });
    requestAnimationFrame(() => {
      const width = canvas.clientWidth || 160, s = new CanvasSurface(canvas, width, 16, window.devicePixelRatio || 1), half = width / 2, w = (half - 2) * (Math.abs(r.effect) / top);
      s.rect(r.effect < 0 ? half - w : half, 3, w, 10, r.effect < 0 ? L.accent : L.line);
      s.segments([half, 0, half, 16], { color: L.soft, width: 1 });
    });
    return make("tr", {}, make("th", { scope: "row" }, r.column), make("td", { class: "wide" }, canvas), make("td", { class: "number" }, text(r)));
  })));
}

function draw(a) {
  const L = look(), show = (v) => (typeof v === "number" ? digits(v, 4) : String(v));
  $("decision").replaceChildren(make("b", {}, a.decision));
  say(`Decision: ${a.decision}`);
  $("probability").closest("section").hidden = !a.probabilities;
  if (a.probabilities) {
    const interval = "lower" in a.probabilities[0];
    $("probability-title").textContent = interval ? "Probability, with its 90% interval" : "Probability";
    $("probability").replaceChildren(make("table", { class: "bars" }, make("tbody", {}, ...a.probabilities.map((p) => {
      const canvas = make("canvas", { class: "bar", "aria-hidden": "true" });
      requestAnimationFrame(() => {
        const width = canvas.clientWidth || 160, s = new CanvasSurface(canvas, width, 16, window.devicePixelRatio || 1);
        s.rect(0, 3, width, 10, L.grid); s.rect(0, 3, width * p.probability, 10, L.line);
        if (interval) s.segments([width * p.lower, 8, width * p.upper, 8, width * p.lower, 3, width * p.lower, 13, width * p.upper, 3, width * p.upper, 13], { color: L.accent, width: 2 });
      });
      return make("tr", {}, make("th", { scope: "row" }, p.class), make("td", { class: "wide" }, canvas), make("td", { class: "number" }, percent(p.probability), interval ? make("small", {}, ` ${percent(p.lower)} to ${percent(p.upper)}`) : null));
    }))));
  }
  $("why").textContent = `Change in the ${a.scale} of ${a.class} relative to the column's typical value.`;
  const effects = a.contributions.slice().sort((x, y) => Math.abs(y.effect) - Math.abs(x.effect));
  $("contributions").replaceChildren(bars(effects.slice(0, 15), (r) => `${r.effect > 0 ? "+" : ""}${digits(r.effect, 3)}, usual ${show(r.usual)}`), ...(effects.length > 15 ? [make("p", { class: "hint" }, `${effects.length - 15} further columns add less.`)] : []));
  const changes = a.changes.slice().sort((x, y) => size(x) - size(y)).slice(0, 12);
  $("changes").replaceChildren(changes.length ? make("ul", {}, ...changes.map((c) => make("li", {}, make("button", { type: "button", class: "link", click: () => { values = { ...values, [c.column]: c.to }; syncFields(); fetchAnswer(); save(); } }, `${c.column} → ${show(c.to)}`), `${c.by !== undefined ? ` (${c.by > 0 ? "+" : ""}${digits(c.by, 3)})` : ""}: `, make("b", {}, c.decision)))) : make("p", {}, "No single column within its range changes it."));
  $("costs").closest("section").hidden = !form.costs || !a.costs;
  if (a.costs) $("costs").replaceChildren(make("table", {}, make("tbody", {}, ...a.costs.map((c) => make("tr", {}, make("th", { scope: "row" }, c.action), make("td", { class: "number" }, digits(c.cost, 4)))))));
  for (const [name, profile] of Object.entries(a.profiles)) drawSpark(controls[name], profile);
  function size(c) { const column = controls[c.column].column; return c.by === undefined ? 0.5 : Math.abs(c.by) / (column.high - column.low); }
}

/** The answer over the range of a column, below its slider. */
function drawSpark({ spark, column }, profile) {
  if (column.kind === "level") return;
  const width = spark.clientWidth || 200, s = new CanvasSurface(spark, width, 30, window.devicePixelRatio || 1), L = look();
  const p = profile.y.map((v) => 1 / (1 + Math.exp(-v))), x = (v) => ((v - column.low) / (column.high - column.low)) * width;
  s.segments([0, 15, width, 15], { color: L.grid, width: 1 });
  s.line(profile.x.map((v, i) => [x(v), 28 - 26 * p[i]]), { color: L.line, width: 1.6 });
  const at = Math.max(0, Math.min(width, x(values[column.name] ?? column.default)));
  s.segments([at, 0, at, 30], { color: L.accent, width: 1.5 });
}

function syncFields() { for (const [name, control] of Object.entries(controls)) control.show(values[name] ?? control.column.default); }

async function openRow(at, changed = {}) {
  try {
    const found = await ask("data", { index: at });
    index = at;
    const missing = Object.entries(found.values).filter(([, v]) => v === null).map(([name]) => name);
    values = { ...Object.fromEntries(Object.entries(found.values).filter(([, v]) => v !== null)), ...changed };
    const other = Object.entries(found.other).map(([name, v]) => `${name}: ${v}`).slice(0, 8).join(" · ");
    $("other").textContent = other + (missing.length ? ` Missing, so the usual value stands in: ${missing.join(", ")}.` : "");
    $("index").value = at + 1;
    syncFields(); await fetchAnswer(); save();
  } catch (error) { $("care").hidden = false; $("care").textContent = error.message; }
}

const save = later(150, () => history.replaceState(null, "", `#${new URLSearchParams({ values: JSON.stringify(values), ...(index === null ? {} : { row: index }) })}`));

function restore() {
  const given = new URLSearchParams(location.hash.slice(1));
  try { values = JSON.parse(given.get("values") ?? "{}"); } catch { values = {}; }
  values = Object.fromEntries(Object.entries(values).filter(([name]) => name in controls));
  if (given.has("row") && form.rows) return openRow(Math.min(Number(given.get("row")) || 0, form.rows - 1), values);
  if (form.rows && !given.has("values")) return openRow(0);
  syncFields();
  return fetchAnswer();
}

async function start() {
  form = await ask("form");
  $("title").textContent = `${form.title} · ${form.kind} of ${form.classes.length} classes`;
  $("rows").hidden = !form.rows; $("index").max = form.rows; $("ranges").hidden = form.known_ranges;
  buildFields();
  $("back").addEventListener("click", () => openRow(Math.max(0, (index ?? 0) - 1)));
  $("next").addEventListener("click", () => openRow(Math.min(form.rows - 1, (index ?? -1) + 1)));
  $("index").addEventListener("change", (e) => { if (e.target.checkValidity() && e.target.value !== "") openRow(Number(e.target.value) - 1); });
  $("usual").addEventListener("click", () => { values = {}; index = null; $("other").textContent = ""; syncFields(); fetchAnswer(); save(); });
  $("search").addEventListener("input", (e) => { for (const [name, { row }] of Object.entries(controls)) row.hidden = !name.toLowerCase().includes(e.target.value.toLowerCase()); });
  $("share").addEventListener("click", async () => { try { await navigator.clipboard.writeText(location.href); say("The address of this row is copied."); } catch { say("The clipboard cannot be written to."); } });
  $("large").addEventListener("click", () => { const on = document.documentElement.toggleAttribute("data-large"); $("large").setAttribute("aria-pressed", String(on)); fetchAnswer(); });
  $("theme").addEventListener("click", () => { theme = { system: "dark", dark: "light", light: "system" }[theme]; if (theme === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme; fetchAnswer(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => fetchAnswer());
  await restore();
}

start().catch((error) => { $("care").hidden = false; $("care").textContent = error.message; });
