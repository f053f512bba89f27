"""From a table to numeric columns: categories, dates, missing values, unseen levels, formulas."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from oddsmith.design import formula as formulas
from oddsmith.design.class_weight import read_weights
from oddsmith.design.formula import Expression, Formula, States, evaluate, plain_column, read_formula
from oddsmith.design.frame import KIND_WORDS, Frame, read_some_rows
from oddsmith.design.inputs import ArrayOrCSR, as_table, check_fitted, restored_on_error, split_target, take_rows
from oddsmith.design.level_checks import warn_of_levels
from oddsmith.design.levels import MISSING, Category, ColumnSummary, Summaries, TableSchema, choose_reference, summarise
from oddsmith.design.missing_values import can_stay, complete_rows, empty_error, missing_error
from oddsmith.design.split import split_form, split_frame
from oddsmith.design.terms import Factor, Term, contrasts, encode, indicator, is_sparse, repeated_name
from oddsmith.design.whole_numbers import warn_of_rounding
from oddsmith.errors import CollinearityWarning, InvalidInputError, InvalidTypeError, UnknownNameError, caller_level
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows import SplitRows
from oddsmith.rows.split import TableForm

Reference = str | dict[str, Any] | None
SPLIT_ELEMENTS = 1_500_000  # Size of the expanded rows from which categories stay codes, however few their levels.
POLICIES = {
    **{"missing": ("error", "drop", "indicator"), "unseen": ("error", "reference")},
    "unlabelled": ("error", "drop"),
}


class Design(TransformerMixin, BaseEstimator):
    """Numeric columns from a pandas, polars or Arrow table, bit for bit the same from each.

    | a column of | becomes |
    |---|---|
    | numbers (whole, floats, decimals) | itself |
    | booleans | 0 and 1 |
    | dates and times | days since 1970-01-01 (UTC), with fractions |
    | text, categoricals, enumerations | a 0/1 column ``race[black]`` for each level that occurs, except the reference |

    The reference is the first level: in the column's own order for an ordered categorical (pandas, Arrow) or an
    enumeration (polars), otherwise in sorted order. Ordered categoricals also become 0/1 columns. The model adds the
    constant.

    Parameters
    ----------
    formula : str, optional
        As in R, ``"low ~ age + C(race) * smoke + spline(lwt)"``, or the right-hand side alone; default: every column. A
        left-hand side names the labels, so that the model's ``fit(table)`` needs no ``y``. Operators are
        ``+ - : * / ^``, parentheses, and ``.`` for all other columns; functions are ``C(x)`` (numbers as categories;
        ``C(x, reference="a")``), ``log``, ``exp``, ``sqrt``, ``I(…)`` with arithmetic, ``center``, ``scale``,
        ``poly(x, degree)``, ``spline(x, knots)`` (see `Spline`), ``ns(x, df)`` and ``bs(x, df, degree)``. Nothing else
        is accepted, and no part of a formula is run as code. It needs the package formulaic (the extra ``formula``).
    missing : "error", "drop" or "indicator"
        ``"error"`` refuses missing values (null, None, NaN, NaT). ``"drop"`` fits without the rows that miss a value in
        a column of the design; predicting such rows is an error. ``"indicator"`` fills numbers with their mean and adds
        a 0/1 column ``age[missing]``; a missing category becomes the level ``race[missing]``.
    unseen : "error" or "reference"
        Whether levels that did not occur in the fit are an error or count as the reference.
    reference : None, "most frequent", "mean", or {column: level}
        The level without a column: the first, the one with the largest total weight, or the named one. With ``"mean"``
        every level has a column, and the reference is none of them but weight 0: a prior shrinks levels towards it.
    unlabelled : "error" or "drop"
        Whether rows without a label are refused in a fit, or left out (as ``missing="drop"`` also does).

    Attributes
    ----------
    feature_names_in_ : array
        The columns that the design reads. In later tables, other columns are ignored and the order does not matter; a
        column that is absent or of another kind is an error that names it.
    kinds_ : dict
        ``"number"``, ``"boolean"``, ``"date"`` or ``"category"``, by column.
    categories_ : {column: Category}
        Levels and reference.
    fills_ : {column: float}
        Replacements for missing numbers.
    terms_ : tuple of Term
        The factors of which each column is a product.
    sparse_ : bool
        Whether rows are CSR: if a category has more than 20 levels, or less than a tenth of the entries are nonzero.
    target_ : str or None
        The left-hand side of the formula.
    intercept_ : bool
        Whether the formula has a constant.

    Notes
    -----
    Levels, means and kinds are mergeable sums over rows: ``partial_fit`` learns from one part at a time (except
    formulas with ``center``, ``scale``, ``poly`` or splines, which need all rows). Cost: one pass to learn and one to
    encode, a block of rows at a time; O(N) integers for each category, never N × levels. Contrasts of interactions
    follow R's rule.

    >>> import polars
    >>> table = polars.DataFrame({"age": [19, 33, 20], "race": ["black", "other", "white"]})
    >>> design = Design().fit(table)
    >>> design.get_feature_names_out().tolist(), design.transform(table).tolist()
    (['age', 'race[other]', 'race[white]'], [[19.0, 0.0, 0.0], [33.0, 1.0, 0.0], [20.0, 0.0, 1.0]])
    """

    feature_names_in_: npt.NDArray[Any]
    n_features_in_: int
    kinds_: dict[str, str]
    categories_: dict[str, Category]
    fills_: dict[str, float]
    states_: States
    terms_: tuple[Term, ...]
    sparse_: bool
    target_: str | None
    intercept_: bool
    _schema: TableSchema | None = None

    def __init__(
        self,
        formula: str | None = None,
        *,
        missing: str = "error",
        unseen: str = "error",
        reference: Reference = None,
        unlabelled: str = "error",
    ) -> None:
        self.formula, self.missing, self.unseen, self.reference = formula, missing, unseen, reference
        self.unlabelled = unlabelled

    @property
    def drops_unlabelled(self) -> bool:
        """Whether rows without a label are left out of a fit.

        >>> Design(missing="drop").drops_unlabelled, Design(missing="indicator").drops_unlabelled
        (True, False)
        """
        return "drop" in (self.missing, self.unlabelled)

    def fit(self, X: Any, y: Any = None, sample_weight: object = None) -> Design:
        """Learn levels, kinds and means from a table; ``y`` may name a column to leave out, and is otherwise ignored.

        >>> import polars
        >>> Design("~ I(age > 30)").fit(polars.DataFrame({"age": [19, 33]})).get_feature_names_out().tolist()
        ['I(age > 30)']
        """
        self.learn(split_target(X, y)[0], sample_weight)
        return self

    def learn(self, X: Any, sample_weight: object = None, *, split: bool = False) -> tuple[ArrayOrCSR | SplitRows, Any]:
        """Learn from a table; return its encoded rows, and the numbers of the rows kept if some were dropped.

        With ``split``, large tables come in parts, with categories as codes; then rows may stay that should be dropped,
        and in place of the numbers there is a boolean for each row that says whether it was kept.

        >>> import polars
        >>> rows, kept = Design(missing="drop").learn(polars.DataFrame({"x": [1, None, 3]}))
        >>> rows.tolist(), kept.tolist()
        ([[1.0], [3.0]], [0, 2])
        """
        with restored_on_error(self):
            formula, frame = self._read(X)
            plain = all(factor.column or factor.category for term in formula.terms for factor in term)
            frame, kept, s = self._complete(frame, sample_weight, stay=split and plain)
            self._settle(formula, frame, summarise(frame, formula, s, numbers=self.missing == "indicator"), s)
            warn_of_rounding(frame.rounded())
            self.__dict__.pop("_schema", None)
            if split and self.is_split(frame.n_rows):
                return self._split(frame, s), kept
            if kept is not None and kept.dtype == bool:
                frame, kept, s = self._complete(frame, sample_weight)
            return self._encode(frame, s), kept

    def partial_fit(self, X: Any, y: Any = None, sample_weight: object = None) -> Design:
        """Learn from one more part of a table: the design then equals a fit to all parts so far.

        >>> import polars
        >>> parts = [polars.DataFrame({"x": x}) for x in (["a", "b"], ["c"])]
        >>> Design().partial_fit(parts[0]).partial_fit(parts[1]).get_feature_names_out().tolist()
        ['x[b]', 'x[c]']
        """
        with restored_on_error(self):
            schema = self.look(split_target(X, y)[0], sample_weight)
            schema = schema if self._schema is None else self._schema.merge(schema)
            self.settle(schema, all_rows=False)
            self._schema = schema
        return self

    def look(self, X: Any, sample_weight: object = None, *, check: bool = True) -> TableSchema:
        """Return the summary of a part of a table, without learning; `settle` learns from the merged summaries.

        Missing values that the design does not accept are refused now or, with ``check=False``, when they are encoded.

        >>> import polars
        >>> Design().look(polars.DataFrame({"x": ["a", "b"]})).seen["x", True].weight.tolist()
        [1.0, 1.0]
        """
        formula, frame = self._read(X)
        frame, _, s = self._complete(frame, sample_weight, empty_ok=True)
        for name in frame.columns if self.missing == "error" and check else ():
            if frame.missing(name).any():
                raise missing_error(name, frame, self.missing)
        return TableSchema(frame.kinds, summarise(frame, formula, s, numbers=self.missing == "indicator"))

    def complete(self, X: Any) -> Indices | None:
        """Return the numbers of the rows to fit, if ``missing="drop"`` leaves out some, else None.

        >>> import polars
        >>> Design(missing="drop").complete(polars.DataFrame({"x": [1, None, 3]})).tolist()
        [0, 2]
        """
        kept: Indices | None = self._complete(self._read(X)[1], None, empty_ok=True)[1]
        return kept

    def settle(self, schema: TableSchema, *, all_rows: bool = True) -> Design:
        """Learn from the merged schema of all parts of a table (``all_rows``), or of those so far.

        >>> import polars
        >>> parts = [Design().look(polars.DataFrame({"x": x})) for x in (["a", "b"], ["c"])]
        >>> Design().settle(parts[0].merge(parts[1])).get_feature_names_out().tolist()
        ['x[b]', 'x[c]']
        """
        formula = self._formula(list(schema.kinds))
        self._settle(formula, Frame({}, schema.kinds, 0), schema.seen, all_rows=all_rows)
        return self

    def transform(self, X: Any) -> ArrayOrCSR:
        """Return the columns of the design for the rows of a table: N × M, an array or (``sparse_``) a CSR matrix.

        >>> import polars
        >>> design = Design(unseen="reference").fit(polars.DataFrame({"x": ["a", "b"]}))
        >>> design.transform(polars.DataFrame({"other": [1, 2], "x": ["b", "z"]})).tolist()
        [[1.0], [0.0]]
        """
        return self._encode(self._again(X))

    def transform_split(self, X: Any) -> ArrayOrCSR | SplitRows:
        """Return `transform`, with large tables in parts: numbers in place, categories as codes.

        >>> import polars
        >>> design = Design().fit(polars.DataFrame({"x": ["a", "b"]}))
        >>> design.transform_split(polars.DataFrame({"x": ["b"]})).tolist()
        [[1.0]]
        """
        frame = self._again(X)
        return self._split(frame) if self.is_split(frame.n_rows) else self._encode(frame)

    def retrain(
        self, X: Any, sample_weight: object = None, *, part: bool = False, split: bool = False
    ) -> tuple[ArrayOrCSR | SplitRows, Any]:
        """Return encoded rows for another fit, and the numbers of the rows kept if some were dropped.

        If the rows are only ``part`` of the data, all of them may be dropped. With ``split``, they come in parts, with
        categories as codes, and may stay as in `learn`.

        >>> import polars
        >>> design = Design(missing="drop").fit(polars.DataFrame({"x": ["a", "b", None]}))
        >>> design.retrain(polars.DataFrame({"x": [None, "b"]}))[0].tolist()
        [[1.0]]
        """
        numbers = [factor for term in self.terms_ for factor in term.factors if factor.what == "numbers"]
        stay = split and not part and all(factor.of.column for factor in numbers)
        frame, kept, s = self._complete(self._again(X), sample_weight, empty_ok=part, stay=stay)
        return self._split(frame, s) if split else self._encode(frame, s, by_column=part), kept

    def is_like(self, other: Design) -> bool:
        """Whether two fitted designs produce the same columns for every table.

        >>> import polars
        >>> one, two = (Design().fit(polars.DataFrame({"x": list(levels)})) for levels in ("ab", "ba"))
        >>> one.is_like(two), one.is_like(Design().fit(polars.DataFrame({"x": ["a", "c"]})))
        (True, False)
        """
        names = ("kinds_", "categories_", "fills_", "states_", "terms_", "unseen", "missing")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[Any]:
        """Return the names of the columns, such as ``age``, ``race[black]``, ``race[black]:smoke``."""
        check_fitted(self, "fit(table)")
        return np.array([name for term in self.terms_ for name in term.names], dtype=object)

    def _read(self, X: object) -> tuple[Formula, Frame]:
        """Return the formula (by default of all columns), and the columns that it names."""
        for name, known in POLICIES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
        if not (self.reference in (None, "most frequent", "mean") or isinstance(self.reference, dict)):
            allowed = "None, 'most frequent', 'mean' or {column: level}"
            raise InvalidTypeError(f"reference must be {allowed}, found {self.reference!r}.")
        table = X if isinstance(X, Frame) else as_table(X)
        formula = self._formula([] if table is None else [str(name) for name in table.columns])
        frame = read_some_rows(X, formula.columns)
        if not frame.columns:
            raise InvalidInputError("The table has no columns to make a design of: a minimum of 1 is required.")
        return formula, frame

    def _formula(self, columns: list[str]) -> Formula:
        every_column = Formula(None, tuple((plain_column(name),) for name in columns))
        return every_column if self.formula is None else read_formula(self.formula, columns)

    def _again(self, X: object) -> Frame:
        """Return the columns of a later table, with the kinds seen in the fit."""
        check_fitted(self, "fit(table)")
        frame = read_some_rows(X, self.feature_names_in_.tolist())
        for name, kind in self.kinds_.items():
            found = frame.kinds[name]
            if found not in (kind, "empty"):
                raise InvalidTypeError(
                    f"Column {name!r} holds {KIND_WORDS[found]}; in the fit it held {KIND_WORDS[kind]}. Give it the "
                    "type that it had then."
                )
        return frame

    def _complete(
        self, frame: Frame, sample_weight: object, *, empty_ok: bool = False, stay: bool = False
    ) -> tuple[Frame, Any, Any]:
        """Return the rows to fit, their numbers if some are dropped, and their weights.

        If rows may ``stay``, those that are dropped get weight 0 instead, where that takes less memory.
        """
        s = read_weights(sample_weight, frame.n_rows)
        complete = complete_rows(frame, empty_ok=empty_ok) if self.missing == "drop" else None
        if complete is None:
            return frame, None, s
        if stay and can_stay(frame, complete):
            return frame, complete, complete.view(np.uint8) if s is None else np.where(complete, s, 0.0)
        kept = np.flatnonzero(complete)
        return frame.take(kept), kept, take_rows(s, kept)

    def _settle(
        self, formula: Formula, frame: Frame, summaries: Summaries, s: Array | None = None, *, all_rows: bool = True
    ) -> None:
        """Set the fitted attributes from summaries of ``all_rows`` or of some; a frame without columns has no rows."""
        self.feature_names_in_, self.n_features_in_ = np.array(formula.columns, dtype=object), len(formula.columns)
        self.target_, self.intercept_ = formula.target, formula.intercept
        self.kinds_ = {name: frame.kinds[name] for name in formula.columns}
        for name, kind in self.kinds_.items():
            if kind == "empty" and all_rows:
                raise empty_error(name)
        given = {f.category: f.reference for term in formula.terms for f in term if f.reference is not None}
        self.categories_, self.fills_, self.states_ = {}, {}, {}
        summaries = {use: summary.settled() for use, summary in summaries.items()}
        for (name, levels), summary in summaries.items():
            if all_rows and not summary.observed > 0:
                raise empty_error(name)
            if levels:
                self.categories_[name] = self._category(name, summary, given, all_rows)
            elif summary.missing > 0:
                self.fills_[name] = summary.mean
        for name in self.reference if isinstance(self.reference, dict) else ():
            if name not in self.categories_:
                raise UnknownNameError("column of categories in reference", name, self.categories_)
        for expression in dict.fromkeys(factor for term in formula.terms for factor in term):
            if self._proto(expression)[0] == "numbers":
                self._learn_functions(expression, frame, s)
        if all_rows and self.reference != "mean":  # with it, rare levels are taken care of
            seen = {name: summary for (name, levels), summary in summaries.items() if levels}
            warn_of_levels((name, one.levels, one.observed) for name, one in seen.items())
        self.terms_ = tuple(self._terms(formula))
        self.sparse_ = is_sparse(self.terms_)

    def _category(self, name: str, summary: ColumnSummary, given: dict[str | None, Any], all_rows: bool) -> Category:
        wanted = {name: given[name]} if name in given else self.reference
        category = choose_reference(Category(name, summary.kind, summary.levels), summary.weight, wanted)
        if self.missing == "indicator" and summary.missing > 0:
            if MISSING in map(str, summary.levels):
                raise InvalidInputError(
                    f"Column {name!r} has the level {MISSING!r} and missing values, which would have the same name. "
                    "Rename one of them."
                )
            return replace(category, levels=(*summary.levels, None))
        if len(summary.levels) == 1 and all_rows:
            only = repr(summary.levels[0])
            what = f"Column {name!r} holds one level only, {only}, so it carries no information and gets no column."
            warnings.warn(f"{what} Leave it out.", CollinearityWarning, stacklevel=caller_level())
        return category

    def _learn_functions(self, expression: Expression, frame: Frame, s: Array | None) -> None:
        if not formulas.learned_calls(expression):
            return
        if frame.columns:
            weights = np.ones(frame.n_rows) if s is None else s
            formulas.learn(expression, lambda name: self._numbers(frame, name), weights, self.states_)
        else:
            raise InvalidInputError(
                f"{expression.text} in the formula is learned from all rows at once, so neither partial_fit nor a fit "
                "to data in pieces can. Use fit with a table in memory, or a basis such as Spline() in place of it."
            )

    def _terms(self, formula: Formula) -> list[Term]:
        """Return the terms with the names of their columns; missing indicators follow their columns or come last."""
        protos = list(dict.fromkeys(tuple(dict.fromkeys(map(self._proto, term))) for term in formula.terms))
        categories = {proto for term in protos for proto in term if proto[0] == "levels"}
        terms: list[Term] = []
        for term, full in zip(protos, contrasts(protos, categories, intercept=self.intercept_), strict=True):
            terms.append(Term(tuple(self._factor(*proto, full=f) for proto, f in zip(term, full, strict=True))))
            if self.formula is None and term[0][0] == "numbers" and term[0][1].column in self.fills_:
                terms.append(indicator(term[0][1].column))
        if self.formula is not None:
            terms += [indicator(name) for name in self.feature_names_in_.tolist() if name in self.fills_]
        if not any(term.width for term in terms):
            raise InvalidInputError("The design has no columns: every category holds one level only.")
        if (twice := repeated_name(terms)) is not None:
            raise InvalidInputError(
                f"Two columns of the design would be called {twice!r}. Rename a column of the table, or a level."
            )
        return [term for term in terms if term.width]

    def _proto(self, factor: Expression) -> tuple[str, Any]:
        """Return a factor before its columns have names: levels of a column, or numbers of an expression."""
        column = factor.column if self.kinds_.get(factor.column or "") == "category" else None
        category = factor.category or column  # a number beside its C(x) stays one
        return ("numbers", factor) if category is None else ("levels", category)

    def _factor(self, what: str, of: Any, *, full: bool) -> Factor:
        if what == "levels":
            category = self.categories_[of]
            full = full or (category.reference < 0 and len(category.levels) > 1)
            return Factor(what, of, category.names(full=full), full)
        width = evaluate(of, lambda name: np.ones(1), self.states_).shape[1]
        names = (of.text,) if width == 1 else tuple(f"{of.text}[{i}]" for i in range(1, width + 1))
        return Factor(what, of, names)

    def _numbers(self, frame: Frame, name: str, rows: slice | None = None) -> Array:
        """Return a numeric column with missing values filled, or refuse them."""
        x = frame.numbers(name, rows)
        missing = np.isnan(x)
        if missing.any():
            if name not in self.fills_:
                raise missing_error(name, frame, self.missing)
            x = np.where(missing, self.fills_[name], x)
        return x

    def is_split(self, n_rows: int) -> bool:
        """Whether this many rows should be kept in parts: there are categories that would be large if expanded.

        >>> import polars
        >>> Design().fit(polars.DataFrame({"x": ["a", "b"]})).is_split(2)
        False
        """
        width = sum(term.width for term in self.terms_)
        large = self.sparse_ or n_rows * width >= SPLIT_ELEMENTS
        return large and any(factor.what == "levels" for term in self.terms_ for factor in term.factors)

    @property
    def form(self) -> TableForm:
        """The column layout of rows in parts, before any rows exist.

        >>> import polars
        >>> Design().fit(polars.DataFrame({"x": ["a", "b", "c"], "n": [1, 2, 3]})).form.factors
        ((0, 2),)
        """
        return split_form(self.terms_)

    def _split(self, frame: Frame, s: Array | None = None) -> SplitRows:
        """Return the rows in parts: numbers in place, categories as codes."""
        return split_frame(self, frame, s)

    def values(self, frame: Frame, factor: Factor, rows: slice) -> Array:
        """Return the values of a numeric factor, n × w."""
        if factor.what == "indicator":
            return np.isnan(frame.numbers(factor.of, rows))[:, None].astype(np.float64)
        x = evaluate(factor.of, lambda name: self._numbers(frame, name, rows), self.states_)
        if not np.isfinite(x).all():
            raise formulas.not_finite(factor.of, rows.start + int(np.argmin(np.isfinite(x).all(axis=1))))
        return x

    def _encode(self, frame: Frame, s: Array | None = None, *, by_column: bool = False) -> ArrayOrCSR:
        """Return the columns of all terms; rows of weight 0 are ignored, so they may have any level."""
        absent = None if s is None else s == 0.0
        places = {name: self._places(category, frame, absent) for name, category in self.categories_.items()}

        def values(factor: Factor, rows: slice) -> Any:
            if factor.what == "levels":
                return places[factor.of][1 if factor.full else 0][rows]
            return self.values(frame, factor, rows)

        return encode(self.terms_, values, frame.n_rows, as_csr=self.sparse_, by_column=by_column)

    def _places(
        self, category: Category, frame: Frame, absent: npt.NDArray[np.bool_] | None
    ) -> tuple[Indices, Indices]:
        """Return the column of each row's level, first without the reference (−1), then with it."""
        coded = frame.coded(category.name)
        if not category.has_missing and (coded.codes < 0).any():
            raise missing_error(category.name, frame, self.missing)
        places = category.places(coded, self.unseen, absent)
        levels = np.arange(len(category.levels))
        column = np.where(levels == category.reference, -1, levels - (levels > category.reference))
        return column[places], places
