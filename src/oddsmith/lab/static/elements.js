// Small helpers to make elements; text stays text.

/** Make an element: attributes, listeners (functions), then children (elements or text). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "value") element.value = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function options(select, titles, chosen) {
  select.replaceChildren();
  for (const [value, title] of Object.entries(titles)) {
    if (typeof title === "object") select.append(make("optgroup", { label: value }, ...Object.entries(title).map(([v, t]) => make("option", { value: v }, t))));
    else select.append(make("option", { value }, title));
  }
  if (chosen !== undefined) select.value = chosen;
  return select;
}

/** A slider with its label and value; ``log``: over powers of ten. */
export function slider(title, { low, high, step, value, log = false, show = (v) => Number(v.toPrecision(3)) }, changed) {
  const to = log ? Math.log10 : (v) => v, from = log ? (v) => 10 ** v : (v) => v;
  const output = make("output", {}, String(show(value)));
  const input = make("input", { type: "range", min: to(low), max: to(high), step: log ? 0.01 : step, value: to(value) });
  input.addEventListener("input", () => { const v = from(Number(input.value)); output.textContent = show(v); input.setAttribute("aria-valuetext", String(show(v))); changed(v, false); });
  input.addEventListener("change", () => changed(from(Number(input.value)), true));
  input.setAttribute("aria-valuetext", String(show(value)));
  return make("label", {}, `${title} `, output, input);
}

export const digits = (v, n = 4) => (v === null || v === undefined ? "∞" : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(Number(v.toPrecision(n)))).replace("-", "−");

export function say(text) { document.getElementById("live").textContent = text; }

export function download(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}
