// Colours of the canvas, which cannot read those of the page's style.

const LIGHT = {
  paper: [255, 255, 255], ink: "#1b1d21", soft: "#6a6e75", grid: "#e4e4df", halo: "#ffffff",
  classes: [[0, 68, 136], [221, 170, 51], [187, 85, 102], [34, 136, 119]], strength: 0.5, accent: "#c2410c", line: "#004488",
};
const DARK = {
  paper: [22, 25, 30], ink: "#eceef1", soft: "#9aa1ab", grid: "#2c3139", halo: "#101216",
  classes: [[110, 172, 236], [234, 188, 80], [238, 140, 156], [92, 205, 184]], strength: 0.42, accent: "#ff9d5c", line: "#8ec1f5",
};

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
export const look = () => (isDark() ? DARK : LIGHT);
export const css = ([r, g, b], a = 1) => (a === 1 ? `rgb(${r}, ${g}, ${b})` : `rgba(${r}, ${g}, ${b}, ${a})`);
/** A colour to read on paper: a class's colour, darker on white. */
export const strong = (k) => { const c = look().classes[k]; return css(isDark() ? c : c.map((v) => Math.round(v * 0.82))); };
