"""``oddsmith fit`` and ``oddsmith compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli import output as terminal
from oddsmith.cli.command import command

if TYPE_CHECKING:
    from oddsmith.evaluation.comparison import Comparison
    from oddsmith.models.base import Classifier


PRIOR = "A number (σ of the weights), evidence, loo, cv, jeffreys, laplace:0.1, laplace:cv or none (default)."
FORMULA = "As in R: 'low ~ age + C(race) * smoke'. Its left side can replace --target."


@command(
    "oddsmith fit penguins --target species --prior 1.0 --missing indicator -o penguins.odds",
    "oddsmith fit iris -t species --model \"gaussian('separate')\" -o iris.odds",
    'oddsmith fit budworm --formula "dead ~ sex + log(dose)" --weights count -o budworm.odds',
    "oddsmith fit breast_cancer -t diagnosis --basis standardize --prior evidence -o cancer.odds --report cancer.html",
)
def fit(
    data: options.DataFiles,
    output: Annotated[str, options.output("The model file to write.")],
    target: Annotated[str | None, options.TARGET] = None,
    model: Annotated[str, typer.Option(help="The model; see above.")] = "logistic",
    basis: options.Basis = None,
    prior: Annotated[str | None, options.option(PRIOR)] = None,
    formula: Annotated[str | None, options.option(FORMULA)] = None,
    weights: options.Weights = None,
    class_weight: options.ClassWeight = None,
    missing: options.Missing = None,
    unseen: options.Unseen = None,
    unlabelled: options.Unlabelled = None,
    ignore: options.Ignore = None,
    report: Annotated[str | None, options.option("Also write a report, an HTML page.", metavar="FILE")] = None,
    memory: options.Memory = None,
    cache: options.Cache = None,
    resume: options.Resume = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Fit a model to a table and write it to a file.

    Models: fisher, gaussian, least-squares, logistic, naive-bayes, one-vs-one, one-vs-rest, perceptron, probit;
    with arguments: gaussian('separate'). Bases: kernel, polynomial, radial, select, spline, standardize.
    """
    if target is None and (formula is None or "~" not in formula):
        raise typer.BadParameter("give --target COLUMN, or a --formula with a left side.", param_hint="'--target'")
    from oddsmith.cli.data import check_output, open_data
    from oddsmith.cli.model_spec import ModelSpec
    from oddsmith.cli.table_fit import ColumnRoles, fit_table
    from oddsmith.engines.files.dialect import TextDialect

    policies = {"basis": basis, "prior": prior, "formula": formula, "missing": missing, "unseen": unseen}
    spec = ModelSpec(model=model, class_weight=class_weight, unlabelled=unlabelled, **policies)
    estimator = spec.build()
    for path in (output, report):
        check_output(path, *data)
    opened, columns = open_data(data, TextDialect(encoding, delimiter, decimal)), ColumnRoles(target, weights, ignore)
    how = {"memory": memory, "cache": cache, "resume": resume}
    with terminal.warnings_as_sentences() as texts:
        n_rows = fit_table(estimator, opened, columns, spec, how, output, report)
    if as_json:
        terminal.print_json({"model": output, "report": report, **_facts(estimator, n_rows), "warnings": texts})
    else:
        _print_fit(estimator, n_rows, opened.name, output, report)


