"""Models as the command line describes them, and folds to compare them on."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oddsmith.cli.spec_parser import make, read_basis, read_call, read_class_weight, read_prior, split_list
from oddsmith.errors import InvalidInputError
from oddsmith.models import MODELS

if TYPE_CHECKING:
    import pyarrow as pa

    from oddsmith.protocols import Indices

SCALED = "standardize(center=False)"


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model as text: the values of --model, --basis, --prior, --formula, --missing, --unseen and so on."""

    model: str
    basis: str | None = None
    prior: str | None = None
    formula: str | None = None
    missing: str | None = None
    unseen: str | None = None
    unlabelled: str | None = None
    class_weight: str | None = None

    def arguments(self) -> list[str]:
        """Return the options that give this specification to ``oddsmith fit``.

        >>> ModelSpec(model="logistic", prior="1.0").arguments()
        ['--model', 'logistic', '--prior', '1.0']
        """
        given = {name: value for name, value in vars(self).items() if value is not None}
        return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(MODELS[read_call(self.model, "model")[0]]).parameters

    @property
    def takes_design(self) -> bool:
        """Whether the model, or those that it is made of, read tables through a design."""
        return bool({"design", "model"} & set(self._parameters()))

    def build(self) -> Any:
        """Return the model, not fitted yet.

        >>> ModelSpec(model="logistic", basis="polynomial(3)", prior="2").build()
        LogisticRegression(basis=[Polynomial(degree=3)], prior=2.0)
        """
        from oddsmith.design.table import Design

        name, takes = read_call(self.model, "model")[0], self._parameters()
        texts = {name: getattr(self, name) for name in ("formula", "missing", "unseen", "unlabelled")}
        policies = {key: text for key, text in texts.items() if text is not None}
        given: dict[str, Any] = {} if self.basis is None else {"basis": read_basis(self.basis)}
        if self.prior is not None:
            given["prior"] = read_prior(self.prior)
        if policies:
            if not self.takes_design:
                raise InvalidInputError(
                    f"{name} reads categories and missing values by itself and takes no --{next(iter(policies))}. "
                    "Leave that out, or choose another model."
                )
            given["design"] = Design(**policies)
        if given and "model" in takes:  # one of these for each class, or each pair of classes
            given = {"model": make("logistic", MODELS, {"prior": 1.0, **given})}
        if self.class_weight is not None:
            given["class_weight"] = read_class_weight(self.class_weight)
        return make(self.model, MODELS, given)


def candidate_specs(classes: int, models: str, policies: dict[str, Any]) -> dict[str, ModelSpec]:
    """Return specifications by name: those listed, or with ``"all"`` every family with settings that suit most tables.

    >>> list(candidate_specs(2, "logistic,naive-bayes", {}))
    ['logistic', 'naive-bayes']
    """
    listed = list(MODELS) if models == "all" else split_list(models)
    if models == "all":
        listed.remove("recalibrated")  # a wrapper, no family
        listed.remove("one-vs-one")  # a pair of classes need not have every level of a category
        if classes > 2:
            listed.remove("probit")
        listed[listed.index("gaussian") : listed.index("gaussian") + 1] = ["gaussian('shared')", "gaussian('separate')"]
    return {text: _default_spec(text, policies, scaled=models == "all") for text in listed}


def _default_spec(text: str, policies: dict[str, Any], *, scaled: bool) -> ModelSpec:
    """Return a specification in which weights have a prior, so that separated classes do no harm."""
    name = read_call(text, "model")[0]
    if name == "naive-bayes":
        return ModelSpec(model=text)
    if name in ("logistic", "probit"):
        return ModelSpec(model=text, basis=SCALED, prior="1.0", **policies)
    if name == "gaussian" and scaled:
        return ModelSpec(model=text[:-1] + ", shrinkage='oas')", basis=SCALED, **policies)
    basis = SCALED if name in ("one-vs-rest", "one-vs-one", "perceptron") else None
    return ModelSpec(model=text, basis=basis, **policies)


def fit_command(data: str, target: str, spec: ModelSpec, further: Sequence[str], output: str) -> str:
    """Return the command that fits a model.

    >>> fit_command("my data.csv", "y", ModelSpec(model="naive-bayes"), [], "m.odds")
    "oddsmith fit 'my data.csv' --target y --model naive-bayes -o m.odds"
    """
    return shlex.join(["oddsmith", "fit", data, "--target", target, *spec.arguments(), *further, "-o", output])


def make_splits(table: pa.Table, target: str, cv: int, seed: int) -> list[tuple[Indices, Indices]]:
    """Return folds as (train, test) with equal shares of the classes and of missing values.

    So a column with missing values in two rows has them in every training part, where they are learned from.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [None, 1, 2, 3, None, 4], "y": [0, 0, 0, 1, 1, 1]})
    >>> [sum(i in test for i in (0, 4)) for _, test in make_splits(table, "y", 2, seed=0)]
    [1, 1]
    """
    import numpy as np

    n = table.num_rows
    if cv > n:
        raise InvalidInputError(f"--cv {cv} asks for more folds than there are rows ({n}). Use fewer.")
    missing = np.zeros(n, dtype=object)
    for name in table.column_names:
        if table[name].null_count:
            missing = missing * 2 + table[name].is_null().to_numpy().astype(int)
    patterns = np.unique(missing, return_inverse=True)[1]
    classes = table[target].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.lexsort((np.random.default_rng(seed).random(n), classes, patterns))
    fold = np.empty(n, dtype=np.intp)
    fold[order] = np.arange(n) % cv
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(cv)]
