"""``oddsmith summary``, ``report`` and ``datasets``: what a model has learned, and from what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import note, print_json, print_line, print_table, spinner, warnings_as_sentences

BY = "Show the scores for each value of this column (numbers: each quarter); repeat the option for more columns."
OFFSET = "The column of offsets, for a model that was fitted with one."


@command("oddsmith summary penguins.odds", "oddsmith summary budworm.odds --level 0.9 --json")
def summary(model: options.ModelFile, level: options.Level = 0.95, as_json: options.Json = False) -> None:
    """Show what a model has learned: weights with standard errors and intervals, or the parameters of its densities."""
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
    columns = parameter_table(fitted) if found is None else found.to_dict()
    notes = () if found is None else found.notes
    if as_json:
        facts = {"kind": type(fitted).__name__, **provenance(fitted), "classes": fitted.classes_}
        names = ("log_likelihood", "deviance", "aic", "bic") if found is not None else ()
        scores = {name: getattr(found, name) for name in names}
        print_json({**facts, **scores, "columns": columns, "notes": notes, "warnings": texts})
        return
    if found is None:
        print_line(f"{type(fitted).__name__} of {len(fitted.classes_)} classes", "bold")
        print_table(columns, group="class")
    else:
        print_line(found.title, "bold")
        cells = dict(zip(columns, map(list, zip(*found._cells()[2], strict=True)), strict=True))
        # Of a model without errors there are the largest estimates, and no empty columns.
        cells = {name: texts[: found.most_rows] for name, texts in cells.items() if any(texts)}
        columns = {name: columns[name][: found.most_rows] for name in cells}
        if found.most_rows < len(found.term):
            notes = (f"… and {len(found.term) - found.most_rows:,} more rows: --json has them all", *notes)
        shrinking = ("posterior_sd", "std_error", "z", "odds_ratio", "odds_lower", "odds_upper")
        print_table(columns, headers=found._header, optional=shrinking, group="class", formatted=cells)
    for line in notes:
        print_line(line)


@command(
    "oddsmith report penguins.odds penguins --target species -o penguins.html",
    "oddsmith report penguins.odds penguins -t species --by island --author 'A. Turing' -o penguins.html",
    "oddsmith report cancer.odds breast_cancer -t diagnosis --loss '[[0, 1], [10, 0]]' --reject 0.3 -o cancer.html",
)
def report(
    model: options.ModelFile,
    data: options.Data,
    target: options.Target,
    output: Annotated[str, options.output("The page to write.")],
    loss: options.Loss = None,
    reject: options.Reject = None,
    by: Annotated[list[str] | None, options.option(BY, "--by", metavar="COLUMN")] = None,
    title: Annotated[str | None, options.option("Title of the page.", metavar="TEXT")] = None,
    author: Annotated[str | None, options.option("Who made the model.", metavar="TEXT")] = None,
    purpose: Annotated[str | None, options.option("What the model is for.", metavar="TEXT")] = None,
    period: Annotated[str | None, options.option("When the data were collected.", metavar="TEXT")] = None,
    weights: options.Weights = None,
    offset: Annotated[str | None, options.option(OFFSET, metavar="COLUMN")] = None,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    unlabelled: options.UnlabelledRows = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Write one self-contained HTML page on a model and a table: data, fit, calibration, decisions, signature.

    On the training rows, scores are leave-one-out scores if the model has them; on other rows, plain scores.
    """
    from oddsmith.cli.data import check_column, check_output, load_model, open_data
    from oddsmith.cli.model_spec import read_costs
    from oddsmith.cli.table_fit import drops_unlabelled, with_target
    from oddsmith.data_access.streamed_prediction import columns_of, expected_types, model_inputs
    from oddsmith.engines.files.dialect import TextDialect

    check_output(output, model, data)
    fitted = load_model(model)
    opened = open_data(data, TextDialect(encoding, delimiter, decimal))
    with warnings_as_sentences() as texts, spinner(f"reading {data}") as update, opened.locating():
        table = opened.table(expected_types(fitted))
        given = {"--target": target, "--weights": weights, "--offset": offset}
        named = {option: name for option, name in given.items() if name is not None}
        for option, name in named.items():
            check_column(table.column_names, name, option)
        for name in by or []:
            check_column(table.column_names, name, "--by")
        table, kept = with_target(table, target, drop=drops_unlabelled(unlabelled), other="")
        update(f"describing {table.num_rows:,} rows")
        columns = table.drop_columns(list(named.values())) if columns_of(fitted) is None else table
        rows, labels = model_inputs(fitted, columns, repr(data)), table[target].to_numpy()
        heading = f"{type(fitted).__name__} of {target}" if title is None else title
        s, o = (None if name is None else table[name].to_numpy() for name in (weights, offset))
        how = read_costs(loss, reject, fitted.classes_) | {"title": heading, "level": level, "seed": seed}
        how |= {"author": author, "purpose": purpose, "period": period, "by": {name: table[name] for name in by or []}}
        how |= {"model_path": model, "data_path": opened.files}
        with opened.locating(kept):
            fitted.report(rows, labels, output, sample_weight=s, offset=o, **how)
    if as_json:
        print_json({"file": output, "rows": table.num_rows, "bytes": Path(output).stat().st_size, "warnings": texts})
    else:
        note(f"Wrote {output}. Open it in a browser.")


@command("oddsmith datasets", "oddsmith datasets penguins -o penguins.csv")
def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A data set to print or write.")] = None,
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
