"""``oddsmith predict``, ``decide``, ``evaluate`` and ``sample``: what a fitted model is for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import print_json, print_line, print_table, spinner, warnings_as_sentences

if TYPE_CHECKING:
    import pyarrow as pa

    from oddsmith.data_access.prediction_table import PredictionTable
    from oddsmith.engines.files.dialect import TextDialect
    from oddsmith.models.base import Classifier

Keep = Annotated[list[str] | None, options.option("A column of DATA to copy; repeat it for more.", metavar="COLUMN")]
Kept = list[str] | None  # Columns to copy; None: all.
INTERVALS = "Intervals of the probabilities, from the posterior."
RAW = (
    "Write text to CSV unchanged; by default, text that a spreadsheet would run as a formula gets a leading apostrophe."
)
Raw = Annotated[bool, options.option(RAW, "--raw-text")]
All = Annotated[bool, typer.Option("--keep-all", help="Copy all columns of DATA.")]


@command(
    "oddsmith predict penguins.odds penguins -o predictions.parquet",
    "oddsmith predict penguins.odds penguins --keep species --keep island --intervals -o predictions.csv",
)
def predict(
    model: options.ModelFile,
    data: options.DataFiles,
    output: options.TableOutput = None,
    keep: Keep = None,
    keep_all: All = False,
    raw: Raw = False,
    intervals: Annotated[bool, options.option(INTERVALS, "--intervals")] = False,
    level: options.Level = 0.95,
    memory: options.Memory = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Predict the class of each row, with the probability of every class.

    The columns are 'predicted' and 'p_CLASS' for each class; with --intervals also 'lower_CLASS' and 'upper_CLASS'.
    Rows are read and written in batches, so the table need not fit into memory.
    """
    from oddsmith.cli.data import load_model
    from oddsmith.data_access.prediction_table import make_prediction_table
    from oddsmith.engines.files.dialect import TextDialect

    predictions = make_prediction_table(load_model(model), intervals=intervals, level=level)
    dialect = TextDialect(encoding, delimiter, decimal)
    settings = StreamSettings(output=output, memory=memory, dialect=dialect, raw=raw, as_json=as_json)
    _stream(predictions, data, None if keep_all else keep or [], settings)


@command(
    "oddsmith decide penguins.odds penguins --reject 0.1 -o decisions.csv",
    'oddsmith decide budworm.odds budworm --loss \'{"no": {"spray": 1, "wait": 0}, "yes": {"spray": 0, "wait": 5}}\'',
)
def decide(
    model: options.ModelFile,
    data: options.DataFiles,
    loss: options.Loss = None,
    reject: options.Reject = None,
    output: options.TableOutput = None,
    keep: Keep = None,
    keep_all: All = False,
    raw: Raw = False,
    memory: options.Memory = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Choose an action for each row: the one with the smallest expected loss, or none.

    The columns are 'decision', 'expected_loss' and, with --reject, 'rejected': rejected rows have an empty decision.
    """
    from oddsmith.cli.data import load_model
    from oddsmith.cli.model_spec import read_costs
    from oddsmith.data_access.prediction_table import PredictionTable
    from oddsmith.decision.loss import read_loss
    from oddsmith.engines.files.dialect import TextDialect

    fitted = load_model(model)
    costs = read_costs(loss, reject, fitted.classes_)
    matrix = read_loss(costs["loss"], fitted.classes_)
    predictions = PredictionTable(model=fitted, predicted=False, proba=False, loss=matrix, reject=costs["reject"])
    dialect = TextDialect(encoding, delimiter, decimal)
    settings = StreamSettings(output=output, memory=memory, dialect=dialect, raw=raw, as_json=as_json)
    _stream(predictions, data, None if keep_all else keep or [], settings)


@command(
    "oddsmith evaluate penguins.odds penguins --target species",
    "oddsmith evaluate cancer.odds breast_cancer -t diagnosis --loss '[[0, 1], [5, 0]]' --json",
)
def evaluate(
    model: options.ModelFile,
    data: options.DataFiles,
    target: options.Target,
    loss: options.Loss = None,
    reject: options.Reject = None,
    bins: Annotated[int, typer.Option(help="Bins of the calibration scores.")] = 10,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    unlabelled: options.UnlabelledRows = None,
    memory: options.Memory = None,
    cache: options.Cache = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Evaluate a model on a table: proper scores, calibration, ranking and costs, each with an interval.

    Use rows that it was not fitted to: scores on its training rows are optimistic.
    """
    from oddsmith.cli.data import check_column, load_model, open_data
    from oddsmith.cli.model_spec import read_costs
    from oddsmith.cli.table_fit import drops_unlabelled, with_target
    from oddsmith.data_access.streamed_prediction import expected_types, model_inputs
    from oddsmith.decision.actions import REJECT
    from oddsmith.engines.files.dialect import TextDialect
    from oddsmith.evaluation import scoring

    fitted = load_model(model)
    settings: dict[str, Any] = {"bins": bins, "level": level, "seed": seed, **read_costs(loss, reject, fitted.classes_)}
    opened = open_data(data, TextDialect(encoding, delimiter, decimal))
    with warnings_as_sentences() as texts, opened.locating():
        pieces = opened.pieces(memory=memory, cache=cache)
        if pieces is not None:
            check_column(pieces.columns, target, "--target")
            result = scoring.evaluate(fitted, pieces, target, unlabelled=unlabelled or "error", **settings)
        else:
            with spinner(f"reading {opened.name}") as update:
                table = opened.table(expected_types(fitted))
                check_column(table.column_names, target, "--target")
                update(f"evaluating {table.num_rows:,} rows")
                table, kept = with_target(table, target, drop=drops_unlabelled(unlabelled), other="")
                rows = model_inputs(fitted, table, repr(opened.name))
                with opened.locating(kept):
                    result = scoring.evaluate(fitted, rows, table[target].to_numpy(), **settings)
        _warn_weighted(fitted)
    if as_json:
        scores = {name: vars(score) for name, score in result.scores.items()}
        decided = ["reject" if label is REJECT else label for label in result.decisions]
        confusion = {"classes": result.classes, "decisions": decided, "counts": result.confusion}
        print_json({"rows": result.n_rows, "level": level, "scores": scores, "confusion": confusion, "warnings": texts})
        return
    print_line(f"{type(fitted).__name__} on {result.n_rows:,} rows of {opened.name}, {level:.0%} intervals", "bold")
    print_table(result.to_dict(), optional=("interval",))
    print_line("")
    by = "prediction" if loss is None and reject is None else "decision under the loss"
    print_line(f"Rows by true class, columns by {by}", "bold")
    names = [str(label) for label in result.classes.tolist()]
    decided = ["no decision" if label is REJECT else str(label) for label in result.decisions]
    counts = {f"{name} ": result.confusion[:, k].tolist() for k, name in enumerate(decided)}
    print_table({"": names, **counts}, headers=str.strip)


def _warn_weighted(model: Classifier) -> None:
    """Warn that rows count once here, if the model was fitted with weights."""
    from oddsmith.design.class_weight import sample_weight_sum
    from oddsmith.errors import OddsmithWarning
    from oddsmith.models.logistic import LogisticRegression

    learned = model._learned if isinstance(model, LogisticRegression) else None
    total = 0.0 if learned is None else sample_weight_sum(model, learned.class_weight)
    if learned is not None and abs(total - learned.n_rows) > 1e-9 * learned.n_rows:
        text = "The model was fitted with weights, but these scores count every row once. "
        warnings.warn(f"{text}Repeat each row by its weight to count it.", OddsmithWarning, stacklevel=2)


@command("oddsmith sample iris.odds --rows 100 --seed 1 --target species -o drawn.csv")
def sample(
    model: options.ModelFile,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows to draw.")] = 10,
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="Name of the class column.")
    ] = "class",
    seed: options.Seed = 0,
    output: options.TableOutput = None,
    as_json: options.Json = False,
) -> None:
    """Draw rows and classes from a generative model (gaussian, naive-bayes)."""
    from oddsmith.cli.data import load_model
    from oddsmith.cli.table_output import print_written, write_rows

    table = _sample_table(load_model(model), rows, target, seed)
    print_written(write_rows([table], model, output, as_json), output, as_json)


