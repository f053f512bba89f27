"""Nothing in the data becomes markup, and nothing in it hides."""

import unicodedata

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.report.reading import HOSTILE, Page, check_harmless

from oddsmith import LogisticRegression
from oddsmith.report import make_report
from oddsmith.report.html import clean, escape, name_tag, tag, visible

TEXTS = st.one_of(
    st.sampled_from(HOSTILE), st.text(max_size=30), st.text("<>&\"'/=-!]\u2028\u202e\x00 ax", max_size=30)
)


@given(TEXTS)
@settings(max_examples=300)
def test_escaped_text_reads_the_same_and_makes_no_element(text: str) -> None:
    made = tag("p", text, title=text)
    page = Page(made)
    (only,) = page.elements
    assert only.text == only.attributes["title"] == visible(text)
    made.encode()  # no half of a character is left


@given(TEXTS)
def test_text_shows_what_cannot_be_seen(text: str) -> None:
    shown = visible(text)
    for character in shown:
        category = unicodedata.category(character)
        assert category not in ("Cc", "Cs") or character in "\t\n", repr(shown)
        assert unicodedata.bidirectional(character) not in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        )
    assert visible(shown) == shown


@given(TEXTS)
def test_names_are_short_and_stand_apart(text: str) -> None:
    (outer, *breaks) = Page(name_tag(text)).elements
    assert outer.tag == "bdi" and {e.tag for e in breaks} <= {"wbr"}
    assert outer.text == clean(text)
    assert len(text) <= 200 or clean(text).endswith("…")


def test_markup_is_escaped_once_and_text_always() -> None:
    assert escape(escape("<")) == "&lt;"
    assert tag("p", escape("<")) == "<p>&lt;</p>"
    assert tag("p", "&lt;") == tag("p", str(escape("<"))) == "<p>&amp;lt;</p>"


@pytest.mark.filterwarnings("ignore::oddsmith.errors.OddsmithWarning")
@given(st.lists(TEXTS.filter(lambda t: "\ud800" not in t), min_size=6, max_size=6, unique=True))
@settings(max_examples=12)
def test_names_labels_levels_and_titles_stay_text_on_the_page(texts: list[str]) -> None:
    number, category, target, level, label, title = texts
    table = pd.DataFrame(
        {
            number: [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 2.5, 2.6],
            category: [level, level, "b", "b", level, "b", level, "b"],
            target: [label, label, "z z", label, "z z", "z z", label, "z z"],
        }
    )
    model = LogisticRegression(prior=1.0).fit(table, target)
    page = check_harmless(make_report(model, table, target, title=title, loss=[[0, 1], [2, 0]], reject=0.3))
    assert page.all("h1")[0].text == page.all("title")[0].text == clean(title)
    assert {row["column"] for row in page.table("Columns that")} == {clean(number), clean(category)}
    assert {row["class"] for row in page.table("Rows of each class")} == {clean(label), "z z"}
    assert clean(level) in page.section("data").text
