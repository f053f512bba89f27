"""Reports in a real browser: nothing is loaded, nothing complains, and everybody can read them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.reading import HOSTILE

from oddsmith import GaussianClassifier, LogisticRegression, PerceptronClassifier, compare
from oddsmith.data import load_dataset
from oddsmith.report.html import clean

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
    "dark phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}


@dataclass
class Opened:
    """A page, and what went on while it was open."""

    page: Any
    heard: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def is_quiet(self, path: Path) -> bool:
        return not self.heard and set(self.asked) == {path.as_uri()}


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Return a function that opens a file with a certain look, and listens."""
    contexts = []

    def visit(path: Path, look: str = "light") -> Opened:
        context = browser.new_context(**LOOKS[look])
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("console", lambda message: opened.heard.append(message.text))
        opened.page.on("pageerror", lambda error: opened.heard.append(str(error)))
        opened.page.on("dialog", lambda dialog: (opened.heard.append(f"dialog {dialog.message}"), dialog.dismiss()))
        opened.page.on("request", lambda request: opened.asked.append(request.url))
        opened.page.goto(path.as_uri())
        return opened

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of several kinds of model: with everything in it, of several classes, without probabilities, hostile."""
    folder = tmp_path_factory.mktemp("reports")
    cancer, penguins = load_dataset("breast_cancer"), load_dataset("penguins").drop_null()
    few = cancer.select(["diagnosis", *cancer.column_names[1:7]])
    assert "diagnosis" in few.column_names
    found = compare({"gaussian": GaussianClassifier(), "perceptron": PerceptronClassifier()}, few, "diagnosis")
    paths = {name: folder / f"{name}.html" for name in ("two", "three", "plain", "hostile", "wide")}
    loss = [[0, 1], [10, 0]]
    LogisticRegression(1.0).fit(few, "diagnosis").report(
        few, "diagnosis", paths["two"], loss=loss, reject=0.3, comparison=found
    )
    LogisticRegression(1.0).fit(penguins, "species").report(penguins, "species", paths["three"])
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    with pytest.warns(UserWarning):
        PerceptronClassifier(max_epochs=2).fit(X, y).report(X, y, paths["plain"])
    long = pd.DataFrame(rng.normal(size=(260, 40)), columns=[f"weekly_consumption_of_household_{i}" for i in range(40)])
    groups = np.array([f"diagnosis group {i}" for i in range(13)])[np.arange(260) % 13]
    GaussianClassifier().fit(long, groups).report(long, groups, paths["wide"])
    texts = [text for text in HOSTILE if "\ud800" not in text]
    levels = [texts[i % len(texts)] for i in range(60)]
    table = pd.DataFrame({**{text: rng.normal(size=60) for text in texts}, "level": levels})
    labels = np.array(texts[:2])[y]
    model = LogisticRegression(1.0).fit(table, labels)
    model.report(table, labels, paths["hostile"], title="".join(texts[:6]), loss=[[0, 1], [3, 0]], reject=0.2)
    return paths


@pytest.mark.parametrize(
    ("name", "look"),
    [
        *(("two", "light"), ("two", "dark"), ("two", "phone")),
        *(("three", "dark phone"), ("plain", "light"), ("hostile", "light"), ("hostile", "phone")),
        ("wide", "phone"),
    ],
)
def test_a_page_is_quiet_fits_its_screen_and_is_accessible(
    visit: Callable[..., Opened], pages: dict[str, Path], name: str, look: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    opened = visit(pages[name], look)
    for summary in opened.page.query_selector_all("summary"):
        summary.evaluate("e => e.parentNode.open = true")
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "It scrolls sideways."
    faults = axe.run(opened.page, options={"resultTypes": ["violations"]}).response["violations"]
    grave = [(f["id"], f["nodes"][0]["html"][:200]) for f in faults if f["impact"] in ("serious", "critical")]
    assert not grave, grave
    assert opened.is_quiet(pages[name]), (opened.heard, opened.asked)


def test_hostile_names_stay_text(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    opened = visit(pages["hostile"])
    page = opened.page
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.images.length") == 0
    shown = page.evaluate("[...document.querySelectorAll('#data tbody th')].map(e => e.textContent)")
    assert {clean(text) for text in HOSTILE if "\ud800" not in text} <= set(shown)
    marked = "[...document.querySelectorAll('*')].some(e => [...e.attributes].some(a => a.name.startsWith('on')))"
    assert not page.evaluate(marked)
    assert opened.is_quiet(pages["hostile"])


def test_tables_sort_by_click_and_by_key(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    page = visit(pages["two"]).page
    table = page.locator("#weights table").last

    def column(place: int) -> list[str]:
        return table.locator(f"tbody tr > :nth-child({place})").all_text_contents()

    def numbers(place: int) -> list[float]:
        return [float(text.replace("−", "-")) for text in column(place)]

    names = column(1)
    estimate = table.locator("thead th", has_text="estimate")
    estimate.locator("button").click()
    assert numbers(2) == sorted(numbers(2)) and estimate.get_attribute("aria-sort") == "ascending"
    estimate.locator("button").focus()
    page.keyboard.press("Enter")
    assert numbers(2) == sorted(numbers(2), reverse=True) and estimate.get_attribute("aria-sort") == "descending"
    term = table.locator("thead th").first
    term.locator("button").focus()
    page.keyboard.press("Space")
    assert column(1) == sorted(names, key=str.casefold) != names
    assert (term.get_attribute("aria-sort"), estimate.get_attribute("aria-sort")) == ("ascending", "none")


def test_values_are_read_by_hover_and_by_keys(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    page = visit(pages["two"]).page
    figure = page.locator("#calibration figure").first
    readout = figure.locator(".readout")
    assert readout.text_content().strip() == ""
    figure.locator(".plot").hover()
    assert "predicted" in readout.text_content() and "rows" in readout.text_content()
    page.mouse.move(0, 0)
    assert readout.text_content().strip() == ""
    figure.locator(".plot").focus()
    page.keyboard.press("Home")
    first = readout.text_content()
    page.keyboard.press("ArrowRight")
    assert first != readout.text_content() != ""


def test_the_part_that_is_read_is_marked_in_the_contents(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    page = visit(pages["two"]).page
    current = page.locator("nav a[aria-current]")
    assert current.all_text_contents() == ["At a glance"]
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'; location.hash = '#decision'")
    page.locator("nav a[aria-current][href='#decision']").wait_for()
    assert current.count() == 1


def test_a_table_that_scrolls_says_so_and_plots_have_the_width(
    visit: Callable[..., Opened], pages: dict[str, Path]
) -> None:
    wide, phone = visit(pages["two"]).page, visit(pages["two"], "phone").page
    box = phone.locator("#data .scroll[aria-label^='Columns that the model']")
    hint = "e => getComputedStyle(e, '::before').content"
    assert "Scroll sideways" in box.evaluate(hint)
    box.evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    phone.locator("#data .scroll[aria-label^='Columns that the model']:not(.more)").wait_for()
    assert box.evaluate(hint) == "none"
    assert wide.locator("#signature .more").count() == 0
    for page, least in ((wide, 0.98), (phone, 0.98)):
        share = "e => Math.max(...[...e.querySelectorAll('.plot')].map(p => p.clientWidth)) / e.clientWidth"
        assert page.locator("#weights figure").evaluate(share) > least
        assert page.locator("#weights .plot:visible").count() == 1


def test_the_theme_follows_the_system_and_the_switch(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    def lightness(page: Any) -> int:
        color: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in color.removeprefix("rgb(").rstrip(")").split(","))

    light, dark = visit(pages["two"], "light").page, visit(pages["two"], "dark").page
    assert lightness(light) > 700 and lightness(dark) < 100
    switch = dark.locator("#theme")
    switch.click()
    assert "light" in switch.text_content() and lightness(dark) > 700
    switch.click()
    assert "dark" in switch.text_content() and lightness(dark) < 100
    dark.emulate_media(media="print")
    assert lightness(dark) == 3 * 255  # paper is white


def test_a_printed_page_shows_no_switches(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    page = visit(pages["two"]).page
    page.emulate_media(media="print")
    assert not page.locator("#theme").is_visible() and not page.locator("nav").is_visible()
    assert page.locator("#signature").is_visible()
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_nothing_on_paper_is_wider_than_the_paper(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    page = visit(pages["wide"]).page
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 960})  # A4 without its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert page.evaluate("[...document.querySelectorAll('.long')].every(e => e.scrollHeight <= e.clientHeight + 1)")


def test_a_long_table_is_scrolled_below_its_header(visit: Callable[..., Opened], pages: dict[str, Path]) -> None:
    page = visit(pages["wide"], "phone").page
    box = page.locator("#data .long")
    assert box.evaluate("e => e.scrollHeight > e.clientHeight && e.clientHeight < window.innerHeight")
    box.evaluate("e => e.scrollTo(200, 400)")
    top, left = box.evaluate("e => [e.getBoundingClientRect().top, e.getBoundingClientRect().left]")
    head, name = (box.locator(part).first.bounding_box() for part in ("thead th", "tbody th"))
    assert head["y"] == pytest.approx(top, abs=2) and name["x"] == pytest.approx(left, abs=2)
