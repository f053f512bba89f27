// Something to draw on, as a canvas or as SVG: images, lines, markers and text, in pixels.

export const SHAPES = ["circle", "square", "triangle", "diamond"];

function markerPath(shape, x, y, r) {
  if (shape === "square") return [[x - r * 0.88, y - r * 0.88], [x + r * 0.88, y - r * 0.88], [x + r * 0.88, y + r * 0.88], [x - r * 0.88, y + r * 0.88]];
  if (shape === "triangle") return [[x, y - r * 1.2], [x + r * 1.1, y + r * 0.8], [x - r * 1.1, y + r * 0.8]];
  return [[x, y - r * 1.25], [x + r * 1.25, y], [x, y + r * 1.25], [x - r * 1.25, y]];
}

export class CanvasSurface {
  constructor(canvas, width, height, ratio) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    this.width = width; this.height = height;
    this.g = canvas.getContext("2d");
    this.g.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.g.lineJoin = this.g.lineCap = "round";
  }
  rect(x, y, w, h, fill) { this.g.fillStyle = fill; this.g.fillRect(x, y, w, h); }
  image(source, x, y, w, h) { this.g.imageSmoothingQuality = "high"; this.g.drawImage(source, x, y, w, h); }
  /** Draw unconnected segments [x1, y1, x2, y2, …]. */
  segments(s, { color, width = 1.5, dash = [], alpha = 1 }) {
    const g = this.g;
    g.save(); g.strokeStyle = color; g.lineWidth = width; g.setLineDash(dash); g.globalAlpha = alpha; g.beginPath();
    for (let i = 0; i < s.length; i += 4) { g.moveTo(s[i], s[i + 1]); g.lineTo(s[i + 2], s[i + 3]); }
    g.stroke(); g.restore();
  }
  line(points, { color, width = 1.5, dash = [], alpha = 1 }) {
    const g = this.g;
    g.save(); g.strokeStyle = color; g.lineWidth = width; g.setLineDash(dash); g.globalAlpha = alpha; g.beginPath();
    points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.stroke(); g.restore();
  }
  /** Draw many markers of one look at once. */
  markers(places, shape, r, { fill, stroke, width = 1.2 }) {
    const g = this.g;
    g.beginPath();
    for (const [x, y] of places) {
      if (shape === "circle") { g.moveTo(x + r, y); g.arc(x, y, r, 0, 2 * Math.PI); continue; }
      markerPath(shape, x, y, r).forEach(([a, b], i) => (i ? g.lineTo(a, b) : g.moveTo(a, b)));
      g.closePath();
    }
    if (fill) { g.fillStyle = fill; g.fill(); }
    if (stroke) { g.strokeStyle = stroke; g.lineWidth = width; g.stroke(); }
  }
  /** Draw many small squares at once. */
  dots(places, size, fill) {
    this.g.fillStyle = fill;
    for (const [x, y] of places) this.g.fillRect(x - size / 2, y - size / 2, size, size);
  }
  text(x, y, words, { color, size = 11, align = "left" }) {
    const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 15; // large text for a projector
    this.g.fillStyle = color; this.g.font = `${size * scale}px ${FONT}`; this.g.textAlign = align; this.g.textBaseline = "middle";
    this.g.fillText(words, x, y);
  }
}

const FONT = '"Inter", "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
const XML = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const clean = (text) => String(text).replace(/[&<>"]/g, (c) => XML[c]);
const short = (v) => Math.round(v * 100) / 100;

export class SvgSurface {
  constructor(width, height) { this.width = width; this.height = height; this.parts = []; }
  rect(x, y, w, h, fill) { this.parts.push(`<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="${fill}"/>`); }
  image(source, x, y, w, h) {
    this.parts.push(`<image x="${x}" y="${y}" width="${w}" height="${h}" preserveAspectRatio="none" href="${source.toDataURL("image/png")}"/>`);
  }
  path(d, { color, width = 1.5, dash = [], alpha = 1 }) {
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(`<path d="${d}" fill="none" stroke="${color}" stroke-width="${width}" stroke-opacity="${alpha}" stroke-linecap="round"${dashes}/>`);
  }
  segments(s, look) {
    let d = "";
    for (let i = 0; i < s.length; i += 4) d += `M${short(s[i])} ${short(s[i + 1])}L${short(s[i + 2])} ${short(s[i + 3])}`;
    if (d) this.path(d, look);
  }
  line(points, look) { this.path(points.map(([x, y], i) => `${i ? "L" : "M"}${short(x)} ${short(y)}`).join(""), look); }
  markers(places, shape, r, { fill, stroke, width = 1.2 }) {
    const look = `fill="${fill || "none"}" stroke="${stroke || "none"}" stroke-width="${width}"`;
    for (const [x, y] of places) {
      if (shape === "circle") this.parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${r}" ${look}/>`);
      else this.parts.push(`<polygon points="${markerPath(shape, x, y, r).map((p) => p.map(short).join(",")).join(" ")}" ${look}/>`);
    }
  }
  dots(places, size, fill) { for (const [x, y] of places) this.rect(short(x - size / 2), short(y - size / 2), size, size, fill); }
  text(x, y, words, { color, size = 11, align = "left" }) {
    const anchor = { left: "start", right: "end", center: "middle" }[align];
    this.parts.push(`<text x="${short(x)}" y="${short(y + size * 0.35)}" fill="${color}" font-size="${size}" text-anchor="${anchor}" font-family="sans-serif">${clean(words)}</text>`);
  }
  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${this.width} ${this.height}" width="${this.width}" height="${this.height}">${this.parts.join("")}</svg>`;
  }
}
