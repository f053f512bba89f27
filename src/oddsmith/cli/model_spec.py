"""Models, bases, priors and losses as the command line describes them, and folds to compare models on.

Nothing in these texts is run as code.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.models import MODELS
from oddsmith.protocols import Indices, Labels
from oddsmith.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa

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


NAME = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
OPENING, CLOSING = "([{", ")]}"


def split_list(text: str) -> list[str]:
    """Return the parts of a list, split at commas that are in no brackets and no quotes.

    >>> split_list("standardize, radial([[0, 1]], width=2.0)")
    ['standardize', 'radial([[0, 1]], width=2.0)']
    """
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        depth += 0 if quote else (sign in OPENING) - (sign in CLOSING)
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def read_call(text: str, what: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Return name and arguments of ``name`` or ``name(1, key='value')``; arguments are literals.

    >>> read_call("polynomial(2, interactions=False)", "basis")
    ('polynomial', [2], {'interactions': False})
    """
    found = NAME.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        call = ast.parse(f"f({found[2] or ''}\n)", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)) or any(
            keyword.arg is None for keyword in call.keywords
        ):
            raise ValueError
        arguments = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InvalidInputError(
            f"The {what} {text!r} cannot be read. Write a name, or a name with numbers, quoted strings or lists: "
            "polynomial(2), or gaussian('separate')."
        ) from None
    return found[1], arguments, named


def make(text: str, registry: Registry[type[Any]], defaults: dict[str, Any] | None = None) -> Any:
    """Construct the class that ``text`` names in a registry, with the arguments there and with ``defaults``.

    >>> from oddsmith.models import MODELS
    >>> make("gaussian('separate')", MODELS, {"shrinkage": 0.1})
    GaussianClassifier(covariance='separate', shrinkage=0.1)
    """
    name, arguments, named = read_call(text, registry.kind)
    kind = registry[name]
    signature = inspect.signature(kind)
    for key in {**named, **(defaults or {})}:
        if key not in signature.parameters:
            raise _unknown_argument(registry, name, key, named)
    try:
        bound = signature.bind_partial(*arguments, **named).arguments
    except TypeError as error:
        known = ", ".join(signature.parameters)
        raise InvalidTypeError(f"{text!r}: {error}. {name} has the arguments {known}.") from None
    twice = next((key for key in defaults or {} if key in bound), None)
    if twice is not None:
        raise InvalidInputError(f"{twice!r} is given twice: in {text!r} and by --{twice}. Give it once.")
    given = {*bound, *(defaults or {})}
    lacking = [p.name for p in signature.parameters.values() if p.default is p.empty and p.name not in given]
    if lacking:
        raise InvalidInputError(f"The {registry.kind} {text!r} needs {lacking[0]}: write {name}({lacking[0]}=…).")
    return kind(*arguments, **named, **(defaults or {}))


def _unknown_argument(registry: Registry[type[Any]], name: str, key: str, named: dict[str, Any]) -> Exception:
    """Return the error for an argument that a class does not have; one of another library says what it is here."""
    from oddsmith.models.foreign_parameters import is_foreign, translate

    what, known = registry.kind, list(inspect.signature(registry[name]).parameters)
    if key not in named:  # an option
        takers = [other for other, kind in registry.items() if key in inspect.signature(kind).parameters]
        takes = f"a {what} that takes it: {', '.join(takers)}"
        return InvalidInputError(f"The {what} {name!r} takes no --{key}. Leave it out, or choose {takes}.")
    if what == "model" and is_foreign(key):
        return InvalidInputError(translate(registry[name], key, named[key], known))
    return UnknownNameError(f"argument of {what} {name!r}:", key, known)


def read_basis(text: str) -> list[Any]:
    """Return the bases of ``standardize,polynomial(2)``.

    >>> read_basis("standardize,polynomial(2)")
    [Standardize(), Polynomial()]
    """
    from oddsmith.design.basis import BASES

    return [make(part, BASES) for part in split_list(text)]


def read_prior(text: str) -> Any:
    """Return the prior of a number (its σ), ``evidence``, ``loo``, ``cv``, ``jeffreys``, ``laplace:0.1`` or ``none``.

    >>> read_prior("2"), read_prior("evidence"), read_prior("none")
    (2.0, GaussianPrior(scale='evidence'), None)
    >>> read_prior("laplace:0.1,gaussian=1,groups=class"), read_prior("laplace:cv")
    (LaplacePrior(scale=0.1, groups='class', gaussian=1), LaplacePrior(scale='cv'))
    """
    from oddsmith.priors import PRIORS, SCALE_CRITERIA, GaussianPrior

    word = text.strip()
    if word == "none":
        return None
    if word in SCALE_CRITERIA:
        return GaussianPrior(scale=word)
    try:
        scale = float(word)
    except ValueError:
        word = _as_call(word)
        name = read_call(word, "prior")[0]
        if name not in PRIORS:
            raise UnknownNameError("prior", name, ["none", "1.0 (any number)", *SCALE_CRITERIA, *PRIORS]) from None
        return make(word, PRIORS)
    if not 0 < scale < float("inf"):
        raise InvalidInputError(f"--prior {text}: the scale of a prior is a positive number, or evidence, loo or cv.")
    return scale


