"""What the Python scripts of this folder share: reading a case, and writing its record."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """Columns and classes of a table in ``data/``; the first class is the reference."""

    data: str
    target: str
    classes: list[Any]
    columns: list[str]
    weights: str | None = None

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the features, N × D, and the number of each row's class; a row of weight 3 is there three times."""
        with open(FOLDER / "data" / self.data, encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) for _ in range(int(row[self.weights]) if self.weights else 1)]
        names = [str(label) for label in self.classes]
        X = np.array([[float(row[column]) for column in self.columns] for row in rows])
        return X, np.array([names.index(row[self.target]) for row in rows])


def standardised(X: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the columns with mean 0 and (dividing by N) variance 1, and the fields that say how."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    return (X - center) / scale, {"center": center, "scale": scale}


def park_miller(count: int, seed: int) -> np.ndarray:
    """Return so many whole numbers of Park and Miller's generator."""
    draws, state = np.empty(count, dtype=np.int64), seed
    for i in range(count):
        state = 16807 * state % 2147483647
        draws[i] = state
    return draws


def rule_table(rows: int, levels: int, seed: int, values: int) -> dict[str, list[Any]]:
    """Return the columns of ``rule_table`` in factors.R: a rule in whole numbers, from those of Park and Miller."""
    d = park_miller(4 * rows, seed).reshape(rows, 4).T
    g, h, k = d[0] % levels, d[1] % 3, d[2] % values
    threshold = 200 + 37 * g % 301 + 80 * h + 200 * k // values
    texts = {"g": [f"g{i:04}" for i in g.tolist()], "h": ["pqr"[i] for i in h.tolist()]}
    return {**texts, "x": (k / 8).tolist(), "y": (d[3] % 1000 < threshold).astype(int).tolist()}


def sparse_rule(rows: int, columns: int, seed: int, kind: str, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and the labels of ``sparse_rule`` in lasso.R."""
    draws = park_miller(rows * (columns + 3), seed).reshape(rows, columns + 3)
    b = draws % 17 - 8
    v = b[:, :columns]
    if kind == "neighbours":
        v = v + b[:, 1 : columns + 1] + b[:, 2 : columns + 2]
    if kind == "sparse":
        v = np.where(draws[:, :columns] // 17 % 16 == 0, v, 0)
    effect = np.resize([3, -2, 0, 0, 2, -1, 0, 1], columns)
    if kind != "sparse":
        effect[8:] = 0
    score = v @ effect + draws[:, columns + 2] % 41 - 20
    y = (score > 0).astype(np.int64) if classes == 2 else (score > -10).astype(np.int64) + (score > 10)
    return v / 8, y


def save(name: str, table: Table, answers: dict[str, Any], packages: list[str]) -> None:
    """Write ``name.json``, with the fields that say which data it is about."""
    header = {
        "data": table.data,
        "target": table.target,
        "columns": table.columns,
        "weights": table.weights,
        "offset": None,
        "classes": table.classes,
    }
    write(name, {**header, **answers}, packages)


def write(name: str, answers: dict[str, Any], packages: list[str]) -> None:
    """Write ``name.json``, every float with all its digits and innermost lists on one line."""
    record = {"name": name, **answers, "packages": {package: version(package) for package in packages}}
    text = json.dumps(record, indent=2, default=lambda x: x.tolist(), ensure_ascii=False, allow_nan=False)
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{name}.json")


BIRTHWT = Table(
    "birthwt.csv", "low", [0, 1], ["age", "lwt", "race_black", "race_other", "smoke", "ptl", "ht", "ui", "ftv"]
)
PIMA = Table("pima.csv", "type", ["No", "Yes"], ["npreg", "glu", "bp", "skin", "bmi", "ped", "age"])
BIOPSY = Table("biopsy.csv", "class", ["benign", "malignant"], [f"V{i}" for i in range(1, 10)])
INFERT = Table(
    "infert.csv", "case", [0, 1], ["age", "parity", "education_6_11", "education_12_up", "spontaneous", "induced"]
)
INFERT_EDUCATION = Table(
    "infert.csv",
    "education",
    ["0-5yrs", "6-11yrs", "12+ yrs"],
    ["age", "parity", "induced", "spontaneous", "case"],
)
PENGUINS = Table(
    "penguins.csv",
    "island",
    ["Biscoe", "Dream", "Torgersen"],
    ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "sex_male"],
)
