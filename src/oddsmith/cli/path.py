"""``oddsmith path``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli import output as terminal
from oddsmith.cli.command import command

if TYPE_CHECKING:
    from oddsmith.evaluation.regularization_path import RegularizationPath

PRIOR = "laplace, with options besides the scale: laplace(1, groups='factor'), laplace:1,gaussian=2."


@command(
    "oddsmith path breast_cancer -t diagnosis --basis standardize --cv 5",
    "oddsmith path penguins -t species --basis standardize --missing drop --prior \"laplace(1, groups='class')\" "
    "-o path.csv --plot path.png",
)
def path(
    data: options.Data,
    target: options.Target,
    basis: options.Basis = None,
    prior: Annotated[str, options.option(PRIOR)] = "laplace:1",
    cv: Annotated[int | None, typer.Option(min=2, help="Number of folds, for the choices min and 1se.")] = None,
    n: Annotated[int, typer.Option("-n", "--scales", min=2, help="Number of scales.")] = 100,
    weights: options.Weights = None,
    missing: options.Missing = None,
    unseen: options.Unseen = None,
    unlabelled: options.Unlabelled = None,
    ignore: options.Ignore = None,
    output: Annotated[str | None, options.output("Write a table: scales, criteria, weights.")] = None,
    plot: Annotated[str | None, options.option("Write a figure: .png, .svg or .pdf.", metavar="FILE")] = None,
    seed: options.Seed = 0,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Fit logistic regression at many scales of a Laplace prior, and choose one.

    The smaller the scale, the fewer columns have a nonzero weight. Then fit the model at the chosen scale: oddsmith fit
    DATA --prior laplace:SCALE.
    """
    from oddsmith.cli.data import check_output, open_data
    from oddsmith.cli.data_lint import check_columns
    from oddsmith.cli.model_spec import ModelSpec
    from oddsmith.cli.table_fit import ColumnRoles, drops_unlabelled, with_target
    from oddsmith.engines.files.dialect import TextDialect
    from oddsmith.errors import InvalidInputError
    from oddsmith.evaluation.regularization_path import regularization_path
    from oddsmith.priors import LaplacePrior

    model = ModelSpec(model="logistic", basis=basis, prior=prior, missing=missing, unseen=unseen).build()
    if not isinstance(model.prior, LaplacePrior):
        raise InvalidInputError(f"A path needs a laplace prior, found --prior {prior}. Use --prior laplace:1.")
    for file in (output, plot):
        check_output(file, data)
    opened = open_data(data, TextDialect(encoding, delimiter, decimal))
    with terminal.warnings_as_sentences() as texts, terminal.spinner(f"reading {data}") as update:
        columns = ColumnRoles(target, weights, ignore)
        table = columns.read(opened)
        check_columns(table, target, data)
        with opened.locating():
            table, rows = with_target(table, target, drop=drops_unlabelled(unlabelled, missing))
        table, given = columns.split_weights(table)
        update(f"fitting {n} scales to {table.num_rows:,} rows")
        with opened.locating(rows):
            found = regularization_path(table, target, n=n, prior=model.prior, cv=cv, model=model, seed=seed, **given)
        choices = _choices(found)
        _warn_of_the_end(found, choices)
    if output is not None:
        _write(found, output)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        terminal.print_json({"choices": choices, "path": found.to_dict(), "warnings": texts})
        return
    terminal.print_table({**choices, "columns": [_listed(names) for names in choices["columns"]]})
    for file in (output, plot):
        if file is not None:
            terminal.note(f"Wrote {file}.")
    terminal.note(f"To fit one: oddsmith fit {data} -t {target} --prior laplace:SCALE -o model.odds")


def _choices(found: RegularizationPath) -> dict[str, list[Any]]:
    """Return the selection of each criterion: scale, number of columns, their names."""
    names = [*(("min", "1se") if found.cv_loss is not None else ()), "aic", "bic", "ebic"]
    return {
        "choice": names,
        "scale": [found.best(name) for name in names],
        "n_selected": [int(found.n_selected[found.index(name)]) for name in names],
        "columns": [found.selected(name) for name in names],
    }


def _warn_of_the_end(found: RegularizationPath, choices: dict[str, list[Any]]) -> None:
    from oddsmith.errors import OddsmithWarning

    last = [name for name, scale in zip(choices["choice"], choices["scale"], strict=True) if scale == found.scales[-1]]
    if last:
        warnings.warn(
            f"The last scale is the choice of {', '.join(last)}: a larger one may be better. Use --basis standardize "
            "if the columns have different spreads, or fit with --prior laplace:cv, which tries larger scales too.",
            OddsmithWarning,
            stacklevel=2,
        )


def _listed(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f", … {len(names) - most} more" if len(names) > most else "")


def _write(found: RegularizationPath, file: str) -> None:
    import pyarrow as pa

    from oddsmith.cli.table_output import write_rows

    columns, weights = found.to_dict(), found.weight_table()
    taken = {f"weight of {name}" if name in columns else name: values for name, values in weights.items()}
    del taken["weight of scale"]
    write_rows([pa.table({**columns, **taken})], file, file, as_json=False)


def _draw(found: RegularizationPath, file: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from oddsmith.lectures.gallery import save
    from oddsmith.plots import WeightPathDisplay

    save(WeightPathDisplay.from_path(found).plot().figure_, file)
