"""Files of figures: the same bytes again, formats, and a page that shows them."""

import re
from pathlib import Path

import pytest

from oddsmith.errors import InvalidInputError
from oddsmith.lectures.gallery import FORMATS, draw, index_page, save, save_all, scripts


@pytest.mark.parametrize("kind", FORMATS)
def test_figure_saved_twice_has_the_same_bytes(kind: str, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    for name in ("first", "second"):
        save(draw("naive_bayes")["figure"], tmp_path / f"{name}.{kind}", dpi=60)
    plt.close("all")
    first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("first", "second"))
    assert first == second
    assert first.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])


def test_unknown_format_or_figure_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Unknown format of a figure 'gif'"):
        next(save_all(tmp_path / "a", "gif"))
    with pytest.raises(InvalidInputError, match=r"Unknown figure 'zigzg'.*Did you mean 'zigzag'"):
        next(save_all(tmp_path / "a", "png", ["newton", "zigzg"]))
    with pytest.raises(InvalidInputError, match="Unknown format"):
        save(None, tmp_path / "figure")
    assert not (tmp_path / "a").exists()


def test_index_shows_every_figure_with_an_alternative_text() -> None:
    page = index_page({name: f"{name}.png" for name in scripts()})
    pictures = re.findall(r'<img src="(\w+)\.png" alt="([^"]+)"', page)
    assert [name for name, _ in pictures] == list(scripts())
    assert all(len(text) > 15 for _, text in pictures)
    assert page.count("oddsmith lecture ") == len(scripts()) + 1
    assert "http" not in page and "<script" not in page
    one = index_page({"newton": "a.pdf"})
    assert "<img" not in one and one.count("<figure>") == 1 and 'href="a.pdf"' in one


def test_index_escapes_the_names_of_files() -> None:
    assert "<b>" not in index_page({"newton": '<b>".png'})
