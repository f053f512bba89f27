"""``oddsmith summary`` and ``oddsmith datasets``."""

from __future__ import annotations

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
    from oddsmith.report.parameters import learned_parameters

    fitted = load_model(model)
    with warnings_as_sentences() as said:
        try:
            found = fitted.summary(level=level) if hasattr(fitted, "summary") else None
        except OddsmithError as error:
            # An average of SGD's last weights, say, has no errors: what it has is shown.
            found, said = None, [str(error)]
    heading = f"{type(fitted).__name__} of {len(fitted.classes_)} classes" if found is None else found.title
    columns = learned_parameters(fitted) if found is None else found.to_dict()
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
