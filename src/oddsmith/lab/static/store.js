// The whole state of the page: in the address, and as a history that can be undone.

const pane = (model, more = {}) => ({ model, basis: { kind: "none" }, prior: { kind: "none", scale: 1 }, show: ["posterior", "boundary"], weights: null, ...more });

export const DEFAULT = {
  data: { preset: "gaussians", n: 120, noise: 1, seed: 0 },
  points: null, // packed points, once they are edited
  dims: 2, K: 2, names: null, labels: null,
  split: 0,
  view: [-4, 4, -3, 3],
  count: 1,
  panes: [pane("logistic:logit"), pane("gaussian:separate"), pane("least_squares"), pane("perceptron")],
  cls: 0, tool: "add",
  bench: "fit", story: 0,
  time: { method: "newton", eta: 0.02, count: 100, start: null, at: 0, speed: 4, axes: null, plot: "log_likelihood" },
  decision: { loss: null, reject: null, prior: null },
  large: false, theme: "system",
};

export const state = structuredClone(DEFAULT);
/** The points, apart from the state since they may be many: rows and codes of classes, never changed in place. */
export const points = { X: [], t: [] };

const past = [], future = [];
let current = null;
const listeners = [];

export const onRestore = (listener) => listeners.push(listener);
export const newPane = pane;

/** Numbers of six digits: they survive 32 bits. */
export const rounded = (v) => Number(v.toPrecision(6));

function pack() {
  const { X, t } = points, D = state.dims, bytes = new DataView(new ArrayBuffer(X.length * (4 * D + 1)));
  X.forEach((row, i) => {
    for (let d = 0; d < D; d++) bytes.setFloat32(i * (4 * D + 1) + 4 * d, row[d], true);
    bytes.setUint8(i * (4 * D + 1) + 4 * D, t[i]);
  });
  let text = "";
  for (const b of new Uint8Array(bytes.buffer)) text += String.fromCharCode(b);
  return btoa(text);
}

function unpackPoints(text, D) {
  const raw = atob(text), bytes = new DataView(Uint8Array.from(raw, (c) => c.charCodeAt(0)).buffer), size = 4 * D + 1;
  const X = [], t = [];
  for (let i = 0; i + size <= bytes.byteLength; i += size) {
    X.push(Array.from({ length: D }, (_, d) => rounded(bytes.getFloat32(i + 4 * d, true))));
    t.push(bytes.getUint8(i + 4 * D));
  }
  return { X, t };
}

/** The part of the state that differs from the default. */
function difference(value, base) {
  if (value === null || typeof value !== "object" || Array.isArray(value) || base === null || typeof base !== "object") return value;
  const out = {};
  for (const [key, v] of Object.entries(value)) if (JSON.stringify(v) !== JSON.stringify(base[key])) out[key] = difference(v, base[key]);
  return out;
}

function merge(base, change) {
  if (change === null || typeof change !== "object" || Array.isArray(change) || base === null || typeof base !== "object" || Array.isArray(base)) return change;
  const out = structuredClone(base);
  for (const [key, v] of Object.entries(change)) if (key in base || base.kind) out[key] = merge(base[key], v);
  return out;
}

const toText = (value) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(value)))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const fromText = (text) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))));

/** Return the address of the state, without what was drawn by a preset and can be drawn again. */
export function address() {
  const { points: packed, ...rest } = difference(state, DEFAULT);
  const parts = Object.keys(rest).length ? [`s=${toText(rest)}`] : [];
  if (state.points) parts.push(`p=${encodeURIComponent(pack())}`);
  return `#${parts.join("&")}`;
}

const snapshot = () => ({ state: structuredClone({ ...state, points: Boolean(state.points) }), X: points.X, t: points.t, address: address() });

/** Note that something was done: it can be undone, and the address holds it; ``push``: the back button, too. */
export function commit({ push = false } = {}) {
  const next = snapshot();
  if (current && next.address === current.address && next.X === current.X) return;
  if (current) { past.push(current); if (past.length > 200) past.shift(); }
  future.length = 0;
  current = next;
  history[push ? "pushState" : "replaceState"](null, "", next.address || "#");
}

export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

export function undo() { step(past, future); }
export function redo() { step(future, past); }

function step(from, to) {
  if (!from.length) return;
  to.push(current);
  current = from.pop();
  assign(current.state);
  points.X = current.X; points.t = current.t;
  history.replaceState(null, "", current.address || "#");
  listeners.forEach((listener) => listener({ redraw: false }));
}

function assign(values) {
  for (const key of Object.keys(DEFAULT)) state[key] = structuredClone(values[key]);
}

/** Take the state from the address; listeners are told whether the points must be drawn again. */
export function restore() {
  const given = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  let found = {};
  try { found = given.has("s") ? fromText(given.get("s")) : {}; } catch { found = {}; }
  apply(found);
  if (given.has("p")) {
    try { Object.assign(points, unpackPoints(given.get("p"), state.dims)); state.points = true; } catch { state.points = null; }
  }
  listeners.forEach((listener) => listener({ redraw: !state.points }));
}

/** Put a state together from the default and what differs from it. */
export function apply(change) {
  const panes = DEFAULT.panes.map((base, i) => {
    const given = change.panes?.[i];
    return given ? { ...structuredClone(base), ...given, prior: { ...base.prior, ...given.prior } } : structuredClone(base);
  });
  assign({ ...merge(DEFAULT, { ...change, panes: undefined }), panes });
  state.points = null;
}
