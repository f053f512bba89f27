"""The last parts of the page: how to use the model, its provenance (files, period, author), and the signature."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith
from oddsmith.errors import InvalidTypeError, OddsmithError
from oddsmith.export.model_formulas import plain_labels
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array
from oddsmith.persistence.model_file import provenance
from oddsmith.report.context import ReportContext
from oddsmith.report.html import Markup, absent, clean, join, number, tag, visible
from oddsmith.report.tables import facts

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
MOST_FILES = 20


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The files that a report is about, and what its reader has to know beside them.

    >>> Origin(author="A. Turing", period="2025").heading
    'Author: A. Turing. Period: 2025.'
    """

    model_path: str | None = None
    data_paths: tuple[str, ...] = ()
    period: str | None = None
    purpose: str | None = None
    author: str | None = None

    @classmethod
    def of(cls, model_path: Any, data_path: Any, **texts: str | None) -> Origin:
        """Return the origin with checked paths."""
        paths = [data_path] if isinstance(data_path, str | os.PathLike) else data_path or []
        if not isinstance(paths, Sequence) or not all(isinstance(path, str | os.PathLike) for path in paths):
            raise InvalidTypeError(f"data_path must be the path of a file, or a list of them; found {data_path!r}.")
        data = tuple(os.fspath(path) for path in paths)
        return cls(model_path=None if model_path is None else os.fspath(model_path), data_paths=data, **texts)

    @property
    def heading(self) -> str:
        """Author, period and purpose, as sentences."""
        texts = {"Author": self.author, "Period": self.period, "Purpose": self.purpose}
        return " ".join(f"{name}: {clean(text).rstrip('.')}." for name, text in texts.items() if text)

    @property
    def facts(self) -> list[tuple[Any, Any]]:
        """Names and values for the provenance: texts, then each file with its checksum."""
        texts = {"author": self.author, "purpose": self.purpose, "period of the data": self.period}
        pairs: list[tuple[Any, Any]] = [(name, clean(text)) for name, text in texts.items() if text]
        for path in self.data_paths[:MOST_FILES]:
            pairs += _file("data file", path)
        if len(self.data_paths) > MOST_FILES:
            pairs.append(("further data files", f"{len(self.data_paths) - MOST_FILES:,}"))
        return pairs + ([] if self.model_path is None else _file("model file", self.model_path))


def _file(what: str, path: str) -> list[tuple[Any, Any]]:
    """Return name and checksum of a file; only the name if it is not a file, such as a database table."""
    if not Path(path).is_file():
        return [(what, clean(os.path.basename(path)))] if what != "model file" else []
    return [(what, clean(os.path.basename(path))), ("its SHA-256", tag("code", sha256(path)))]


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


LONGEST_QUERY = 20_000  # Characters of a query that is shown; a longer one is left to the command.


def usage_section(context: ReportContext, model_path: str | None) -> Markup:
    """Return how to use the model file: in Python, on the command line, in a database."""
    name = "model.odds" if model_path is None else os.path.basename(model_path)
    first = "" if model_path is not None else f"model.save({name!r})   # once, after fitting\n\n"
    offset = context.offset is not None or context.misses_offset
    python = (
        f"{first}import oddsmith\n\nmodel = oddsmith.load({name!r})\n"
        f"model.{'predict_proba' if context.probabilistic else 'predict'}(table{', offset=offset' if offset else ''})"
        "   # a table with the columns above"
    )
    shell = f"oddsmith predict {shlex.quote(name)} new.csv -o predictions.csv"
    if context.given_loss and context.probabilistic:
        loss, reject = _costs(context, plain_labels)
        python += f"\nmodel.decide(table, {loss!r}, reject={reject!r})"
        # On the command line, classes and actions are strings.
        words = _costs(context, lambda labels: list(map(str, labels)))
        costs = [shlex.quote(json.dumps(part, ensure_ascii=False)) for part in words]
        further = "" if reject is None else f" --reject {costs[1]}"
        shell += f"\noddsmith decide {shlex.quote(name)} new.csv --loss {costs[0]}{further} -o decisions.csv"
    shell += f"\noddsmith export sql {shlex.quote(name)} --table new -o predict.sql"
    parts = tag("h3", "Python"), _code(python), tag("h3", "Command line"), _code(shell), tag("h3", "SQL")
    unknown = "The model has an offset, which decide, the command line and SQL ignore"
    note = tag("p", f"{unknown}: there, every row has the offset 0.") if offset else ""
    return join([note, *parts, _sql(context.model)])


