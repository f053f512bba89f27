"""Equations in LaTeX become lines that a terminal shows, and mean the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith.errors import InvalidInputError
from oddsmith.lectures import Topic, topics
from oddsmith.lectures.equations import as_text


@pytest.mark.parametrize("topic", topics(), ids=lambda topic: topic.stem)
def test_every_equation_of_the_syllabus_is_readable(topic: Topic) -> None:
    text = as_text(topic.equation)
    assert not set(text) & set("\\$&\x01\x02") and text.count("(") == text.count(")")
    assert max(map(len, text.splitlines())) <= 92
    assert all(line == line.rstrip() and line for line in text.splitlines())


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"w^\top x + w_0", "wᵀx + w₀"),
        (r"a - b = -1", "a − b = −1"),
        (r"\frac{1}{2 \sigma^2} w^\top w", "(1/(2σ²)) wᵀw"),  # never 1/2σ²wᵀw
        (r"\frac{a + b}{c} + \frac{1}{2} d", "(a + b)/c + ½d"),
        (r"\ln \frac{\pi_1}{\pi_0}", "ln (π₁/π₀)"),
        (r"\frac{\frac{a}{b}}{c}", "(a/b)/c"),
        (r"e^{-a}", "e^(−a)"),
        (r"S_W^{-1} m", "S_W⁻¹ m"),
        (r"\sum_{n \in C_k} x_n", "∑_(n ∈ Cₖ) xₙ"),
        (r"\tilde x_d", "x̃_d"),
        (r"x \; \text{if all is well}", "x if all is well"),
        (r"\begin{aligned} w &= 1 \\ w_{k0} &= 2 \end{aligned}", "  w = 1\nwₖ₀ = 2"),
        (r"a = 1, \qquad b = 2", "a = 1\nb = 2"),
        (r"\binom{D + G - 1}{G}", "C(D + G − 1, G)"),
        (r"\sqrt{1 + x}", "√(1 + x)"),
        ("", ""),
    ],
)
def test_equation_becomes_text(latex: str, text: str) -> None:
    assert as_text(latex) == text


@pytest.mark.parametrize(("latex", "message"), [(r"\evil x", r"command \\evil"), ("a^{b", "brace"), ("a_", "argument")])
def test_what_is_not_known_is_refused(latex: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        as_text(latex)


@given(st.text(alphabet=r"\frac{}^_ab12+-=&,()sqrtext ", max_size=40))
def test_any_text_is_converted_or_refused(latex: str) -> None:
    try:
        assert isinstance(as_text(latex), str)
    except InvalidInputError as refused:
        assert str(refused)
