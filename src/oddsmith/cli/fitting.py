"""``oddsmith fit`` and ``oddsmith compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.output import (
    as_options,
    complain,
    note,
    print_json,
    print_line,
    print_table,
    warnings_as_sentences,
    working,
)
from oddsmith.cli.running import guarded

if TYPE_CHECKING:
    from oddsmith.cli.making import Recipe

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.", show_default=False)
]

FIT_EXAMPLES = (
    "oddsmith fit penguins --target species --prior 1.0 --missing indicator -o penguins.odds",
    "oddsmith fit iris -t species --model \"gaussian('separate')\" -o iris.odds",
    'oddsmith fit budworm --formula "dead ~ sex + log(dose)" --weights count -o budworm.odds',
    "oddsmith fit breast_cancer -t diagnosis --basis standardize --prior evidence -o cancer.odds --report cancer.html",
)
COMPARE_EXAMPLES = (
    "oddsmith compare penguins --target species --missing indicator --ignore year",
    "oddsmith compare iris -t species --models \"logistic,gaussian('separate')\" --cv 3 -o best.odds --json",
)


@guarded
def fit(
    data: options.Several,
    output: Output,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="The column with the classes.")
    ] = None,
    model: Annotated[str, typer.Option(help="A model, see above.")] = "logistic",
    basis: Annotated[str | None, typer.Option(help="Basis functions, in order: standardize,polynomial(2).")] = None,
    prior: Annotated[
        str | None,
        typer.Option(help="A number (σ of the weights), evidence, loo, cv, jeffreys or none (if not given)."),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(help="As in R: 'low ~ age + C(race) * smoke'. Its left side can stand for --target."),
    ] = None,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that counts rows.")] = None,
    missing: options.Missing = None,
    unseen: options.Unseen = None,
    ignore: options.Ignore = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Write a report too, an HTML page.")
    ] = None,
    memory: options.Memory = None,
    cache: options.Cache = None,
    resume: options.Resume = None,
    as_json: options.Json = False,
) -> None:
    """Fit a model to a table and write it to a file.

    Models: fisher, gaussian, least-squares, logistic, naive-bayes, one-vs-one, one-vs-rest, perceptron, probit;
    with arguments: gaussian('separate'). Bases: kernel, polynomial, radial, spline, standardize.
    """
    if target is None and (formula is None or "~" not in formula):
        raise typer.BadParameter("give --target COLUMN, or a --formula with a left side.", param_hint="'--target'")
    from oddsmith.cli.data import check_apart, open_data
    from oddsmith.cli.making import Recipe
    from oddsmith.cli.pieces import check_whole, fit_pieces

    recipe = Recipe(model, basis, prior, formula, missing, unseen)
    estimator = recipe.build()
    for path in (output, report or output):
        _check_folder(path)
        check_apart(path, *data)
    opened = open_data(data)
    with warnings_as_sentences() as said:
        how = {"memory": memory, "cache": cache, "resume": resume}
        if report is not None:
            check_whole(how)
        n_rows = None if report is not None else fit_pieces(estimator, opened, target, weights, ignore or [], how)
        if n_rows is None:
            n_rows = _fit_whole(estimator, opened, recipe, (target, weights, ignore or []), output, report)
        else:
            estimator.save(output)
    if as_json:
        print_json({"model": output, "report": report, **_facts(estimator, n_rows), "warnings": said})
    else:
        _report(estimator, n_rows, opened.name, output, report)


@guarded
def compare(
    data: options.Data,
    target: options.Target,
    models: Annotated[str, typer.Option(help="all, or a list: logistic,gaussian('separate'),naive-bayes.")] = "all",
    cv: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    by: Annotated[str, typer.Option(help="What decides: log_loss, brier or error.")] = "log_loss",
    missing: options.Missing = None,
    unseen: options.Unseen = None,
    ignore: options.Ignore = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Fit the best to all rows, and write it to this file."),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Compare models on the same folds of a table, and fit the best.

    Scores are those of rows that a model was not fitted to. With "all" columns are scaled where that matters,
    and weights have a prior of σ = 1 in these units.
    """
    from oddsmith.cli.data import check_apart, open_data
    from oddsmith.cli.looking import look
    from oddsmith.cli.making import check_column, contestants, fit_command, make_splits, without
    from oddsmith.evaluation.comparing import compare as run

    if output is not None:
        _check_folder(output)
        check_apart(output, data)
    with working(f"reading {data}"):
        table = without(open_data(data).table(), ignore or [], "--ignore")
        check_column(table, target, "--target")
    policies = {"missing": missing, "unseen": unseen}
    if missing == "drop":  # before the folds, so that every model sees the same rows
        table, policies["missing"] = table.drop_null(), None
    recipes = contestants(len(table[target].unique()), models, policies)
    with warnings_as_sentences() as said:
        look(table, target, data)
        built = {name: recipe.build() for name, recipe in recipes.items()}
        result = run(built, table, target, make_splits(table, target, cv, seed), by=by, seed=seed)
    _check_any(result)
    command = None
    if result.best is not None:
        winner = recipes[result.best]
        further = [word for name in ignore or [] for word in ("--ignore", name)]
        if missing == "drop" and winner.takes_design:
            further += ["--missing", "drop"]
        command = fit_command(data, target, winner, further, output or "model.odds")
        if output is not None:
            with warnings_as_sentences() as more, working(f"fitting {result.best}"):
                winner.build().fit(table, target).save(output)
            said += more
    if as_json:
        scores = {"by": result.by, "best": result.best, "within_noise": result.within_noise}
        print_json({**scores, "columns": result.to_dict(), "notes": result.notes, "fit": command, "warnings": said})
        return
    _show(result)
    if output is not None:
        note(f"Wrote {result.best} to {output}, fitted to {table.num_rows} rows.")
    elif command:
        note(f"To fit the best: {command}")


