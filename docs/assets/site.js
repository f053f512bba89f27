// The theme's search is a dialog without a name; readers of screens need one.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
