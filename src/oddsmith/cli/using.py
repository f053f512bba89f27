"""``oddsmith predict``, ``decide``, ``evaluate`` and ``sample``: what a fitted model is for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.output import note, print_json, print_line, print_table, warnings_as_sentences, working
from oddsmith.cli.running import guarded

PREDICT_EXAMPLES = (
    "oddsmith predict penguins.odds penguins -o predictions.parquet",
    "oddsmith predict penguins.odds penguins --keep species --keep island --intervals -o predictions.csv",
)
DECIDE_EXAMPLES = (
    "oddsmith decide penguins.odds penguins --reject 0.1 -o decisions.csv",
    'oddsmith decide budworm.odds budworm --loss \'{"no": {"spray": 1, "wait": 0}, "yes": {"spray": 0, "wait": 5}}\'',
)
EVALUATE_EXAMPLES = (
    "oddsmith evaluate penguins.odds penguins --target species",
    "oddsmith evaluate cancer.odds breast_cancer -t diagnosis --loss '[[0, 1], [5, 0]]' --json",
)
SAMPLE_EXAMPLES = ("oddsmith sample iris.odds --rows 100 --seed 1 --target species -o drawn.csv",)

Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN", help="A column of DATA to copy; can be given again.", show_default=False),
]
All = Annotated[bool, typer.Option("--keep-all", help="Copy all columns of DATA.")]


@guarded
def predict(
    model: options.Model,
    data: options.Several,
    output: options.Table = None,
    keep: Keep = None,
    keep_all: All = False,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Intervals of the probabilities, from the posterior.")
    ] = False,
    level: options.Level = 0.95,
    memory: options.Memory = None,
    as_json: options.Json = False,
) -> None:
    """Predict the class of each row, with the probability of every class.

    The columns are 'predicted' and 'p_CLASS' for each class; with --intervals 'lower_CLASS' and 'upper_CLASS', too.
    Rows are read and written some at a time, so there may be more than fit into memory.
    """
    from oddsmith.cli.loading import load_model
    from oddsmith.models.writing import make_saying

    saying = make_saying(load_model(model), intervals=intervals, level=level)
    _stream(saying, data, output, keep or [], keep_all, memory, as_json)


@guarded
def decide(
    model: options.Model,
    data: options.Several,
    loss: options.Loss = None,
    reject: options.Reject = None,
    output: options.Table = None,
    keep: Keep = None,
    keep_all: All = False,
    memory: options.Memory = None,
    as_json: options.Json = False,
) -> None:
    """Decide for each row: the action of smallest expected loss, or none.

    The columns are 'decision', 'expected_loss' and with --reject 'rejected': such rows have an empty decision.
    """
    from oddsmith.cli import specs
    from oddsmith.cli.loading import load_model
    from oddsmith.decision.loss import read_loss
    from oddsmith.models.writing import Saying

    fitted = load_model(model)
    classes = fitted.classes_.tolist()
    costs = read_loss(None if loss is None else specs.read_loss(loss, classes), fitted.classes_)
    rejecting = None if reject is None else specs.read_reject(reject, classes)
    saying = Saying(fitted, predicted=False, proba=False, loss=costs, reject=rejecting)
    _stream(saying, data, output, keep or [], keep_all, memory, as_json)


@guarded
def evaluate(
    model: options.Model,
    data: options.Several,
    target: options.Target,
    loss: options.Loss = None,
    reject: options.Reject = None,
    bins: Annotated[int, typer.Option(help="Bins of the calibration scores.")] = 10,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    memory: options.Memory = None,
    cache: options.Cache = None,
    as_json: options.Json = False,
) -> None:
    """Measure a model on a table: proper scores, calibration, ranking and costs, each with an interval.

    Use rows that it was not fitted to: the scores of others are too good.
    """
    from oddsmith.cli.data import open_data
    from oddsmith.cli.loading import load_model
    from oddsmith.cli.making import check_column
    from oddsmith.cli.specs import read_loss, read_reject
    from oddsmith.evaluation.scoring import evaluate as run
    from oddsmith.models.answering import expected_types, inputs

    fitted = load_model(model)
    classes = fitted.classes_.tolist()
    costs = None if loss is None else read_loss(loss, classes)
    rejecting = None if reject is None else read_reject(reject, classes)
    opened = open_data(data)
    measured: dict[str, Any] = {"reject": rejecting, "bins": bins, "level": level, "seed": seed}
    with warnings_as_sentences() as said:
        pieces = opened.pieces(memory=memory, cache=cache)
        if pieces is not None:
            check_column(pieces.columns, target, "--target")
            result = run(fitted, pieces, target, costs, **measured)
        else:
            with working(f"reading {opened.name}") as update:
                table = opened.table(expected_types(fitted))
                check_column(table, target, "--target")
                update(f"evaluating {table.num_rows:,} rows")
                rows = inputs(fitted, table, repr(opened.name))
                result = run(fitted, rows, table[target].to_numpy(), costs, **measured)
        warn_weighted(fitted)
    if as_json:
        scores = {name: vars(score) for name, score in result.scores.items()}
        confusion = {"classes": result.classes, "counts": result.confusion}
        print_json({"rows": result.n_rows, "level": level, "scores": scores, "confusion": confusion, "warnings": said})
        return
    print_line(f"{type(fitted).__name__} on {result.n_rows:,} rows of {opened.name}, {level:.0%} intervals", "bold")
    print_table(result.to_dict(), optional=("interval",))
    print_line("")
    print_line("Rows by true class, columns by prediction", "bold")
    names = [str(label) for label in result.classes.tolist()]
    counts = {f"{name} ": result.confusion[:, k].tolist() for k, name in enumerate(names)}
    print_table({"": names, **counts}, headers=str.strip)


def warn_weighted(model: Any) -> None:
    """Say that rows count once here, if the model was fitted with weights."""
    from oddsmith.errors import OddsmithWarning

    learned = getattr(model, "_learned", None)
    if learned is not None and abs(float(learned.class_weight.sum()) - learned.n_rows) > 1e-9 * learned.n_rows:
        warnings.warn(
            "The model was fitted with weights, and these scores count every row once. Write the rows out by their "
            "weights to have them counted.",
            OddsmithWarning,
            stacklevel=2,
        )


@guarded
def sample(
    model: options.Model,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows to draw.")] = 10,
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="Name of the column of classes.")
    ] = "class",
    seed: options.Seed = 0,
    output: options.Table = None,
    as_json: options.Json = False,
) -> None:
    """Draw rows and classes from a generative model (gaussian, naive-bayes)."""
    from oddsmith.cli.loading import load_model
    from oddsmith.cli.predicting import drawn
    from oddsmith.cli.writing import table_writer

    table = drawn(load_model(model), rows, target, seed)
    with table_writer(output, as_json) as writer:
        writer.write(table)
    _wrote(writer.rows, output, as_json)


def _stream(
    saying: Any, data: list[str], output: str | None, keep: list[str], keep_all: bool, memory: str | None, as_json: bool
) -> None:
    """Write what is said about each row, some rows at a time."""
    from oddsmith.cli.data import check_apart, open_data
    from oddsmith.cli.making import check_column
    from oddsmith.models.writing import answer_tables

    check_apart(output, *data)
    opened = open_data(data)
    with warnings_as_sentences():
        pieces = opened.pieces(memory=memory)
        if pieces is None:
            with working(f"reading {opened.name}") as update:
                rows = _write(_batches(saying, opened, keep, keep_all), opened.name, output, as_json, update)
        else:
            kept = list(pieces.columns) if keep_all else keep
            for name in kept:
                check_column(pieces.columns, name, "--keep")
            rows = answer_tables(saying, pieces, kept, _Once(opened.name, output, as_json))
    _wrote(rows, output, as_json)


class _Once:
    """Writes tables; where they begin again, because text needs wider types than it seemed, only a file can, too."""

    def __init__(self, name: str, output: str | None, as_json: bool) -> None:
        self.name, self.output, self.as_json, self.began = name, output, as_json, False

    def __call__(self, tables: Iterator[Any]) -> int:
        from oddsmith.errors import InvalidInputError

        if self.began and self.output in (None, "-"):
            raise InvalidInputError(
                f"The first rows of {self.name!r} have other types than later ones, and what was printed for them may "
                "be wrong. Write to a file, with -o: it is begun again then."
            )
        self.began = True
        return _write(tables, self.name, self.output, self.as_json)


def _batches(saying: Any, opened: Any, keep: list[str], keep_all: bool) -> Iterator[Any]:
    """Yield what is said about data that is not read in pieces."""
    from oddsmith.cli.loading import batches
    from oddsmith.cli.predicting import beside

    for table, rows in batches(saying.model, opened, None if keep_all else keep):
        if len(table):
            yield beside(table, table.column_names if keep_all else keep, saying(rows))


def _write(
    tables: Iterator[Any], name: str, output: str | None, as_json: bool, update: Callable[[str], None] | None = None
) -> int:
    """Write tables, and return the number of their rows."""
    from oddsmith.cli.writing import table_writer
    from oddsmith.errors import InvalidInputError

    with table_writer(output, as_json) as writer:
        for table in tables:
            writer.write(table)
            if update is not None:
                update(f"{writer.rows:,} rows written")
        if not writer.rows:
            raise InvalidInputError(f"{name!r} has no rows.")
    return writer.rows


def _wrote(rows: int, output: str | None, as_json: bool) -> None:
    if output in (None, "-"):
        return
    if as_json:
        print_json({"file": output, "rows": rows})
    else:
        note(f"Wrote {rows:,} rows to {output}.")
