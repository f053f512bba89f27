"""``oddsmith report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oddsmith.cli import options
from oddsmith.cli.output import note, print_json, warnings_as_sentences, working
from oddsmith.cli.running import guarded

REPORT_EXAMPLES = (
    "oddsmith report penguins.odds penguins --target species -o penguins.html",
    "oddsmith report cancer.odds breast_cancer -t diagnosis --loss '[[0, 1], [10, 0]]' --reject 0.3 -o cancer.html",
)


@guarded
def report(
    model: options.Model,
    data: options.Data,
    target: options.Target,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The page to write.", show_default=False)
    ],
    loss: options.Loss = None,
    reject: options.Reject = None,
    title: Annotated[str | None, typer.Option(help="Above the page.", show_default=False)] = None,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that counts rows.")] = None,
    offset: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of offsets, for a model that was fitted with one.")
    ] = None,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write one self-contained HTML page on a model and a table: data, fit, calibration, decisions, signature.

    With the rows of the fit its scores are by leave-one-out where the model has that; else they are those of the rows.
    """
    from oddsmith.cli.data import check_apart, open_data
    from oddsmith.cli.loading import load_model
    from oddsmith.cli.making import check_column
    from oddsmith.cli.specs import read_loss, read_reject
    from oddsmith.models.answering import expected_types, inputs

    check_apart(output, model, data)
    fitted = load_model(model)
    classes = fitted.classes_.tolist()
    with warnings_as_sentences() as said, working(f"reading {data}") as update:
        table = open_data(data).table(expected_types(fitted))
        check_column(table, target, "--target")
        given = {"--weights": weights, "--offset": offset}
        for option, name in given.items():
            if name is not None:
                check_column(table, name, option)
        update(f"describing {table.num_rows:,} rows")
        aside = [target, *(name for name in given.values() if name is not None)]
        rows = inputs(fitted, table if hasattr(fitted, "feature_names_in_") else table.drop_columns(aside), repr(data))
        fitted.report(
            rows,
            table[target].to_numpy(),
            output,
            loss=None if loss is None else read_loss(loss, classes),
            reject=None if reject is None else read_reject(reject, classes),
            title=f"{type(fitted).__name__} of {target}" if title is None else title,
            sample_weight=None if weights is None else table[weights].to_numpy(),
            offset=None if offset is None else table[offset].to_numpy(),
            model_path=model,
            level=level,
            seed=seed,
        )
    if as_json:
        print_json({"file": output, "rows": table.num_rows, "bytes": Path(output).stat().st_size, "warnings": said})
    else:
        note(f"Wrote {output}. Open it in a browser.")
