"""Federated fitting: `Fit` requests a statistic, and each site answers with sums over its rows, until it is done.

A fit is a sequence of folds, and each fold depends on the results of the ones before. So the state of a fit is the
record of its folds so far. Each step replays the fit from its record up to the first missing fold, which becomes the
next request. When none is missing, the model is fitted, and equals a fit to all rows in one place.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

from oddsmith.data_access.shards import Shard
from oddsmith.design.data_summary import BlockEncoder, DataSummary
from oddsmith.engines import PartedSource
from oddsmith.engines.base import Progress, S
from oddsmith.errors import InvalidInputError, InvalidTypeError, MessageError, OddsmithError
from oddsmith.federated.messages import Answer, FoldSpec, Message, Request, check_only_sums
from oddsmith.models.base import Classifier
from oddsmith.persistence.codec import name_of
from oddsmith.persistence.model_file import register_types
from oddsmith.persistence.sealed_bytes import seal, unseal
from oddsmith.statistics import Curvature


@dataclass(frozen=True, kw_only=True)
class Fit(Message):
    """A federated fit, in which sites send sums, never rows: the state between two rounds.

    ``Fit.start(model)`` creates the first ``request``. Each site answers it with ``request.statistic(X, y,
    site=…)``, and ``Fit.step(state, answers)`` returns the next state, until ``done``: then ``model`` is fitted, and
    equals a fit to the rows of all sites in one place, up to rounding.

    Requests, answers and the state itself are messages: ``to_bytes``, ``from_bytes``, ``save(path)``, ``load(path)``.
    A state is immutable: after an error, a step can be repeated.

    Cost: each round takes one pass over the rows of each site, and M² numbers from each. A model with a closed form
    takes two rounds, an iterative one two or three more than Newton's method has steps.

    >>> import numpy as np
    >>> from oddsmith import Fit, LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] + rng.logistic(size=300) > 0, "sick", "well")
    >>> state = Fit.start(LogisticRegression())
    >>> while not state.done:
    ...     answers = [state.request.statistic(X[i::3], y[i::3], site=f"clinic {i}") for i in range(3)]
    ...     state = Fit.step(state, answers)
    >>> pooled = LogisticRegression().fit(X, y)
    >>> bool(np.allclose(state.model.coef_, pooled.coef_, rtol=1e-10))
    True
    """

    model: Classifier
    id: str
    columns: tuple[str, ...] | None
    roles: dict[str, str]
    classes: list[Any] | None
    least_rows: int
    sites: tuple[str, ...] | None
    record: dict[str, bytes]
    counts: dict[str, tuple[int, float]]
    asked: FoldSpec | None = None
    kind = "fit"

    def __repr__(self) -> str:
        where = "done" if self.done else f"round {len(self.record)}, requests {self.asked.statistic!r}"  # type: ignore[union-attr]
        return f"Fit({self.model!r}, {where})"

    @classmethod
    def start(
        cls,
        model: Classifier,
        columns: Iterable[str] | None = None,
        *,
        y: str | None = None,
        sample_weight: str | None = None,
        offset: str | None = None,
        classes: Iterable[Any] | None = None,
        sites: Iterable[str] | None = None,
        least_rows: int = 0,
    ) -> Fit:
        """Return the state with the first request.

        Parameters
        ----------
        model : classifier
            Unfitted; any model whose fit is a fold of sums.
        columns : names, optional
            The columns of the sites' tables or files that the model reads; None for arrays.
        y, sample_weight, offset : str, optional
            The columns of labels, weights and offsets; None if sites pass them as separate arrays.
        classes : labels, optional
            The expected labels: another label is an error that names the site.
        sites : names, optional
            The sites that must answer each request. Default: the sites that answer the first.
        least_rows : int
            Sites with fewer rows do not answer.
        """
        if isinstance(least_rows, bool) or not isinstance(least_rows, int) or least_rows < 0:
            raise InvalidInputError(f"least_rows must be a whole number of at least 0, found {least_rows!r}.")
        _check_folds(model)
        roles = {"y": y, "sample_weight": sample_weight, "offset": offset}
        return cls(
            model=clone(model),
            id=secrets.token_hex(8),
            columns=None if columns is None else tuple(columns),
            roles={role: name for role, name in roles.items() if name is not None},
            classes=None if classes is None else list(classes),
            least_rows=least_rows,
            sites=None if sites is None else tuple(sorted(sites)),
            record={},
            counts={},
        )._advanced()

    @property
    def done(self) -> bool:
        """Whether the model is fitted."""
        return self.asked is None

    @property
    def request(self) -> Request:
        """The next request to the sites."""
        if self.asked is None:
            raise InvalidInputError("This fit is done and has no further requests. The model is in .model.")
        return Request(self.id, len(self.record), self.asked, self.least_rows)

    def step(self, answers: Iterable[Answer | bytes | str | os.PathLike[str]]) -> Fit:
        """Return the state after the answers of all sites (messages, their bytes, or files of them).

        1. Each answer must belong to the current request; duplicates count once.
        2. All sites must have answered.
        3. The sums of the sites are merged, in the order of their names, and recorded.
        4. The fit is replayed from its record, to its end or to the next request.
        """
        asked = self.request.asked
        by_site: dict[str, Answer] = {}
        for answer in map(_as_answer, answers):  # 1
            self._check_answer(answer, by_site.get(answer.site))
            by_site[answer.site] = answer
        self._check_sites(by_site)  # 2
        total: Any = None
        for site in sorted(by_site):  # 3
            part = by_site[site].statistic
            try:
                total = part if total is None else total.merge(part)
            except OddsmithError as error:
                raise InvalidInputError(f"Site {site!r} does not match the sites before it: {error}") from None
            except (ValueError, TypeError, LookupError, AttributeError):
                raise _misfit(by_site[site], asked) from None
        record = {**self.record, asked.key: seal("fold", {}, total)}
        summaries = {site: answer.statistic for site, answer in by_site.items() if asked.type is DataSummary}
        counts = self.counts or {site: (one.n_present, float(one.weight.sum())) for site, one in summaries.items()}
        return replace(self, record=record, sites=tuple(sorted(by_site)), counts=counts)._advanced()  # 4

    def _check_answer(self, answer: Answer, other: Answer | None) -> None:
        site, now = answer.site, len(self.record)
        if answer.fit != self.id:
            raise MessageError(f"The answer of site {site!r} belongs to another fit. Send it the request of this one.")
        if answer.number != now:
            raise MessageError(
                f"Site {site!r} has answered request {answer.number}, but the current request is {now}. Send it that "
                "one."
            )
        if other is not None and other.to_bytes() != answer.to_bytes():
            raise MessageError(
                f"Site {site!r} has answered twice, with different sums. Sites need unique names, and the rows of a "
                "site must stay the same during a fit. Pass one answer from each site."
            )
        _check_form(answer, self.request.asked)
        self._check_count(answer)
        if self.classes is not None and isinstance(answer.statistic, DataSummary):
            strange = [label for label in answer.statistic.classes.tolist() if label not in self.classes]
            if strange:
                raise InvalidInputError(
                    f"Site {site!r} has the label {strange[0]!r}, which is not among classes={self.classes}."
                )

    def _check_count(self, answer: Answer) -> None:
        """Refuse sums that evidently come from other rows than those of the first round."""
        sums, (rows, weight) = answer.statistic, self.counts.get(answer.site, (0, 0.0))
        encode = self.request.asked.encode
        if answer.site not in self.counts or not isinstance(encode, BlockEncoder):
            return  # a view shows some of the rows
        if encode.class_weight is not None and not isinstance(sums, Curvature):
            return  # sums are of weights that differ by class
        found = sums.rows if isinstance(sums, Curvature) else np.sum(getattr(sums, "weight", weight))
        expected = rows if isinstance(sums, Curvature) else weight
        if not np.isclose(found, expected, rtol=1e-9, atol=0.0):
            raise InvalidInputError(
                f"Site {answer.site!r} has {found:.10g} rows (by weight) now, and had {expected:.10g} in the first "
                "round: they have changed. Start again when they are complete."
            )

    def _check_sites(self, by_site: dict[str, Answer]) -> None:
        if not by_site:
            raise MessageError("There are no answers. Pass those of all sites.")
        sites = tuple(by_site) if self.sites is None else self.sites
        missing = [site for site in sites if site not in by_site]
        strange = [site for site in by_site if site not in sites]
        if missing:
            raise MessageError(
                f"No answer from {', '.join(map(repr, missing[:8]))}{' …' if missing[8:] else ''}: a fit is over the "
                "same rows in every round. Wait for it, or start again without it."
            )
        if strange:
            raise MessageError(
                f"There is an answer from {strange[0]!r}, which is not a site of this fit: "
                f"{', '.join(map(repr, sites[:8]))}. Start again with all sites."
            )

    def _advanced(self) -> Fit:
        """Replay the fit from its record, to its end or to the first missing fold."""
        register_types()
        replay = _Replay(self.record)
        columns = None if self.columns is None else (*self.columns, *self.roles.values())
        model = clone(self.model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(Sites(replay, columns), **{"y": None, **self.roles})
            except _Missing as missing:
                return replace(self, asked=missing.args[0])
            finally:
                replay.over = True
        for warning in caught:
            warnings.warn(warning.message, stacklevel=3)
        return replace(self, model=model, asked=None)


class _Missing(BaseException):
    """Signals a fold that is not in the record, its only argument. A model's ``except Exception`` must not catch it."""


