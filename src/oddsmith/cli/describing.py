"""``oddsmith summary`` and ``oddsmith datasets``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.output import note, print_json, print_line, print_table, warnings_as_sentences
from oddsmith.cli.running import guarded

SUMMARY_EXAMPLES = (
    "oddsmith summary penguins.odds",
    "oddsmith summary budworm.odds --level 0.9 --json",
)
DATASETS_EXAMPLES = ("oddsmith datasets", "oddsmith datasets penguins -o penguins.csv")


@guarded
def summary(model: options.Model, level: options.Level = 0.95, as_json: options.Json = False) -> None:
    """Show what a model has learned: weights with errors and intervals, or the parameters of its densities."""
    from oddsmith.cli.loading import load_model
    from oddsmith.errors import OddsmithError
    from oddsmith.models.saving import provenance

    fitted = load_model(model)
    with warnings_as_sentences() as said:
        try:
            found = fitted.summary(level=level) if hasattr(fitted, "summary") else None
        except OddsmithError as error:
            # An average of SGD's last weights, say, has no errors: what it has is shown.
            found, said = None, [str(error)]
    heading = f"{type(fitted).__name__} of {len(fitted.classes_)} classes" if found is None else found.title
    columns = _learned(fitted) if found is None else found.to_dict()
    notes = () if found is None else found.notes
    if as_json:
        facts = {"kind": type(fitted).__name__, **provenance(fitted), "classes": fitted.classes_}
        scores = (
            {}
            if found is None
            else {name: getattr(found, name) for name in ("log_likelihood", "deviance", "aic", "bic")}
        )
        print_json({**facts, **scores, "columns": columns, "notes": notes, "warnings": said})
        return
    print_line(heading, "bold")
    if found is None:
        print_table(columns, group="class")
    else:
        cells = dict(zip(columns, map(list, zip(*found._cells()[2], strict=True)), strict=True))
        shrinking = ("posterior_sd", "std_error", "z", "odds_ratio")
        print_table(columns, headers=found._header, optional=shrinking, group="class", formatted=cells)
    for line in notes:
        print_line(line)


@guarded
def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, to print or write out.")] = None,
    output: options.Table = None,
    as_json: options.Json = False,
) -> None:
    """List the bundled data sets, or write one of them."""
    from oddsmith.data import DATASETS

    if name is None:
        columns: dict[str, list[Any]] = {}
        for table in DATASETS.values():
            for key, value in vars(table).items():
                columns.setdefault(key, []).append(value)
        if as_json:
            print_json({"datasets": [vars(table) for table in DATASETS.values()]})
        else:
            print_table(columns, optional=("rows", "columns", "licence"))
        return
    from oddsmith.cli.writing import table_writer
    from oddsmith.data import load_dataset

    table = load_dataset(name)
    with table_writer(output, as_json) as writer:
        writer.write(table)
    if as_json and output is not None:
        print_json({"file": output, "rows": writer.rows})
    elif output is not None:
        note(f"Wrote {writer.rows:,} rows to {output}.")


def _learned(model: Any) -> dict[str, list[Any]]:
    """Return what a model without a summary knows, class by class: its weights, or the parameters of its densities."""
    classes = [str(label) for label in model.classes_.tolist()]
    names = [str(name) for name in model._names()] if hasattr(model, "_names") else []
    if hasattr(model, "coef_") and len(names) == model.coef_.shape[1]:
        labels = classes if len(model.coef_) == len(classes) else classes[-1:]
        if len(model.coef_) > 1 and hasattr(model, "models_"):  # of each class, or of each pair of classes
            labels = [" | ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in model.models_]
        rows = [
            (label, term, "weight", float(value))
            for label, row, start in zip(labels, model.coef_, model.intercept_, strict=True)
            for term, value in [("(intercept)", start), *zip(names, row, strict=True)]
        ]
    else:
        rows = [row for k, label in enumerate(classes) for row in _density(model, names, k, label)]
    return dict(zip(("class", "term", "parameter", "value"), map(list, zip(*rows, strict=True)), strict=True))


def _density(model: Any, names: list[str], k: int, label: str) -> Iterator[tuple[str, str, str, float]]:
    """Yield what is known of class k: its share, then the parameters of each column."""
    if getattr(model, "class_prior_", None) is not None:
        yield label, "(class)", "share", float(model.class_prior_[k])
    for column, parameters in getattr(model, "parameters_", {}).items():
        levels = getattr(model, "levels_", {}).get(column)
        for parameter, values in parameters.items():
            if levels is None:
                yield label, str(column), parameter, float(values[k])
            else:
                for level, value in zip(levels, values[k], strict=True):
                    yield label, f"{column}[{level}]", parameter, float(value)
    if hasattr(model, "means_"):
        for j, name in enumerate(names):
            yield label, name, "mean", float(model.means_[k, j])
