// The theme's search is a dialog without a name; readers of screens need one.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// The button beside an example copies what one types: no prompts, no output.
const PROMPT = /^(>>>|\.\.\.|\$|>)( |$)/;
for (const block of document.querySelectorAll("pre:has(.gp)")) {
  const all = block.textContent.split("\n");
  // A command that ends with a backslash goes on in the next line.
  const lines = all.filter((line, i) => PROMPT.test(line) || (i && all[i - 1].endsWith("\\")));
  block.dataset.copy = lines.map((line) => line.replace(PROMPT, "")).join("\n");
}
// A formula that is wider than its column scrolls: let the keyboard reach it.
const reach = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll("div.formula").forEach((formula) => reach.observe(formula));
