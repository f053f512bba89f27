// The theme's search is a dialog without a name; readers of screens need one.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// A formula that is wider than its column scrolls: let the keyboard reach it.
const reach = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll("div.formula").forEach((formula) => reach.observe(formula));