def _costs(context: ReportContext, labels: Callable[[Any], list[Any]]) -> tuple[Any, Any]:
    """Return the loss, and what rejecting costs, as they are written in code; names by ``labels``."""

    def plain(costs: Array) -> list[float]:
        return [int(cost) if cost.is_integer() else cost for cost in costs.tolist()]

    loss, classes = context.loss, labels(context.loss.classes.tolist())
    written: Any = [plain(row) for row in loss.values]
    if not np.array_equal(loss.actions, loss.classes):
        actions = labels(loss.actions.tolist())
        written = {c: dict(zip(actions, row, strict=True)) for c, row in zip(classes, written, strict=True)}
    if context.reject_costs is None:
        return written, None
    costs = plain(context.reject_costs)
    return written, costs[0] if len(set(costs)) == 1 else dict(zip(classes, costs, strict=True))


def _sql(model: Classifier) -> Markup:
    try:
        query = model.to_sql("new", "duckdb")
    except OddsmithError as error:
        return absent(f"No SQL: {error}")
    if len(query) > LONGEST_QUERY or visible(query) != query:
        text = "The query is too long, or has names with characters that cannot be shown."
        return tag("p", f"{text} The command above writes it to a file.")
    shown = tag("details", tag("summary", f"The query ({len(query):,} characters)"), _code(query))
    return join([tag("p", "One SELECT without extensions (DuckDB; to_sql supports five more dialects)."), shown])


def _code(text: str) -> Markup:
    return tag("pre", tag("code", visible(text)), tabindex=0, role="region", aria_label="Code")


def provenance_section(context: ReportContext, origin: Origin) -> Markup:
    """Return author, purpose, date, versions, rows, seeds, and the checksums of the files of data and model."""
    source = provenance(context.model)
    complete = "" if context.kept is None else f", {len(context.t):,} of them complete"
    pairs: list[tuple[Any, Any]] = [
        ("report made", datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")),
        ("software", f"oddsmith {oddsmith.__version__}, Python {platform.python_version()}, NumPy {np.__version__}"),
        ("model", context.name),
        ("rows of the fit", number(source["rows"]) if source["rows"] is not None else "not kept by this model"),
        ("rows of this report", f"{context.frame.n_rows:,}{complete}"),
        ("scores", "leave-one-out" if context.scored == "left out" else "of the rows given"),
        *([("offset", "of each row, as given")] if context.offset is not None else []),
        ("intervals", f"{100 * context.level:g}%, bootstrap with seed {context.seed} where there is no formula"),
        ("seed of the fit", clean(repr(context.model.get_params(deep=False).get("seed")))),
    ]
    if source["weight"] is not None and source["weight"] != source["rows"]:
        pairs.insert(4, ("weight of the rows of the fit", number(float(source["weight"]))))
    return facts(pairs + origin.facts)


def signature_section(origin: Origin) -> Markup:
    """Return the place for a signature, and for what was not given."""
    text = (
        "By signing I confirm that I have read this report, that the model is intended for this data and purpose, "
        "and that the points to check have been examined."
    )
    choices = tag("ul", join(tag("li", word) for word in ("approved", "approved with conditions", "not approved")))
    texts = {"Author of the model": origin.author, "Purpose": origin.purpose, "Period of the data": origin.period}
    open_ = [name for name, given in texts.items() if not given]
    lines = join(tag("div", word) for word in (*open_, "Name and role", "Place and date", "Signature", "Conditions"))
    return tag("div", tag("p", text), choices, tag("div", lines, class_="lines"), class_="sign")