def _as_call(word: str) -> str:
    """Return ``laplace:0.1,groups=class`` as ``laplace(0.1,groups='class')``, all else as it is.

    >>> _as_call("laplace:cv"), _as_call("laplace(0.1)"), _as_call("laplace")
    ("laplace('cv')", 'laplace(0.1)', 'laplace')
    """
    found = re.fullmatch(r"\s*([\w-]+)\s*:(.*)", word, flags=re.DOTALL)
    if found is None:
        return word
    parts = []
    for part in found[2].split(","):
        name, equal, value = part.rpartition("=")
        value = value.strip()
        parts.append(f"{name}{equal}{repr(value) if re.fullmatch(r'[A-Za-z_]+', value) else value}")
    return f"{found[1]}({','.join(parts)})"


def read_class_weight(text: str) -> Any:
    """Return class weights from ``balanced`` or a dictionary; numeric labels have no quotes.

    >>> read_class_weight("balanced"), read_class_weight("{'yes': 5}"), read_class_weight("{0: 1, 1: 5}")
    ('balanced', {'yes': 5}, {0: 1, 1: 5})
    """
    word = text.strip()
    if not word.startswith("{"):
        if word != "balanced":
            raise UnknownNameError("--class-weight", word, ["balanced", "{'yes': 5}"])
        return word
    try:
        return dict(ast.literal_eval(word))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InvalidInputError(
            f"--class-weight {text} cannot be read. Write balanced, or weights by class: {{'no': 1, 'yes': 5}}; "
            f"numeric labels have no quotes."
        ) from None


def read_loss(text: str, classes: Iterable[Any]) -> Any:
    """Return a loss from JSON (rows of numbers, or {class: {action: cost}}), or from a file with JSON or CSV in it.

    A CSV has the classes in its first column and the actions in its header. Names of classes are matched as text.

    >>> read_loss('{"0": {"go": 1, "stay": 0}, "1": {"go": 0, "stay": 9}}', [0, 1])
    {0: {'go': 1, 'stay': 0}, 1: {'go': 0, 'stay': 9}}
    >>> read_loss("[[0, 1], [9, 0]]", ["no", "yes"])
    [[0, 1], [9, 0]]
    """
    content, where = text, "--loss"
    if not _looks_like_json(text):
        try:
            content, where = Path(text).read_text(encoding="utf-8-sig"), text
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"--loss {text!r} is neither JSON nor a file that can be read ({error}). Write it as [[0, 1], [5, 0]], "
                "one row for each class, or name a JSON or CSV file."
            ) from None
    read = _json if _looks_like_json(content) else _csv_loss
    return _with_classes(read(content, where), classes)


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("[", "{")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} is not valid JSON: {error}.") from None


def _csv_loss(content: str, path: str) -> dict[str, dict[str, float]]:
    import csv

    (_, *actions), *lines = [row for row in csv.reader(content.splitlines()) if row] or [[""]]
    if not lines or not actions:
        expected = "a header with the actions, and a line for each class"
        raise InvalidInputError(f"{path!r} has no losses: expected {expected}.")
    loss = {}
    for number, row in enumerate(lines, 2):
        try:
            loss[row[0]] = dict(zip(actions, map(float, row[1:]), strict=True))
        except ValueError:
            text = f"should be a class and {len(actions)} numbers; found {','.join(row)!r}."
            raise InvalidInputError(f"Line {number} of {path!r} {text}") from None
    return loss


def _with_classes(loss: object, classes: Iterable[Any]) -> Any:
    """Return a loss whose names, which are texts in JSON and CSV, are those of the classes."""
    if not isinstance(loss, dict):
        return loss
    by_text = {str(label): label for label in classes}

    def named(costs: dict[str, Any]) -> dict[Any, Any]:
        return {by_text.get(name, name): cost for name, cost in costs.items()}

    return {name: named(row) if isinstance(row, dict) else row for name, row in named(loss).items()}


def read_costs(loss: str | None, reject: str | None, classes: Labels) -> dict[str, Any]:
    """Return the arguments ``loss`` and ``reject`` from the texts of these options."""
    labels = classes.tolist()
    costs = None if loss is None else read_loss(loss, labels)
    return {"loss": costs, "reject": None if reject is None else read_reject(reject, labels)}


def read_reject(text: str, classes: Iterable[Any]) -> Any:
    """Return what rejecting costs: a number, or JSON with one for each class.

    >>> read_reject("0.1", ["a", "b"]), read_reject('{"a": 1, "b": 2}', ["a", "b"])
    (0.1, {'a': 1, 'b': 2})
    """
    try:
        return float(text)
    except ValueError:
        return _with_classes(_json(text, "--reject"), classes)
