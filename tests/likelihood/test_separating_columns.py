"""A column that separates the classes by itself is named first, wherever the rows are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from oddsmith import LogisticRegression, detect_separation
from oddsmith.errors import SeparationWarning

rng = np.random.default_rng(5)
N = 600
AFFAIRS = rng.poisson(0.7, N).astype(float)
Y = np.where(AFFAIRS > 0, "yes", "no")
TABLE = pandas.DataFrame(
    {
        "age": rng.normal(40.0, 9.0, N),
        "children": rng.integers(0, 4, N),
        "affairs": AFFAIRS,
        "religion": [("a", "b", "c")[i] for i in rng.integers(0, 3, N)],
    }
)
QUESTION = (
    "^'affairs' separates the classes by itself: does it hold the answer. .*separated by 'affairs' .towards 'yes'.: "
)


@pytest.mark.parametrize("where", ["table", "array", "file"])
def test_the_column_with_the_answer_comes_first_and_alone(where: str, tmp_path: Path) -> None:
    data: Any = TABLE
    if where == "file":
        TABLE.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
        data = tmp_path / "t.csv"
    pattern = QUESTION.replace("affairs", "x2") if where == "array" else QUESTION
    rows = TABLE.drop(columns="religion").to_numpy() if where == "array" else data
    with pytest.warns(SeparationWarning, match=pattern):
        LogisticRegression().fit(rows, "y" if where == "file" else Y)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
def test_a_category_of_pure_levels_separates_and_an_id_is_not_asked_about() -> None:
    code = np.where(AFFAIRS > 0, np.array(["p", "q"])[rng.integers(0, 2, N)], "none")
    found = detect_separation(TABLE.drop(columns="affairs").assign(code=code), Y)
    assert found.kind == "complete" and found.alone == ("code",)
    assert (
        detect_separation(
            pandas.DataFrame({"g": [f"n{i % 150}" for i in range(300)]}), [i % 2 for i in range(300)]
        ).alone
        == ()
    )


def test_columns_that_separate_only_together_are_named_together() -> None:
    x = rng.normal(size=(N, 2))
    found = detect_separation(x, x.sum(axis=1) > 0)
    assert (found.kind, found.alone, found.question) == ("complete", (), "")
    assert {"x0", "x1"} <= set(found.infinite)


def test_three_classes_in_a_row_are_separated_by_one_column() -> None:
    x = np.column_stack([rng.normal(size=90), np.repeat([0.0, 1.0, 2.0], 30) + rng.uniform(0, 0.5, 90)])
    assert detect_separation(x, np.repeat([2, 0, 1], 30)).alone == ("x1",)
    x[0, 1] = 1.2
    assert detect_separation(x, np.repeat([2, 0, 1], 30)).alone == ()
