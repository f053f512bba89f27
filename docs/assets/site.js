// The theme's search is a dialog without a name; readers of screens need one.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// The button beside an example copies what one types: no prompts, no output.
const PROMPT = /^(>>>|\.\.\.|\$|>)( |$)/;
for (const block of document.querySelectorAll("pre:has(.gp)")) {
  const lines = block.textContent.split("\n").filter((line) => PROMPT.test(line));
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
