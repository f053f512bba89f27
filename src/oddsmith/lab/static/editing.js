// Points under the hand and under the keys: add, move, brush, erase; centres of radial functions.

import { placeOf } from "./drawing.js";
import { digits, say } from "./elements.js";
import { commit, points, rounded, state } from "./store.js";

const REACH = 11, BRUSH = 22;

/** Let a pane's canvas edit the points; ``changed(moving)`` is called after each change. */
export function attach(pane, changed, most) {
  const canvas = pane.canvas, hand = { point: null, centre: null, last: null, cursor: null, picked: null };
  pane.hand = hand;

  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const rowAt = ([px, py]) => { const f = pane.frame; return (state.dims === 1 ? [f.x(px)] : [f.x(px), f.y(py)]).map(rounded); };
  const distance = (i, [px, py], f) => { const [a, b] = placeOf(f, points.X[i], points.t[i], state.dims, state.K); return Math.hypot(a - px, b - py); };

  function nearest(place, reach = REACH) {
    const f = pane.frame;
    let best = null, least = reach;
    for (let i = 0; i < points.X.length; i++) { const d = distance(i, place, f); if (d < least) { least = d; best = i; } }
    return best;
  }

  function centreAt([px, py]) {
    const places = pane.settings.basis.kind === "radial" ? pane.settings.basis.places ?? [] : [], f = pane.frame;
    return places.findIndex(([x, y]) => Math.hypot(f.px(x) - px, f.py(state.dims === 2 ? y : 0.5) - py) < REACH);
  }

  function set(X, t) { points.X = X; points.t = t; state.points = true; }

  function add(place, scatter = 0) {
    if (points.X.length >= most()) { say(`There are ${points.X.length} points, the maximum.`); return; }
    const shifted = scatter ? [place[0] + scatter * gauss(), place[1] + scatter * gauss()] : place;
    set([...points.X, rowAt(shifted)], [...points.t, state.cls]);
  }

  function erase(place, reach) {
    const f = pane.frame, keep = points.X.map((_, i) => distance(i, place, f) > reach);
    if (keep.every(Boolean)) return false;
    set(points.X.filter((_, i) => keep[i]), points.t.filter((_, i) => keep[i]));
    return true;
  }

  function move(i, place) { set(points.X.map((row, j) => (j === i ? rowAt(place) : row)), points.t); }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    const place = at(event);
    hand.cursor = null; hand.last = place; hand.down = true;
    if (state.tool === "erase") erase(place, BRUSH);
    else if (state.tool === "brush") { for (let i = 0; i < 3; i++) add(place, BRUSH / 2); }
    else {
      const centre = centreAt(place);
      hand.point = null;
      hand.centre = centre >= 0 ? centre : null;
      if (hand.centre === null) {
        hand.point = nearest(place);
        if (hand.point === null) { add(place); hand.point = points.X.length - 1; }
      }
    }
    changed(true);
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!hand.down) return;
    const place = at(event);
    if (state.tool === "erase") { if (!erase(place, BRUSH)) return; }
    else if (state.tool === "brush") {
      if (Math.hypot(place[0] - hand.last[0], place[1] - hand.last[1]) < 14) return;
      for (let i = 0; i < 2; i++) add(place, BRUSH / 2);
    } else if (hand.centre !== null) {
      pane.settings.basis = { ...pane.settings.basis, places: pane.settings.basis.places.map((p, i) => (i === hand.centre ? rowAt(place) : p)) };
    } else if (hand.point !== null) move(hand.point, place);
    hand.last = place;
    changed(true);
  });

  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => {
    if (!hand.down) return;
    hand.down = false; hand.point = hand.centre = null;
    changed(false); commit();
  });

  canvas.addEventListener("blur", () => { hand.cursor = null; hand.picked = null; pane.draw(); });

  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const f = pane.frame;
    hand.cursor ??= [f.width / 2, f.height / 2];
    if (event.key in steps) {
      const size = event.shiftKey ? 48 : 8, [dx, dy] = steps[event.key];
      hand.cursor = [Math.max(0, Math.min(f.width, hand.cursor[0] + dx * size)), Math.max(0, Math.min(f.height, hand.cursor[1] + dy * size))];
      if (hand.picked !== null) { move(hand.picked, hand.cursor); changed(true); }
      say(`${rowAt(hand.cursor).map((v) => digits(v, 3)).join(", ")}`);
    } else if (event.key === "Enter" || event.key === " ") {
      add(hand.cursor); changed(false); commit();
      say(`Added a point of class ${state.cls + 1}; ${points.X.length} points.`);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      const i = hand.picked ?? nearest(hand.cursor, Infinity);
      if (i !== null) { set(points.X.filter((_, j) => j !== i), points.t.filter((_, j) => j !== i)); hand.picked = null; changed(false); commit(); say(`Erased; ${points.X.length} points.`); }
    } else if (event.key === "n" || event.key === "p") {
      if (!points.X.length) return;
      hand.at = ((hand.at ?? (event.key === "n" ? -1 : 0)) + (event.key === "n" ? 1 : -1) + points.X.length) % points.X.length;
      hand.cursor = placeOf(f, points.X[hand.at], points.t[hand.at], state.dims, state.K); hand.picked = null;
      say(`Point ${hand.at + 1} of ${points.X.length}, class ${points.t[hand.at] + 1}, at ${points.X[hand.at].map((v) => digits(v, 3)).join(", ")}.`);
    } else if (event.key === "m") {
      if (hand.picked !== null) { hand.picked = null; commit(); changed(false); say("Put down."); }
      else { hand.picked = nearest(hand.cursor, 30); say(hand.picked === null ? "There is no point near the cursor." : "Picked up: the arrow keys move it, m puts it down."); }
    } else return;
    event.preventDefault();
    pane.draw();
  });
}

const gauss = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