@dataclass
class _Replay:
    """The engine of a federated fit: it returns statistics from the record."""

    record: dict[str, bytes]
    over: bool = False
    name: str = "federated"

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        asked = FoldSpec(
            statistic=name_of(statistic),
            params=params,
            encode=source.encode,
            transform=source.transform,
            columns=source.parts.columns,
            shape=source.shape,
        )
        if asked.key in self.record:
            total: S = unseal("fold", self.record[asked.key])[1]
            return total
        if self.over:
            raise InvalidInputError("This needs the training rows, which are at the sites.")
        check_only_sums(asked)
        raise _Missing(asked)


@dataclass(frozen=True)
class Sites:
    """The rows of a federated fit, which are at the sites."""

    engine: _Replay
    columns: tuple[str, ...] | None
    expected_rows: int = 0
    draws = False

    def choose(self, columns: Iterable[str]) -> Sites:
        return replace(self, columns=tuple(columns))


def _check_folds(model: object) -> None:
    """Refuse a model whose fit needs rows in memory: it has no ``how`` options for data in pieces."""
    parameters = signature(getattr(model, "fit", len)).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        raise InvalidTypeError(
            f"The fit of a {type(model).__name__} is not a fold of sums over rows, so sites cannot send sums alone. "
            "Models that can be fitted this way are LogisticRegression, LeastSquaresClassifier, FisherDiscriminant, "
            "GaussianClassifier and NaiveBayes."
        )