@command(
    "oddsmith compare penguins --target species --missing indicator --ignore year",
    "oddsmith compare iris -t species --models \"logistic,gaussian('separate')\" --cv 3 -o best.odds --json",
)
def compare(
    data: options.Data,
    target: options.Target,
    models: Annotated[str, typer.Option(help="all, or a list: logistic,gaussian('separate'),naive-bayes.")] = "all",
    cv: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    by: Annotated[str, typer.Option(help="Score that decides: log_loss, brier or error.")] = "log_loss",
    missing: options.Missing = None,
    unseen: options.Unseen = None,
    unlabelled: options.Unlabelled = None,
    ignore: options.Ignore = None,
    output: Annotated[str | None, options.output("Fit the best to all rows, and write it to this file.")] = None,
    seed: options.Seed = 0,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Compare models on the same folds of a table, and fit the best.

    Scores are computed on held-out rows. With "all", columns are scaled where that matters,
    and weights have a prior of σ = 1 in these units.
    """
    from oddsmith.cli.data import check_output, open_data
    from oddsmith.cli.data_lint import check_columns
    from oddsmith.cli.model_spec import candidate_specs, fit_command, make_splits
    from oddsmith.cli.table_fit import ColumnRoles, drops_unlabelled, with_target
    from oddsmith.engines.files.dialect import TextDialect
    from oddsmith.errors import InvalidInputError
    from oddsmith.evaluation import comparison

    check_output(output, data)
    opened = open_data(data, TextDialect(encoding, delimiter, decimal))
    with terminal.spinner(f"reading {data}"):
        table = ColumnRoles(target, ignore=ignore).read(opened)
        with opened.locating():
            table, _ = with_target(table, target, drop=drops_unlabelled(unlabelled, missing))
    policies = {"missing": missing, "unseen": unseen}
    if missing == "drop":  # before the folds, so that every model sees the same rows
        table, policies["missing"] = table.drop_null(), None
    specs = candidate_specs(len(table[target].unique()), models, policies)
    with terminal.warnings_as_sentences() as texts:
        check_columns(table, target, data)
        built = {name: spec.build() for name, spec in specs.items()}
        result = comparison.compare(built, table, target, make_splits(table, target, cv, seed), by=by, seed=seed)
    if set(result.columns["verdict"]) == {"failed"}:
        name, why = next(iter(result.notes.items()))
        raise InvalidInputError(f"No model could be fitted. {name}: {why.partition(': ')[2]}")
    line = None
    if result.best is not None:
        winner = specs[result.best]
        further = ["--missing", "drop"] if missing == "drop" and winner.takes_design else []
        further += ["--unlabelled", "drop"] if unlabelled == "drop" and winner.takes_design else []
        further = [*(word for name in ignore or [] for word in ("--ignore", name)), *further]
        line = fit_command(data, target, winner, further, output or "model.odds")
        if output is not None:
            with terminal.warnings_as_sentences() as more, terminal.spinner(f"fitting {result.best}"):
                winner.build().fit(table, target).save(output)
            texts += more
    if as_json:
        found = {"by": result.by, "best": result.best, "within_noise": result.within_noise, "columns": result.to_dict()}
        terminal.print_json({**found, "notes": result.notes, "fit": line, "warnings": texts})
        return
    wrote = None if output is None else f"Wrote {result.best} to {output}, fitted to {table.num_rows} rows."
    _print_comparison(result, wrote or (f"To fit the best: {line}" if line else ""))


def _print_comparison(result: Comparison, last: str) -> None:
    """Print the scores of models, why some failed, and a last remark."""
    terminal.print_line(result.title, "bold")
    columns = result.to_dict()
    shown = {name: values for name, values in columns.items() if name not in ("predict_seconds", "note")}
    terminal.print_table(shown, optional=("difference", "std_error", "brier", "auc", "fit_seconds"))
    for name, verdict, text in zip(columns["model"], columns["verdict"], columns["note"], strict=True):
        if verdict == "failed":
            why = result.notes[name].partition(": ")[2]
            terminal.print_message("Warning", f"{name} failed. {terminal.as_options(why)}")
        elif text:
            terminal.note(f"{name}: {text}")
    if last:
        terminal.note(last)


def _facts(model: Classifier, n_rows: int) -> dict[str, Any]:
    from oddsmith.models.logistic import LogisticRegression
    from oddsmith.persistence.model_file import provenance

    facts = {"kind": type(model).__name__, **provenance(model), "rows": n_rows, "classes": model.classes_}
    names = ("intercept_", "coef_", "log_likelihood_")
    facts |= {name.rstrip("_"): getattr(model, name) for name in (*names, "selected_") if hasattr(model, name)}
    if isinstance(model, LogisticRegression):
        facts["certificate"] = {name: values[0] for name, values in model.certificate_.to_dict().items()}
        facts["plan"] = {"text": str(model.plan_), **model.plan_.to_dict()}
    return facts


def _print_fit(model: Classifier, n_rows: int, data: str, output: str, page: str | None) -> None:
    from oddsmith.models.logistic import LogisticRegression

    classes = [str(label) for label in model.classes_.tolist()]
    shown = ", ".join(classes[:6]) + (", …" if len(classes) > 6 else "")
    terminal.note(f"{type(model).__name__}: {n_rows:,} rows of {data}, {len(classes)} classes ({shown}).")
    if isinstance(model, LogisticRegression):
        found = model.certificate_
        gap = f"At most {found.gap:.2g} from the optimum" if found.optimum_exists else "There is no optimum"
        terminal.note(f"{gap}; {found.passes} passes over the data.")
        if hasattr(model, "selected_"):
            terminal.note(f"{len(model.selected_):,} of {model.coef_.shape[1]:,} columns were selected.")
    terminal.note(f"Wrote {output}. To view it: oddsmith summary {output}")
    if page is not None:
        terminal.note(f"Wrote {page}. Open it in a browser.")
