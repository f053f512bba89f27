"""``oddsmith summary`` and ``oddsmith datasets``."""

from __future__ import annotations

from typing import Annotated

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import print_json, print_line, print_table, warnings_as_sentences


@command("oddsmith summary penguins.odds", "oddsmith summary budworm.odds --level 0.9 --json")
def summary(model: options.ModelFile, level: options.Level = 0.95, as_json: options.Json = False) -> None:
    """Show what a model has learned: weights with errors and intervals, or the parameters of its densities."""
    from oddsmith.cli.data import load_model
    from oddsmith.errors import OddsmithError
    from oddsmith.models.logistic import LogisticRegression
    from oddsmith.persistence.model_file import provenance
    from oddsmith.report.parameters import parameter_table

    fitted = load_model(model)
    with warnings_as_sentences() as texts:
        try:
            found = fitted.summary(level=level) if isinstance(fitted, LogisticRegression) else None
        except OddsmithError as error:
            # An average of SGD's last weights, say, has no errors: what it has is shown.
            found, texts = None, [str(error)]
    heading = f"{type(fitted).__name__} of {len(fitted.classes_)} classes" if found is None else found.title
    columns = parameter_table(fitted) if found is None else found.to_dict()
    notes = () if found is None else found.notes
    if as_json:
        facts = {"kind": type(fitted).__name__, **provenance(fitted), "classes": fitted.classes_}
        names = ("log_likelihood", "deviance", "aic", "bic") if found is not None else ()
        scores = {name: getattr(found, name) for name in names}
        print_json({**facts, **scores, "columns": columns, "notes": notes, "warnings": texts})
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


@command("oddsmith datasets", "oddsmith datasets penguins -o penguins.csv")
def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, to print or write out.")] = None,
    output: options.TableOutput = None,
    as_json: options.Json = False,
) -> None:
    """List the bundled data sets, or write one of them."""
    from oddsmith.data import DATASETS

    if name is None:
        tables = [vars(table) for table in DATASETS.values()]
        if as_json:
            print_json({"datasets": tables})
        else:
            columns = {key: [table[key] for table in tables] for key in tables[0]}
            print_table(columns, optional=("rows", "columns", "licence"))
        return
    from oddsmith.cli.table_output import print_written, write_rows
    from oddsmith.data import load_dataset

    print_written(write_rows([load_dataset(name)], name, output, as_json), output, as_json)
