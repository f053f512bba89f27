// Level lines of values on a grid, by marching squares with linear interpolation: exact for linear functions.

/** Return the segments [x1, y1, x2, y2, …] where values (row by row, nx × ny) cross a level, in grid coordinates. */
export function contour(values, nx, ny, level = 0) {
  const out = [];
  for (let j = 0; j < ny - 1; j++) {
    for (let i = 0; i < nx - 1; i++) {
      const at = j * nx + i;
      const a = values[at] - level, b = values[at + 1] - level;
      const c = values[at + nx + 1] - level, d = values[at + nx] - level;
      const code = (a > 0) | ((b > 0) << 1) | ((c > 0) << 2) | ((d > 0) << 3);
      if (code === 0 || code === 15) continue;
      const bottom = () => [i + a / (a - b), j], right = () => [i + 1, j + b / (b - c)];
      const top = () => [i + d / (d - c), j + 1], left = () => [i, j + a / (a - d)];
      for (const [p, q] of EDGES[code === 5 || code === 10 ? (a + b + c + d > 0 ? 15 - code : code) : code]) {
        const [s, t] = [[bottom, right, top, left][p](), [bottom, right, top, left][q]()];
        out.push(s[0], s[1], t[0], t[1]);
      }
    }
  }
  return out;
}

const EDGES = {
  1: [[3, 0]], 2: [[0, 1]], 3: [[3, 1]], 4: [[1, 2]], 5: [[3, 0], [1, 2]], 6: [[0, 2]], 7: [[3, 2]],
  8: [[2, 3]], 9: [[0, 2]], 10: [[0, 1], [2, 3]], 11: [[1, 2]], 12: [[1, 3]], 13: [[0, 1]], 14: [[0, 3]],
};

/** Return levels for the contours of a surface: dense near its lowest value, as squares of equal steps. */
export function surfaceLevels(values, count = 14) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  return Array.from({ length: count }, (_, i) => low + (high - low) * ((i + 0.5) / count) ** 2);
}
