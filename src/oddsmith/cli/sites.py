"""``oddsmith sites``: a federated fit by files; sites send sums, never rows."""

from __future__ import annotations

from typing import Annotated

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import print_json, print_line, warnings_as_sentences

Request = Annotated[str, options.option("Where to write the next request to the sites.", metavar="FILE")]


@command(
    "oddsmith sites start -t species --columns bill_length_mm,body_mass_g --missing drop --prior 1 -o fit.state "
    "--request ask.odds"
)
def start(
    target: options.Target,
    columns: Annotated[str, options.option("The columns that the model reads: age,dose,ward.")],
    output: Annotated[str, options.output("Where to write the state of the fit.", "STATE")],
    request: Request,
    model: Annotated[str, typer.Option(help="A model, as in 'oddsmith fit'.")] = "logistic",
    basis: options.Basis = None,
    prior: Annotated[
        str | None, typer.Option(help="A number (standard deviation of the weights), evidence, jeffreys or none.")
    ] = None,
    formula: Annotated[str | None, typer.Option(help="As in R: 'low ~ age + C(race) * smoke'.")] = None,
    weights: options.Weights = None,
    missing: options.Missing = None,
    unseen: options.Unseen = None,
    names: Annotated[str | None, typer.Option("--sites", help="Sites that must answer: north,south.")] = None,
    least_rows: Annotated[int, typer.Option(help="Sites with fewer rows do not answer.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Start a federated fit: write its state and the first request, for every site."""
    from oddsmith import Fit
    from oddsmith.cli.model_spec import ModelSpec

    spec = ModelSpec(model=model, basis=basis, prior=prior, formula=formula, missing=missing, unseen=unseen)
    read, sites = _words(columns), None if names is None else _words(names)
    state = Fit.start(spec.build(), read, y=target, sample_weight=weights, sites=sites, least_rows=least_rows)
    state.save(output)
    state.request.save(request)
    done = {"state": output, "request": request, "round": 0}
    _print_result(as_json, done, f"Wrote {output}, and {request} for every site.")


@command("oddsmith sites answer ask.odds penguins --site north -o north.odds")
def answer(
    request: Annotated[str, options.argument("REQUEST", "The request to this site.")],
    data: options.Data,
    site: Annotated[str, options.option("The name of this site, the same in every round.")],
    output: Annotated[str, options.output("Where to write the answer.")],
    as_json: options.Json = False,
) -> None:
    """Answer a request with sums over the rows of this site. The answer contains no rows."""
    from oddsmith import Request
    from oddsmith.cli.data import open_data

    message = Request.load(request)
    message.statistic(open_data(data).table(), site=site).save(output)
    done = {"answer": output, "site": site, "round": message.number, "statistic": message.asked.statistic}
    _print_result(as_json, done, f"Wrote {output}: {message.asked.statistic} of {site}, round {message.number}.")


@command("oddsmith sites step fit.state north.odds --request ask.odds -o birds.odds")
def step(
    state: Annotated[str, typer.Argument(metavar="STATE", help="The state of the fit; it is overwritten.")],
    answers: Annotated[list[str], typer.Argument(metavar="ANSWER…", help="The answers of all sites.")],
    request: Request,
    output: Annotated[str, options.output("Where to write the model when the fit is done.", "MODEL")],
    as_json: options.Json = False,
) -> None:
    """Process the answers of all sites: write the next request, or the fitted model."""
    from oddsmith import Fit

    with warnings_as_sentences() as texts:
        after = Fit.load(state).step(answers)
    if after.done:
        after.model.save(output)
        _print_result(as_json, {"done": True, "model": output, "warnings": texts}, f"Done. Wrote {output}.")
    else:
        after.request.save(request)
        number = after.request.number
        done = {"done": False, "request": request, "round": number, "warnings": texts}
        _print_result(as_json, done, f"Wrote {request}, round {number}, for every site.")
    after.save(state)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _print_result(as_json: bool, facts: dict[str, object], sentence: str) -> None:
    print_json(facts) if as_json else print_line(sentence)
