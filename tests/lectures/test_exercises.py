"""Every topic has an exercise with data; its solution answers it, mistakes are wrong, and answers are judged."""

import math
from pathlib import Path

import numpy as np
import pytest
from docs.gallery.build import anchor

from oddsmith import FisherDiscriminant, GaussianClassifier, LogisticRegression
from oddsmith.errors import InvalidInputError
from oddsmith.lectures import topics
from oddsmith.lectures.exercises import (
    RELATIVE,
    Exercise,
    answer_file,
    check,
    check_numbers,
    data,
    exercises,
    find_exercise,
    read_exercises,
    run_answer,
    solve,
)
from oddsmith.lectures.exercises import _run as run_mistake
from oddsmith.lectures.exercises import _solved as solved

COURSE = Path(__file__).parents[2] / "docs" / "course"
ROOTS = math.sqrt(5)

# Answers by hand, or by another way than the solution's.
BY_HAND = {
    1: [8, -2],
    2: [2 * 1.2815515655 / ROOTS],
    3: [1 / (1 + 0.5 * math.exp(500 / 800)), 205 + 8 * math.log(2)],
    4: [math.log(9), 0.09],
    5: [1, 0, -1 - math.log(3)],
    6: [1 / 3, 8 / 3, -1 / 6, 4 / 3],
    7: [1 + math.log(2) / 2, 3.5],
    8: [-3 / 8, math.sqrt(8 * math.log(2) / 3)],
    9: [12 + 12 + 3],
    10: [0.4 * 0.28 / (0.4 * 0.28 + 0.6 * 0.04)],
    11: [0.9, 1 + 0.21 * 9],
    12: [(3 + math.log(9)) / 2],
    13: [55 + 20 + 1, 11, 17],
    14: [0, 1],
    17: [18, -4, 3, 2],
    18: [0, 2, 2, 1, 1, 2, 3, 3],
    19: [35, math.exp(-8 / 9)],
    20: [ROOTS],
    21: [4 * math.log(2), 0, -1],
    24: [1.5, 1.5 - 1.375 / 6.75],
    25: [0.7, 2.2],
    26: [-2, 2, -2, 2, -0.4, 0.8],
    31: [math.log(0.4 / 0.15), 0.25, math.log((2 / 3) / (3 / 17))],
    32: [5, 5, 5**5 * math.exp(-5) * math.sqrt(10 * math.pi)],
    35: [1 / 21, 1 / 40, 1 / 2],
    37: [1 / 4, 3 / 8, 3 / 8],
    38: [-2 * math.log(2), -math.log(math.exp(0.05) - 1)],
}


def flat(exercise: Exercise) -> np.ndarray:
    return np.concatenate(list(solve(exercise).values()))


def test_every_topic_has_an_exercise_under_its_title() -> None:
    assert [exercise.topic for exercise in exercises()] == list(topics())
    for page in ("exercises", "solutions"):
        text = (COURSE / f"{page}.md").read_text(encoding="utf-8")
        for topic in topics():
            assert f"\n## {topic.number}. {topic.title}\n" in text and anchor(topic.number, topic.title)


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.topic.stem)
def test_solution_is_right_mistakes_are_wrong_and_the_remark_is_theirs(exercise: Exercise) -> None:
    right = solve(exercise)
    assert right and all(np.isfinite(values).all() for values in right.values())
    assert all(part.right for part in check(exercise, right))
    three_digits = [float(f"{value:.3g}") for value in flat(exercise)]
    assert all(part.right for part in check_numbers(exercise, three_digits))
    assert not any(part.right for part in check(exercise, {k: v + 0.03 * np.abs(v) + 1 for k, v in right.items()}))
    assert exercise.hint.endswith((".", "?")) and exercise.mistakes
    for code, remark in exercise.mistakes:
        for name, value in run_mistake(code, solved(exercise)).items():
            if name in exercise.asked:
                (part,) = [part for part in check(exercise, {**right, name: value}) if part.name == name]
                assert not part.right and part.remark == remark, code


@pytest.mark.parametrize("number", BY_HAND)
def test_solution_equals_the_answer_by_hand(number: int) -> None:
    np.testing.assert_allclose(flat(find_exercise(str(number))), BY_HAND[number], rtol=1e-8, atol=1e-12)


def test_solutions_are_those_of_the_models() -> None:
    X, t = data(6)
    model = GaussianClassifier("shared").fit(X, t)
    S = model.covariances_[0]
    np.testing.assert_allclose(flat(find_exercise("6")), [model.class_prior_[1], S[0, 0], S[0, 1], S[1, 1]])
    one, two = data(15)
    fisher = FisherDiscriminant().fit(np.vstack([one, two]), [0, 0, 0, 1, 1, 1, 1]).boundary_.normal
    np.testing.assert_allclose(solve(find_exercise("15"))["w"], fisher, atol=1e-9)
    direction = solve(find_exercise("16"))["w"]
    np.testing.assert_allclose(-direction / np.linalg.norm(direction), fisher, atol=1e-9)
    Phi, t = data(21)
    again = LogisticRegression(solver="newton").fit(Phi[:, 1:], t)
    assert again.trace_.objective[0] == pytest.approx(solve(find_exercise("21"))["E"][0])  # the null model is w = 0


def test_answer_in_a_file_is_run_in_a_process_of_its_own(tmp_path: Path) -> None:
    exercise, path = find_exercise("21"), tmp_path / "answer.py"
    assert (tmp_path / "answer.py").write_text(answer_file(exercise), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"did not run to its end: TypeError"):  # not filled in
        run_answer(exercise, path)
    path.write_text(
        answer_file(exercise).replace("E = ...", "E = 4 * np.log(2)").replace("g = ...", "g = Phi.T @ (0.5 - t)")
    )
    assert [part.right for part in check(exercise, run_answer(exercise, path))] == [True, True]
    path.write_text("import os\nE = os.getpid()\n")
    found = run_answer(exercise, path)
    assert found["E"] != [float(__import__("os").getpid())]
    assert [part.remark for part in check(exercise, found)][1] == "The answer does not define g."
    path.write_text("E, g = 4 * 0.6931, [0, -1, 5]")
    assert check(exercise, run_answer(exercise, path))[1].remark == "Expected 2 numbers, found 3."
    path.write_text("import time\ntime.sleep(60)")
    with pytest.raises(InvalidInputError, match="did not end within 1 seconds"):
        run_answer(exercise, path, timeout=1)
    with pytest.raises(InvalidInputError, match="There is no file"):
        run_answer(exercise, tmp_path / "none.py")


def test_wrong_number_of_numbers_is_said() -> None:
    with pytest.raises(InvalidInputError, match=r"asks for 3 numbers \(E, g with 2\), but you gave 1"):
        check_numbers(find_exercise("21"), [1.0])


def test_not_a_number_is_not_right() -> None:
    for value in (math.nan, math.inf, -math.inf):
        assert not any(part.right for part in check_numbers(find_exercise("4"), [value, value]))
    assert not check_numbers(find_exercise("9"), [27 * (1 + 2 * RELATIVE)])[0].right


def test_damaged_pages_are_refused() -> None:
    page, answers = ((COURSE / f"{name}.md").read_text(encoding="utf-8") for name in ("exercises", "solutions"))
    for old, new, message in (
        ("Find `gap`", "Give `gap`", "Exercise 2 is not"),
        ("## 3. ", "### 3. ", r"not both: \[3\]"),
    ):
        assert old in page
        with pytest.raises(InvalidInputError, match=message):
            read_exercises(page.replace(old, new, 1), answers)