def _check_any(result: Any) -> None:
    """Refuse a comparison in which every model failed, with the reason of the first."""
    from oddsmith.errors import InvalidInputError

    if set(result.columns["verdict"]) == {"failed"}:
        name, why = next(iter(result.notes.items()))
        raise InvalidInputError(f"No model could be fitted. {name}: {why.partition(': ')[2]}")


def _show(result: Any) -> None:
    """Print the scores of models, and why some failed."""
    print_line(result.title, "bold")
    columns = result.to_dict()
    shown = {name: values for name, values in columns.items() if name not in ("predict_seconds", "note")}
    print_table(shown, optional=("difference", "std_error", "brier", "auc", "fit_seconds"))
    for name, verdict, text in zip(columns["model"], columns["verdict"], columns["note"], strict=True):
        if verdict == "failed":
            complain("Warning", f"{name} failed. {as_options(result.notes[name].partition(': ')[2])}")
        elif text:
            note(f"{name}: {text}")


def _fit_whole(
    estimator: Any, opened: Any, recipe: Recipe, roles: tuple[Any, Any, Any], output: str, report: str | None
) -> int:
    """Fit to a table that is read whole, write the model, and a report if one is wanted; return the number of rows."""
    from oddsmith.cli.looking import look
    from oddsmith.cli.making import without

    target, _, ignore = roles
    with working(f"reading {opened.name}") as update:
        table = opened.table()
        look(without(table, ignore, "--ignore"), target, opened.name, recipe.formula)
        update(f"fitting {recipe.model} to {table.num_rows:,} rows")
        rows, given = _fit(estimator, table, *roles)
        estimator.save(output)  # before the report, which has the checksum of this file
        if report is not None:
            update("writing the report")
            estimator.report(rows, target, report, model_path=output, **given)
    return int(table.num_rows)


def _fit(
    estimator: Any, table: Any, target: str | None, weights: str | None, ignore: list[str]
) -> tuple[Any, dict[str, Any]]:
    """Fit to a table, and return the columns and weights that were used."""
    from oddsmith.cli.making import check_column, without
    from oddsmith.errors import InvalidInputError

    table = without(table, ignore, "--ignore")
    given: dict[str, Any] = {}
    if weights is not None:
        check_column(table, weights, "--weights")
        given["sample_weight"] = table[weights].to_numpy()
        table = table.drop_columns([weights])
    if target is not None:
        check_column(table, target, "--target")
        if table.num_rows and table[target].null_count:
            raise InvalidInputError(
                f"Column {target!r}, the target, is missing in {table[target].null_count} of {table.num_rows} rows. "
                "Leave these rows out, or fill them in."
            )
    estimator.fit(table, target, **given)
    return table, given


def _check_folder(path: str) -> None:
    """Refuse a place that cannot be written to before the work, not after it."""
    from oddsmith.errors import InvalidInputError

    if not Path(path).resolve().parent.is_dir():
        raise InvalidInputError(f"There is no folder to write {path!r} to. Make it first.")


def _facts(model: Any, n_rows: int) -> dict[str, Any]:
    from oddsmith.models.saving import provenance

    facts: dict[str, Any] = {"kind": type(model).__name__, **provenance(model), "rows": n_rows}
    facts["classes"] = model.classes_
    for name in ("intercept_", "coef_", "log_likelihood_"):
        if hasattr(model, name):
            facts[name.rstrip("_")] = getattr(model, name)
    if hasattr(model, "certificate_"):
        facts["certificate"] = {name: values[0] for name, values in model.certificate_.to_dict().items()}
    return facts


def _report(model: Any, n_rows: int, data: str, output: str, page: str | None) -> None:
    classes = [str(label) for label in model.classes_.tolist()]
    shown = ", ".join(classes[:6]) + (", …" if len(classes) > 6 else "")
    note(f"{type(model).__name__}: {n_rows:,} rows of {data}, {len(classes)} classes ({shown}).")
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        gap = f"At most {certificate.gap:.2g} from the optimum" if certificate.optimum_exists else "There is no optimum"
        note(f"{gap}; {certificate.passes} passes over the data.")
    note(f"Wrote {output}. Look at it: oddsmith summary {output}")
    if page is not None:
        note(f"Wrote {page}. Open it in a browser.")
