"""Every topic of the syllabus is whole, runs as it is shown, and belongs to a row of the course."""

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest
from docs.gallery.build import anchor

import oddsmith
from oddsmith import plots
from oddsmith.errors import InvalidInputError
from oddsmith.lectures import Topic, find_topic, run_example, topics
from oddsmith.lectures.gallery import file_stem, scripts, topic_of, words
from oddsmith.lectures.syllabus import documents, read_topics

PAGE = Path(__file__).parents[2] / "docs" / "syllabus.md"

# What a course on linear classification has, by the number of the topic: words that its title or text must have.
COURSE = (
    *("signed distance", "generalised linear", "bayes", "sigmoid", "one covariance", "maximum likelihood", "softmax"),
    *("quadric", "share a covariance", "naive bayes", "synthetic", "class prior", "parameters", "least squares"),
    *("fisher", "N/N₁", "perceptron", "one rule for each class", "basis functions", "scal", "cross-entropy"),
    *("gradient descent", "one row at a time", "second-order", "sum of squares", "working response", "gaussian prior"),
    *("cross-validation", "softmax regression", "probit", "links", "laplace", "posterior", "average the sigmoid"),
    *("expected loss", "log likelihood at each iteration", "regions", "no maximum"),
)


def test_there_are_38_topics_in_the_order_of_the_course() -> None:
    assert [topic.number for topic in topics()] == list(range(1, 39)) == list(range(1, len(COURSE) + 1))
    assert len({topic.name for topic in topics()}) == len({topic.title for topic in topics()}) == 38
    for topic, word in zip(topics(), COURSE, strict=True):
        assert word.casefold() in f"{topic.title} {topic.idea}".casefold(), topic.number


@pytest.mark.parametrize("topic", topics(), ids=lambda topic: topic.stem)
def test_example_of_a_topic_stands_alone_and_prints_what_the_page_shows(topic: Topic) -> None:
    test = doctest.DocTestParser().get_doctest(topic.example, {}, topic.name, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    report = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()):
        runner.run(test, out=report.write)
    assert runner.failures == 0, report.getvalue()
    assert sum(bool(step.want) for step in test.examples) >= 1  # it shows something


@pytest.mark.parametrize("topic", topics(), ids=lambda topic: topic.stem)
def test_topic_has_two_sentences_and_names_that_exist(topic: Topic) -> None:
    assert len(re.findall(r"[.!?](?= [A-ZΦ0-9]|$)", topic.idea)) == 2, topic.idea
    known = {*oddsmith.__all__, *plots.__all__}
    for code in re.findall(r"`([A-Z]\w+)", topic.where):
        assert code in known or code in ("LINKS", "Moments"), code
    # What is said to be in oddsmith is what the example uses.
    named = re.findall(r"`(?:oddsmith\.)?(\w+)", topic.where)
    assert any(name in topic.example for name in named), named


def test_figures_of_topics_exist_and_every_figure_has_a_topic() -> None:
    figures = [topic.figure for topic in topics()]
    assert len(set(figures)) == len(figures)  # each topic has one of its own
    for topic in topics():
        assert topic.caption == words(topic.figure)[0]
        for name in (topic.figure, *topic.also):
            assert (PAGE.parent / "gallery" / "figures" / f"{name}.png").is_file()
    assert {topic_of(name).number for name in scripts()} == set(range(1, 39))
    assert len({file_stem(name) for name in scripts()}) == len(scripts())
    assert file_stem("newton") == "24-newton" and file_stem("roc") == "35-decisions-roc"


def test_links_of_the_table_lead_to_the_sections() -> None:
    page = PAGE.read_text(encoding="utf-8")
    linked = re.findall(r"^\| \d+ \| \[.+?\]\(#(.+?)\)", page, flags=re.MULTILINE)
    assert linked == [anchor(topic.number, topic.title) for topic in topics()]


def test_every_topic_leads_to_the_reference() -> None:
    lines = re.findall(r"^In oddsmith: .*", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(lines) == 38
    for line, topic in zip(lines, topics(), strict=True):
        linked = re.findall(r"\]\((reference/[\w/]+\.md)\)", line)
        assert linked and all((PAGE.parent / page).is_file() for page in linked), topic.stem
        assert "](" not in topic.where  # a terminal shows the names alone


def test_what_lecture_runs_is_what_the_page_shows() -> None:
    topic = find_topic("decisions")
    ran = list(run_example(topic))
    steps = doctest.DocTestParser().get_examples(topic.example)
    assert ran == [(step.source, step.want) for step in steps]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("24", "newton"),
        ("NEWTON", "newton"),
        ("  bayes'  rule ", "bayes"),
        ("zigzag", "gradient"),
        ("roc", "decisions"),
        ("softmax", "softmax"),  # a topic before the figure of another
        ("reweighted", "irls"),
        ("24-newton", "newton"),
        ("separation", "separation"),
    ],
)
def test_topic_is_found_by_number_name_title_figure_or_a_word_of_it(wanted: str, name: str) -> None:
    assert find_topic(wanted).name == name


@pytest.mark.parametrize("wanted", ["", "0", "39", "-1", "zzz", "newtn", "🙂", "a" * 10_000, "../../etc/passwd", "[b]"])
def test_unknown_topic_is_refused_with_a_sentence(wanted: str) -> None:
    with pytest.raises(InvalidInputError, match="'oddsmith lecture' lists all 38") as refused:
        find_topic(wanted)
    if wanted == "newtn":
        assert "Did you mean 'newton'?" in str(refused.value)
    assert not (wanted.isdigit() and "Did you mean" in str(refused.value))


def test_ambiguous_word_lists_the_topics_that_it_may_mean() -> None:
    with pytest.raises(InvalidInputError, match=r"may be any of these topics: .*'naive-bayes'.*Name one") as refused:
        find_topic("ay")
    assert "'bayes'" in str(refused.value)


def test_damaged_page_is_refused() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for old, new, message in (
        ("## 3. Bayes' rule", "## 3. Bayes", "Topic 3 is"),
        ("In oddsmith: [`newton_raphson`]", "See [`newton_raphson`]", "Topic 24, 'Newton-Raphson', is not made of"),
        ("(gallery/figures/softmax.png)", "(softmax.png)", "Topic 7"),
        ("## 37. The figures", "### 37. The figures", "no section"),
    ):
        assert old in page
        with pytest.raises(InvalidInputError, match=message):
            read_topics(page.replace(old, new, 1))


def test_documents_are_those_of_the_repository() -> None:
    assert documents() == PAGE.parent
