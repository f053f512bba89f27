"""``oddsmith report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import note, print_json, spinner, warnings_as_sentences

OFFSET = "The column of offsets, for a model that was fitted with one."


@command(
    "oddsmith report penguins.odds penguins --target species -o penguins.html",
    "oddsmith report cancer.odds breast_cancer -t diagnosis --loss '[[0, 1], [10, 0]]' --reject 0.3 -o cancer.html",
)
def report(
    model: options.ModelFile,
    data: options.Data,
    target: options.Target,
    output: Annotated[str, options.output("The page to write.")],
    loss: options.Loss = None,
    reject: options.Reject = None,
    title: Annotated[str | None, options.option("Above the page.")] = None,
    weights: options.Weights = None,
    offset: Annotated[str | None, options.option(OFFSET, metavar="COLUMN")] = None,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write one self-contained HTML page on a model and a table: data, fit, calibration, decisions, signature.

    With the rows of the fit its scores are by leave-one-out where the model has that; else they are those of the rows.
    """
    from oddsmith.cli.data import check_apart, check_column, load_model, open_data
    from oddsmith.cli.spec_parser import read_costs
    from oddsmith.data_access.streamed_prediction import columns_of, expected_types, model_inputs

    check_apart(output, model, data)
    fitted = load_model(model)
    with warnings_as_sentences() as texts, spinner(f"reading {data}") as update:
        table = open_data(data).table(expected_types(fitted))
        given = {"--target": target, "--weights": weights, "--offset": offset}
        named = {option: name for option, name in given.items() if name is not None}
        for option, name in named.items():
            check_column(table.column_names, name, option)
        update(f"describing {table.num_rows:,} rows")
        columns = table.drop_columns(list(named.values())) if columns_of(fitted) is None else table
        fitted.report(
            model_inputs(fitted, columns, repr(data)),
            table[target].to_numpy(),
            output,
            **read_costs(loss, reject, fitted.classes_),
            title=f"{type(fitted).__name__} of {target}" if title is None else title,
            sample_weight=None if weights is None else table[weights].to_numpy(),
            offset=None if offset is None else table[offset].to_numpy(),
            model_path=model,
            level=level,
            seed=seed,
        )
    if as_json:
        print_json({"file": output, "rows": table.num_rows, "bytes": Path(output).stat().st_size, "warnings": texts})
    else:
        note(f"Wrote {output}. Open it in a browser.")
