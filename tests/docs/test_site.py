"""The built site in a real browser: its search, its pages, and nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.docs.conftest import Site

import oddsmith

PHONE = {"width": 390, "height": 844}
# One page of each kind; every page is opened, these are looked at closely.
CLOSELY = ["", "tutorials/statistician/", "migration/scikit_learn/", "reference/priors/", "course/notes/"]


def test_site_is_built_without_a_warning(site: Site) -> None:
    assert not re.search("warning|error", site.output, flags=re.IGNORECASE), site.output
    assert len(site.pages()) > 35


def test_reference_has_every_public_name(site: Site) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site.folder / "reference").rglob("*.html"))
    missing = {name for name in oddsmith.__all__ if f'id="oddsmith.{name}"' not in text} - {"__version__"}
    assert not missing, "add them to docs/reference"


def test_formulas_are_drawn(site: Site) -> None:
    for page in site.pages():
        text = (
            site.folder / page / "index.html" if page.endswith("/") else site.folder / (page or "index.html")
        ).read_text()
        prose = re.sub(r"<(pre|code|script)\b.*?</\1>", "", text, flags=re.DOTALL)
        assert "$$" not in prose, page
        assert "<merror" not in prose and not re.search("<mi>&(amp;)?<", prose), page


def test_search_finds_a_word_and_leads_to_it(site: Site, browser: Any) -> None:
    page = browser.new_page()
    page.goto(site.address)
    page.click("[data-md-component=search-query]")
    page.keyboard.type("separation", delay=20)
    result = page.locator(".md-search-result__item a").first
    result.wait_for(timeout=10_000)
    assert page.locator(".md-search-result__item").count() > 3
    result.click()
    page.wait_for_url(re.compile(r".+/(inference|reference|tutorials|migration|limits|syllabus)/.*"))
    assert "separat" in page.locator("article").inner_text().lower()
    page.close()


def test_search_finds_nothing_where_there_is_nothing(site: Site, browser: Any) -> None:
    page = browser.new_page()
    page.goto(site.address)
    page.click("[data-md-component=search-query]")
    page.keyboard.type("xylophonewhistle", delay=20)
    page.locator(".md-search-result__meta", has_text="No matching documents").wait_for(timeout=10_000)
    page.close()


def test_no_page_complains_or_asks_elsewhere_or_is_wider_than_a_phone(site: Site, unindexed: str, browser: Any) -> None:
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    aborted = "net::ERR_ABORTED"  # by going on to the next page
    page.on("requestfailed", lambda found: None if found.failure == aborted else said.append(f"failed: {found.url}"))
    page.on("response", lambda answer: said.append(f"{answer.status}: {answer.url}") if answer.status >= 400 else None)
    elsewhere: list[str] = []
    local = (unindexed, "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(local) else elsewhere.append(request.url))
    wide = []
    for path in site.pages():
        page.goto(unindexed + path)
        if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wide.append(path)
    context.close()
    assert (said, elsewhere, wide) == ([], [], [])


# What is written, and how it is marked up, is the same in both.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


@pytest.mark.parametrize(("scheme", "rules"), [("light", {}), ("dark", {"runOnly": COLOURS})], ids=["light", "dark"])
def test_pages_are_accessible(unindexed: str, browser: Any, scheme: str, rules: dict[str, Any]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    faults = []
    for path in CLOSELY:
        page.goto(unindexed + path)
        found = axe.run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
        faults += [
            (path, fault["id"], fault["nodes"][0]["html"][:200], len(fault["nodes"]))
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
    context.close()
    assert not faults


def test_copy_buttons_copy_commands_without_prompts_and_output(site: Site, browser: Any) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()

    def copied(path: str, prompt: str) -> str:
        page.goto(site.address + path)
        block = page.locator(".highlight", has=page.locator(".gp", has_text=prompt)).first
        block.hover()
        block.locator("button").first.click()
        page.locator(".md-dialog--active").wait_for()
        return str(page.evaluate("navigator.clipboard.readText()"))

    python = copied("", ">>>")
    assert python.splitlines()[0] == "from oddsmith import LogisticRegression"
    assert python.splitlines()[-1] == "print(model.summary())" and ">>>" not in python
    shell = copied("report/", "$")
    assert [line.split()[0] for line in shell.splitlines()] == ["oddsmith", "oddsmith", "--purpose"]
    context.close()


def test_thumbnails_of_the_gallery_lead_to_their_figures(site: Site, browser: Any) -> None:
    page = browser.new_page()
    page.goto(site.address + "gallery/")
    links = page.locator(".thumbnails a")
    assert links.count() == len(list((site.folder / "gallery" / "figures").glob("*.png"))) - 1  # and the contact sheet
    links.filter(has_text="roc").click()
    page.wait_for_url("**/gallery/evaluation/#*")
    heading = page.locator(f"[id='{page.url.partition('#')[2]}']")
    assert "ROC" in heading.inner_text()
    page.close()


def test_long_pages_are_split(site: Site) -> None:
    for name, least in (("syllabus", 8), ("gallery", 9), ("benchmarks", 3)):
        parts = list((site.folder / name).glob("*/index.html"))
        assert len(parts) >= least, name
    assert "Newton-Raphson</a>" in (site.folder / "syllabus" / "index.html").read_text(encoding="utf-8")
    optimisation = (site.folder / "syllabus" / "optimisation" / "index.html").read_text(encoding="utf-8")
    assert 'id="24-newton-raphson"' in optimisation and 'id="21-logistic-regression"' not in optimisation


def test_fit_and_predict_come_first_in_the_reference(site: Site) -> None:
    for path in (site.folder / "reference" / "classifiers").glob("*/index.html"):
        names = re.findall(r'<h\d id="oddsmith\.\w+\.(\w+)"', path.read_text(encoding="utf-8"))
        assert names[:2] == ["fit", "predict"], path.parent.name


def test_switch_to_dark_mode(site: Site, browser: Any) -> None:
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    page.goto(site.address)
    shade = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(shade)
    page.locator("label[title='Switch to dark mode']").click()
    page.wait_for_function(f"{shade} !== '{light}'")
    page.goto(site.address + "limits/")  # the choice is kept from page to page
    assert page.evaluate(shade) != light
    context.close()
