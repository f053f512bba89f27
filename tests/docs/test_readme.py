"""The first screen of the README, and its tables."""

from tests.docs.reading import ROOT

LINES = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


def test_both_commands_a_picture_and_a_table_of_ones_own_are_on_the_first_screen() -> None:
    top = LINES[:32]
    assert top.index("```sh") < 8 and top[top.index("```sh") + 1].startswith("make demo ")
    assert top[top.index("```sh") + 2].startswith("make test ")
    assert any(line.startswith("![") and "docs/assets/first_look.png" in line for line in top)
    commands = [line for line in top if line.startswith("$ ")]
    assert [words.split()[1:3] for words in commands[1:3]] == [["oddsmith", "fit"], ["oddsmith", "predict"]]
    assert (ROOT / "docs" / "assets" / "first_look.png").stat().st_size < 200_000


def test_features_are_a_table_and_speed_is_five_rows() -> None:
    features = LINES[LINES.index("## Features") : LINES.index("## What it does not do")]
    assert sum(line.startswith("| ") for line in features) > 12 and not any(line.startswith("- ") for line in features)
    speed = LINES[LINES.index("## Speed") : LINES.index("<details>")]
    assert sum(line.startswith("| ") for line in speed) == 6
