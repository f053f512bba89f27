"""The demonstration behind ``make demo``: three penguin species from four body measurements."""

from __future__ import annotations

import csv
import gzip
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.data import dataset_path

COLUMNS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")


def penguins() -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Return measurements and species of the penguins without missing measurements.

    >>> X, species = penguins()
    >>> X.shape, sorted(set(species.tolist()))
    ((342, 4), ['Adelie', 'Chinstrap', 'Gentoo'])
    """
    with gzip.open(dataset_path("penguins"), "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if all(row[name] not in ("", "NA") for name in COLUMNS)]
    X = np.array([[float(row[name]) for name in COLUMNS] for row in rows])
    return X, np.array([row["species"] for row in rows])


def main() -> None:
    """Fit, certify, and predict; print what a reader should see."""
    from rich.console import Console
    from rich.table import Table

    from oddsmith import LogisticRegression

    console = Console()
    X, species = penguins()
    model = LogisticRegression(prior=2.0).fit(X, species)
    console.print(f"[bold]{len(X)} penguins, {len(COLUMNS)} measurements, softmax regression with a prior of σ = 2[/]")
    weights = Table("weights", *map(str, model.classes_))
    for term, values in zip(("(intercept)", *COLUMNS), [model.intercept_, *model.coef_.T], strict=True):
        weights.add_row(term, *(f"{value:.4f}" for value in values))
    console.print(weights)
    certificate = Table("certificate", "", show_header=True)
    for name, (value,) in model.certificate_.to_dict().items():
        certificate.add_row(name, f"{value:.3g}" if isinstance(value, float) else str(value))
    console.print(certificate)
    console.print(f"log likelihood {model.log_likelihood_:.4f}, training accuracy {model.score(X, species):.3f}")
    for row in (0, 200, 300):
        chances = ", ".join(
            f"{c}: {p:.3f}" for c, p in zip(model.classes_, model.predict_proba(X[[row]])[0], strict=True)
        )
        console.print(f"penguin {row} ({species[row]}): {chances}")


if __name__ == "__main__":
    main()