def _check_form(answer: Answer, asked: FoldSpec) -> None:
    """Refuse sums of another statistic or other sizes than requested."""
    found = answer.statistic
    if type(found) is not asked.type:
        fits = False
    elif isinstance(found, DataSummary):
        whole = [type(found.n_rows), type(found.n_present)] == [int, int] and found.drawn == ()
        fits = whole and np.ndim(found.classes) == 1 and np.shape(found.classes) == np.shape(found.weight)
    else:
        fits = isinstance(found, Shard) or _form(found) == _form(asked.type.zero(asked.shape, asked.params))
    if not fits:
        raise _misfit(answer, asked)


def _misfit(answer: Answer, asked: FoldSpec) -> MessageError:
    of = f" of {asked.shape.M} columns and {asked.shape.K} classes" if asked.shape.M else ""
    return MessageError(
        f"The answer of site {answer.site!r} does not fit the request: expected the sums {asked.statistic!r}{of}. Let "
        "the site answer again."
    )


def _form(record: object) -> object:
    """Return the types and sizes of the fields, which all statistics of a fold share."""
    if is_dataclass(record) and not isinstance(record, type):
        return [_form(getattr(record, field.name)) for field in fields(record)]
    if isinstance(record, np.ndarray):
        return record.dtype, record.shape
    return type(record)


def _as_answer(answer: object) -> Answer:
    if isinstance(answer, Answer):
        return answer
    if isinstance(answer, bytes | bytearray | memoryview):
        return Answer.from_bytes(bytes(answer))
    if isinstance(answer, str | os.PathLike):
        return Answer.load(answer)
    raise InvalidTypeError(
        f"An answer is what request.statistic(…) returns, its bytes or a file of it; found {answer!r}."
    )
