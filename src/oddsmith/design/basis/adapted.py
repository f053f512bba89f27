"""Transformers of scikit-learn as bases."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from oddsmith.design.basis.all_rows import AllRows
from oddsmith.design.basis.base import Basis, Names, Source
from oddsmith.design.inputs import Rows, dense
from oddsmith.engines import Engine, MemorySource
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors


class Adapted(Basis):
    """A transformer of scikit-learn in a list of bases: fitted to all rows at once, applied to some at a time.

    It cannot learn by a fold, so the rows that it is fitted to are in memory as a whole. One that needs labels, that
    takes no notice of weights where there are some, or whose output for a row depends on the others is refused.

    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> Adapted(MaxAbsScaler()).fit_transform([[1.0], [4.0]]).tolist()
    [[0.25], [1.0]]
    """

    fitted_: Any
    sparse_: bool

    def __init__(self, transformer: BaseEstimator) -> None:
        self.transformer = transformer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.transformer).input_tags.sparse
        return tags

    @property
    def keeps_sparse(self) -> bool:  # type: ignore[override]
        """Whether CSR rows come out as CSR rows."""
        return self.sparse_

    def check_parameters(self) -> None:
        """Refuse a transformer that needs labels."""
        if get_tags(self.transformer).target_tags.required:
            raise InvalidTypeError(
                f"{self.transformer!r} needs labels, and a basis sees rows only. Put it before the model in a pipeline."
            )

    def learn(self, source: Source, engine: Engine, names: Names) -> None:
        """Fit a clone to all rows."""
        if not isinstance(source, MemorySource):
            raise InvalidInputError(
                f"{self.transformer!r} is fitted to all rows at once, in memory, and the data is in pieces. Use a "
                "basis of oddsmith, such as Standardize(), or read a table into memory that is small enough."
            )
        rows = engine.fold(AllRows, source, None).joined(source.shape.M)
        s = None if source.s is None else source.s[source.s > 0]
        options = {}
        if s is not None and (s != s[0]).any():
            if not has_fit_parameter(self.transformer, "sample_weight"):
                raise InvalidInputError(
                    f"There are sample weights, and {type(self.transformer).__name__} takes none. Put it before the "
                    "model in a pipeline, or leave the weights out."
                )
            options["sample_weight"] = s
        with as_input_errors():
            self.fitted_ = clone(self.transformer).fit(rows, **options)
            self.sparse_ = sparse.issparse(rows) and sparse.issparse(self.fitted_.transform(rows[:1]))
        self._check_rows(rows[:8])

    def _check_rows(self, rows: Rows) -> None:
        together, alone = dense(self.expand(rows)), dense(self.expand(rows[:1]))
        if together.shape[0] != rows.shape[0] or not np.allclose(together[:1], alone, rtol=1e-6, atol=1e-9):
            raise InvalidInputError(
                f"{self.transformer!r} does not treat each row by itself: the output for one depends on which others "
                "come with it. A basis must."
            )

    def expand(self, rows: Rows) -> Rows:
        """Return what the transformer makes of some rows, in float64; CSR only if it learned from CSR rows."""
        Phi = self.fitted_.transform(rows)
        if self.sparse_ and sparse.issparse(rows):
            return sparse.csr_array(Phi, dtype=np.float64)
        return np.asarray(Phi.toarray() if sparse.issparse(Phi) else Phi, dtype=np.float64)

    def column_names(self, names: Names) -> list[str]:
        """Return the transformer's own names, or numbered ones where it has none."""
        if hasattr(self.fitted_, "get_feature_names_out"):
            return [str(name) for name in self.fitted_.get_feature_names_out(names)]
        width = self.expand(np.zeros((1, len(names)))).shape[1]
        return [f"{type(self.transformer).__name__.lower()}{j}" for j in range(width)]
