"""The lab in a real browser: points under the hand and the keys, methods step by step, addresses, pictures."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark wide": {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
    "dark phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "reduced_motion": "reduce"},
}


PLAIN = "#s=e30"
"""The address of the default state, without a story."""


@dataclass
class Lab:
    """The open page, and what went on."""

    page: Any
    address: str
    heard: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """Wait until every answer has come, and nothing is about to be asked."""
        self.page.wait_for_timeout(30)
        self.page.wait_for_selector("body[data-idle=true]", timeout=15_000)
        self.page.wait_for_timeout(30)

    def open(self, hash_: str) -> None:
        self.page.goto("about:blank")
        self.page.goto(self.address + hash_)
        self.settle()

    def points(self) -> int:
        label: str = self.canvas().get_attribute("aria-label")
        return int(re.search(r"(\d+) points", label)[1])  # type: ignore[index]

    def canvas(self, pane: str = "A") -> Any:
        return self.page.locator(f"section[aria-label='Pane {pane}'] canvas")

    def pixels(self, pane: str = "A") -> str:
        found: str = self.canvas(pane).evaluate("canvas => canvas.toDataURL()")
        return found

    def preset(self, name: str) -> None:
        self.page.select_option("#preset", name)
        self.page.wait_for_timeout(350)
        self.settle()

    def fact(self, name: str, pane: str = "A") -> str:
        text: str = self.page.locator(
            f"section[aria-label='Pane {pane}'] .facts span", has_text=name
        ).first.text_content()
        return text.removeprefix(name).strip()

    def script(self) -> dict[str, Any]:
        """Run what "Copy as Python" shows for pane A, and return its names."""
        self.page.click("section[aria-label='Pane A'] button:has-text('Copy as Python')")
        self.page.wait_for_selector("#dialog[open]")
        names: dict[str, Any] = {}
        exec(self.page.text_content("#dialog-text"), names)
        self.page.click("#dialog-close")
        return names


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Callable[..., Lab]]:
    contexts = []

    def visit(look: str = "light", hash_: str = PLAIN) -> Lab:
        context = browser.new_context(**LOOKS[look])
        contexts.append(context)
        opened = Lab(context.new_page(), lab)
        opened.page.on("console", lambda message: opened.heard.append(message.text))
        opened.page.on("pageerror", lambda error: opened.heard.append(str(error)))
        opened.page.on("request", lambda request: opened.asked.append(request.url))
        opened.open(hash_)
        return opened

    yield visit
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("look", "tabs"),
    [("light", ("fit", "time")), ("dark wide", ("decisions",)), ("phone", ("time",)), ("dark phone", ("prior",))],
)
def test_page_is_quiet_accessible_and_fits_its_screen(
    visit: Callable[..., Lab], look: str, tabs: tuple[str, ...]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    lab = visit(look, "")  # with the first story
    lab.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    for tab in tabs:
        lab.page.click(f"#tab-{tab}")
        lab.settle()
        assert lab.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "It scrolls sideways."
        faults = axe.run(lab.page, options={"resultTypes": ["violations"]}).response["violations"]
        assert not faults, [(f["id"], f["impact"], f["nodes"][0]["html"][:200]) for f in faults]
    assert not lab.heard
    assert all(url.startswith((lab.address, "data:", "blob:", "about:")) for url in lab.asked)


def test_points_are_added_dragged_erased_and_restored(visit: Callable[..., Lab]) -> None:
    lab = visit()
    box = lab.canvas().bounding_box()
    n, first, loss = lab.points(), lab.pixels(), lab.fact("cross-entropy")
    x, y = box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9
    lab.page.mouse.click(x, y)
    lab.settle()
    assert lab.page.text_content("#n-out") == str(n + 1)
    added = lab.fact("cross-entropy")
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    lab.page.mouse.move(x - 400, y - 250, steps=6)
    lab.page.mouse.up()
    lab.settle()
    moved = lab.fact("cross-entropy")
    assert len({loss, added, moved}) == 3
    lab.page.check("#tools input[value=erase]", force=True)
    lab.page.mouse.click(x - 400, y - 250)
    lab.settle()
    assert int(lab.page.text_content("#n-out")) <= n
    for expected in (moved, added, loss):
        while lab.fact("cross-entropy") != expected:
            assert lab.page.is_enabled("#undo"), "Nothing is left to undo."
            lab.page.click("#undo")
            lab.settle()
    lab.page.keyboard.press("Control+Shift+z")
    lab.settle()
    lab.page.keyboard.press("Control+z")
    lab.settle()
    assert lab.pixels() == first and not lab.heard


def test_newton_and_gradient_descent_step_to_the_optimum(visit: Callable[..., Lab]) -> None:
    lab = visit()
    optimum = float(lab.fact("cross-entropy"))
    lab.page.click("#tab-time")
    lab.settle()
    assert "Step 0 of" in lab.page.text_content("#time-status")
    losses = [float(lab.fact("cross-entropy"))]
    for _ in range(5):
        lab.page.click("button[aria-label='Step']")
        lab.settle()
        losses.append(float(lab.fact("cross-entropy")))
    assert losses[0] > losses[1] > losses[2] >= optimum and losses[-1] == pytest.approx(optimum, abs=1e-2)
    lab.page.click("button[aria-label='Step back']")
    lab.settle()
    assert "Step 4 of" in lab.page.text_content("#time-status")
    lab.page.select_option("#panel label:has-text('Method') select", "gradient")
    lab.settle()
    lab.page.click("button[aria-label='Last step']")
    lab.settle()
    steps = int(re.search(r"of (\d+)", lab.page.text_content("#time-status"))[1])  # type: ignore[index]
    assert steps > 50 and float(lab.fact("cross-entropy")) == pytest.approx(optimum, abs=1e-2)
    lab.page.click("button[aria-label='First step']")
    lab.page.click("button[aria-label='Play']")
    lab.page.wait_for_timeout(900)
    lab.page.click("button[aria-label='Pause']")
    lab.settle()
    assert int(re.search(r"Step (\d+)", lab.page.text_content("#time-status"))[1]) >= 2  # type: ignore[index]
    assert not lab.heard


def test_separation_is_said_and_cured(visit: Callable[..., Lab]) -> None:
    lab = visit()
    warning = lab.page.locator("section[aria-label='Pane A'] .care")
    assert not warning.is_visible()
    lab.preset("separable")
    assert "separated" in warning.text_content() and warning.is_visible()
    lab.page.click("#tab-time")
    lab.settle()
    said = lab.page.locator("#panel .care")
    assert "grow without end" in said.text_content() and "diverges" in lab.page.text_content("#time-status")
    said.locator("button", has_text="Firth").click()
    lab.page.wait_for_timeout(300)
    lab.settle()
    assert not said.is_visible() and "converges" in lab.page.text_content("#time-status")


def test_four_models_answer_side_by_side(visit: Callable[..., Lab]) -> None:
    lab = visit("dark wide")
    lab.page.check("input[name=count][value='4']", force=True)
    lab.settle()
    assert lab.page.locator(".pane").count() == 4 and len({lab.pixels(pane) for pane in "ABCD"}) == 4
    lab.page.select_option("select[aria-label='Model of pane B']", "naive_bayes")
    lab.settle()
    table = lab.page.locator("#panel table.fits")
    assert "Naive Bayes" in table.text_content() and "Perceptron" in table.text_content()
    lab.preset("four")
    assert lab.page.locator("#panel table.fits tbody tr").count() > 4 and not lab.heard


def test_table_is_shown_by_the_names_of_its_columns(visit: Callable[..., Lab], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.1f},{'yes' if a + b / 10 > 0 else 'no'}" for a, b in rng.normal(size=(80, 2)) * [1, 10]]
    path = tmp_path / "own.csv"
    path.write_text("length,mass,sick\n" + "\n".join(rows) + "\n1.0,,no\n")
    lab = visit()
    lab.page.set_input_files("#file", path)
    lab.page.wait_for_selector("#use-csv:visible")
    assert lab.page.input_value("#csv-label") == "sick"
    lab.page.click("#use-csv")
    lab.settle()
    assert lab.points() == 80 and "1 rows with gaps" in lab.page.text_content("#csv-note")
    assert "yes" in lab.page.text_content("#classes")
    (tmp_path / "bad.csv").write_text("a\n1\n")
    lab.page.set_input_files("#file", tmp_path / "bad.csv")
    lab.page.wait_for_timeout(200)
    lab.settle()
    assert "fewer than two numeric columns" in lab.page.text_content("#csv-note")


def test_address_brings_the_same_pixels_back(visit: Callable[..., Lab]) -> None:
    lab = visit()
    lab.preset("three")
    lab.page.check("input[name=count][value='2']", force=True)
    lab.settle()
    lab.page.select_option("select[aria-label='Basis functions of pane A']", "polynomial")
    lab.settle()
    box = lab.canvas().bounding_box()
    lab.page.keyboard.press("4")
    lab.page.mouse.click(box["x"] + 40, box["y"] + 40)
    lab.page.mouse.click(box["x"] + 60, box["y"] + 50)
    lab.page.mouse.move(0, 0)
    lab.settle()
    there, shown = lab.page.evaluate("location.hash"), [lab.pixels("A"), lab.pixels("B")]
    assert len(there) > 500  # the points are in it
    lab.open(there)
    assert [lab.pixels("A"), lab.pixels("B")] == shown
    other = visit(hash_=there)
    assert [other.pixels("A"), other.pixels("B")] == shown
    lab.preset("ring")
    assert lab.pixels("A") != shown[0]
    lab.page.go_back()
    lab.settle()
    assert [lab.pixels("A"), lab.pixels("B")] == shown and not lab.heard


def test_hostile_addresses_open_a_page_that_works(visit: Callable[..., Lab]) -> None:
    states = [{"panes": [{"model": "<img src=x onerror=alert(1)>"}]}, {"view": "x"}, {"data": {"preset": "../x"}}]
    texts = [base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=") for state in states]
    lab = visit(hash_="#s=%%%&p=!!!")
    assert lab.points() > 0
    for text in texts:
        lab.open(f"#s={text}")
        assert lab.page.evaluate("document.images.length") == 1  # the logo
    assert not [what for what in lab.heard if "Failed to load resource" not in what]


def test_copied_python_gives_the_numbers_of_the_pane(visit: Callable[..., Lab]) -> None:
    lab = visit()
    lab.page.select_option("select[aria-label='Basis functions of pane A']", "polynomial")
    lab.settle()
    box = lab.canvas().bounding_box()
    lab.page.mouse.click(box["x"] + 300, box["y"] + 300)
    lab.page.mouse.move(0, 0)
    with lab.page.expect_response(lambda answer: answer.url.endswith("api/pane")) as waiting:
        pass
    lab.settle()
    answer = waiting.value.json()
    model = lab.script()["model"]
    assert np.abs(np.column_stack([model.intercept_, model.coef_]) - answer["optimum"]).max() <= 1e-9
    assert len(lab.script()["X"]) == lab.points() or len(lab.script()["X"]) == int(lab.page.text_content("#n-out"))


def test_weights_are_edited_by_hand(visit: Callable[..., Lab]) -> None:
    lab = visit()
    best, first = float(lab.fact("cross-entropy")), lab.pixels()
    lab.page.click("section[aria-label='Pane A'] summary:has-text('Weights')")
    lab.page.fill("section[aria-label='Pane A'] .weights tbody tr:nth-child(2) input", "-1")
    lab.page.keyboard.press("Tab")
    lab.settle()
    assert float(lab.fact("cross-entropy")) > best and lab.pixels() != first
    lab.page.click("text=Back to the optimum")
    lab.settle()
    assert lab.pixels() == first


def test_everything_works_by_keys_alone(visit: Callable[..., Lab]) -> None:
    lab = visit()
    page = lab.page

    def tab_to(what: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("what => document.activeElement.matches(what)", what):
                return
        raise AssertionError(f"{what} is not reached by Tab.")

    tab_to("canvas[role=application]")
    n = lab.points()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "2", "Enter"):
        page.keyboard.press(key)
    lab.settle()
    assert page.text_content("#n-out") == str(n + 1) and "class 2" in page.text_content("#live")
    before = page.evaluate("location.hash")
    for key in ("m", "Shift+ArrowRight", "Shift+ArrowDown", "m"):
        page.keyboard.press(key)
    lab.settle()
    assert page.evaluate("location.hash") != before
    page.keyboard.press("Delete")
    lab.settle()
    assert page.text_content("#n-out") == str(n)
    page.keyboard.press("n")
    assert page.text_content("#live").startswith("Point 1 of")
    tab_to("#tab-fit")
    page.keyboard.press("ArrowRight")
    lab.settle()
    assert page.get_attribute("#tab-time", "aria-selected") == "true"
    tab_to("button[aria-label=Step]")
    page.keyboard.press("Enter")
    lab.settle()
    assert page.text_content("#time-status").startswith("Step 1 of") and not lab.heard


def test_pictures_are_saved(visit: Callable[..., Lab], tmp_path: Path) -> None:
    lab = visit()
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with lab.page.expect_download() as waiting:
            lab.page.click(f"section[aria-label='Pane A'] button:has-text('{kind}')")
        waiting.value.save_as(tmp_path / f"pane.{kind}")
        content = (tmp_path / f"pane.{kind}").read_bytes()
        assert content.startswith(start) and len(content) > 10_000
    drawn = (tmp_path / "pane.SVG").read_text()
    assert drawn.count("<circle") + drawn.count("<polygon") == lab.points()


def test_decisions_and_prior_move_along(visit: Callable[..., Lab]) -> None:
    lab = visit()
    lab.preset("overlapping")
    lab.page.click("#tab-decisions")
    lab.settle()
    plain, table = lab.pixels(), lab.page.text_content("#confusion")
    lab.page.fill("input[aria-label='Cost of deciding for class 1 if it is class 2']", "9")
    lab.page.keyboard.press("Tab")
    lab.page.wait_for_timeout(200)
    lab.settle()
    assert lab.pixels() != plain and lab.page.text_content("#confusion") != table
    assert "above a probability of 0.1" in lab.page.text_content("#panel")
    lab.page.click("#tab-prior")
    lab.settle()
    lab.page.click("#panel button:has-text('evidence')")
    lab.settle()
    assert lab.page.input_value("select[aria-label='Prior of pane A']") == "gaussian" and not lab.heard
