"""Files of older schemas load, those of newer ones are refused in a sentence."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.persistence.mutate import seal
from tests.persistence.test_damage import parts

import oddsmith
from oddsmith.errors import ModelFileError
from oddsmith.models import MODELS
from oddsmith.persistence import SCHEMA, decode, describe, encode, register, schema

VERSION_1 = Path(__file__).with_name("version_1")
EXPECTED = json.loads((VERSION_1 / "expected.json").read_text())
NAMES = sorted(set(EXPECTED) - {"rows"})


@pytest.mark.parametrize("name", NAMES)
def test_file_of_version_1_predicts_what_it_did_then(name: str) -> None:
    path = VERSION_1 / f"{name}.odds"
    assert describe(path)["schema"] == SCHEMA and parts(path)[1]["schema"] == 1
    model = oddsmith.load(path)
    rows = np.array(EXPECTED["rows"])
    answer = model.predict_proba if hasattr(model, "predict_proba") else model.decision_function
    # Not to the bit: another machine adds in another order.
    np.testing.assert_allclose(answer(rows), EXPECTED[name]["answers"], rtol=1e-9, atol=1e-12)
    assert [str(label) for label in model.predict(rows)] == EXPECTED[name]["labels"]


def test_there_is_a_file_of_every_model() -> None:
    there = {describe(VERSION_1 / f"{name}.odds")["model"] for name in NAMES}
    assert there == {kind.__name__ for _, kind in MODELS.items()}, "Add the new model in version_1/make.py, and run it."


def test_newer_schema_is_refused_in_a_sentence(tmp_path: Path) -> None:
    header, document, body = parts(VERSION_1 / "fisher.odds")
    (tmp_path / "m.odds").write_bytes(seal(header, {**document, "schema": SCHEMA + 1}, body))
    for ask in (oddsmith.load, describe):
        with pytest.raises(
            ModelFileError, match=rf"newer version .* \(schema {SCHEMA + 1}; .* up to {SCHEMA}\). Upgrade"
        ):
            ask(tmp_path / "m.odds")


def test_older_document_goes_through_every_migration_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(VERSION_1 / "fisher.odds", tmp_path / "m.odds")
    seen = []

    def rename(document: dict[str, Any]) -> dict[str, Any]:
        """What a version would do in which ``shrinkage`` got another name in files, and back."""
        seen.append(document["schema"])
        model = document["model"]
        old, new = ("shrinkage", "ridge") if document["schema"] == 1 else ("ridge", "shrinkage")
        renamed = {new if name == old else name: part for name, part in model["fields"].items()}
        return {**document, "model": {**model, "fields": renamed}}

    monkeypatch.setattr(schema, "SCHEMA", 3)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: rename, 2: rename})
    model = oddsmith.load(tmp_path / "m.odds")
    assert seen == [1, 2]
    np.testing.assert_allclose(model.predict_proba(EXPECTED["rows"]), EXPECTED["fisher"]["answers"], rtol=1e-9)


def test_every_older_version_has_a_migration() -> None:
    assert sorted(schema.MIGRATIONS) == list(range(1, SCHEMA))


def test_what_came_into_a_class_later_gets_its_default() -> None:
    @register
    @dataclass(frozen=True)
    class Grown:
        old: int
        new: tuple[int, ...] = (1, 2)

    node, tensors = encode(Grown(5, (3,)))
    del node["fields"]["new"]
    assert decode(node, tensors) == Grown(5)
    del node["fields"]["old"]
    with pytest.raises(ModelFileError, match="A Grown in it lacks its field 'old'"):
        decode(node, tensors)


def test_parameter_that_came_into_a_model_later_gets_its_default() -> None:
    node, tensors = encode(oddsmith.load(VERSION_1 / "fisher.odds"))
    del node["fields"]["shrinkage"]
    assert decode(node, tensors).shrinkage == oddsmith.FisherDiscriminant().shrinkage