def _sample_table(model: Classifier, n: int, target: str, seed: int) -> pa.Table:
    """Return n rows and their classes from a generative model.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> _sample_table(model, 3, "class", 0).column_names
    ['x0', 'class']
    """
    import numpy as np
    import pyarrow as pa

    from oddsmith.cli.table_output import add_columns
    from oddsmith.design.fitted_basis import input_names
    from oddsmith.errors import InvalidInputError
    from oddsmith.models.generative_mixin import GenerativeMixin

    if not isinstance(model, GenerativeMixin):
        raise InvalidInputError(
            f"{type(model).__name__} models how classes depend on columns, not how columns are distributed: it cannot "
            f"generate rows. Fit --model gaussian or naive-bayes for that."
        )
    rows, labels = model.sample(n, seed=seed)
    if isinstance(rows, np.ndarray):
        table = pa.table({str(name): rows[:, j] for j, name in enumerate(input_names(model))})
    else:
        import narwhals as nw

        table = nw.from_native(rows, eager_only=True).to_arrow()
    return add_columns(table, table.column_names, pa.table({target: pa.array(labels.tolist())}))


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """How rows are read and predictions written: values of --output, --memory, --raw-text and --json, and a dialect."""

    output: str | None
    memory: str | None
    dialect: TextDialect
    raw: bool
    as_json: bool


def _stream(predictions: PredictionTable, data: list[str], keep: Kept, settings: StreamSettings) -> None:
    """Write predictions for each row, some rows at a time."""
    from oddsmith.cli.data import check_column, check_output, open_data
    from oddsmith.cli.table_output import predict_batches, print_written, write_rows
    from oddsmith.data_access.prediction_table import predict_tables
    from oddsmith.errors import InvalidInputError

    output, as_json = settings.output, settings.as_json
    check_output(output, *data)
    opened = open_data(data, settings.dialect)
    calls = count()

    def write(tables: Iterator[pa.Table]) -> int:
        # If a later row needs wider types, the tables start again, which only a file can.
        if next(calls) and output in (None, "-"):
            raise InvalidInputError(
                f"The first rows of {opened.name!r} have other types than later ones, and their output above may be "
                f"wrong. Write to a file with -o, which restarts it in that case."
            )
        return write_rows(tables, opened.name, output, as_json, escape=not settings.raw)

    with warnings_as_sentences():
        pieces = opened.pieces(memory=settings.memory)
        if pieces is None:
            with spinner(f"reading {opened.name}") as update:
                found = predict_batches(predictions, opened, keep)
                rows = write_rows(found, opened.name, output, as_json, update, escape=not settings.raw)
        else:
            kept = list(pieces.columns) if keep is None else keep
            for name in kept:
                check_column(pieces.columns, name, "--keep")
            rows = predict_tables(predictions, pieces, kept, write)
    print_written(rows, output, as_json)
