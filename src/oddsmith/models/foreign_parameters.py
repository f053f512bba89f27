"""Parameters of other libraries: what a name such as ``C`` or ``random_state`` is called here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from math import sqrt
from typing import Any, TypeVar

from oddsmith.errors import InvalidInputError, InvalidTypeError, did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

SUM = (
    "In scikit-learn and here the loss is a sum over rows, so the number of rows changes nothing; the intercept has no "
    "penalty here, nor in scikit-learn, except with solver='liblinear'. Without a prior there is no penalty at all; "
    "scikit-learn's default C=1 is prior=1.0."
)
MEAN = (
    "The loss here is a sum over rows: where another library penalises the mean (alpha of SGDClassifier, lambda of "
    "glmnet, regParam of Spark), N times that number is 1/σ² for N rows. The intercept has no penalty."
)
PRIORS = (
    "prior=1.0 or GaussianPrior(1.0) (ridge), LaplacePrior(1.0) (lasso; with gaussian= the elastic net), or "
    "prior=None, the default, for none."
)


SKLEARN_SOLVERS = {"newton-cholesky": "newton", "newton-cg": "truncated-newton", "liblinear": "auto"} | dict.fromkeys(
    ("sag", "saga"), "auto"
)


def foreign_solver(name: str) -> InvalidInputError | None:
    """Return the error for a solver of scikit-learn, None for other names.

    >>> print(foreign_solver("newton-cg"))
    solver='newton-cg' is scikit-learn's; here it is solver='truncated-newton'. The default, solver='auto', chooses \
one by the size of the data, and every solver ends at the same optimum.
    """
    if name not in SKLEARN_SOLVERS:
        return None
    return InvalidInputError(
        f"solver={name!r} is scikit-learn's; here it is solver={SKLEARN_SOLVERS[name]!r}. The default, solver='auto', "
        "chooses one by the size of the data, and every solver ends at the same optimum."
    )


def _number(value: object) -> float | None:
    """Return a positive number, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < float("inf") else None


def _short(number: float) -> str:
    return repr(float(f"{number:.12g}"))


def _c(value: object) -> str:
    number = _number(value)
    if number is None:
        return f"C is the square of the prior's scale: prior=2.0 is C=4, prior=None (the default) is C=inf. {SUM}"
    lasso = f"With penalty='l1' it is prior=LaplacePrior({_short(number)})."
    return f"C={value!r} is prior={_short(sqrt(number))} (σ = √C). {lasso} {SUM}"


def _precision(name: str) -> Callable[[object], str]:
    def translate(value: object) -> str:
        number = _number(value)
        if number is None:
            return f"A penalty {name}/2 ‖w‖² is prior=σ with {name} = 1/σ²; prior=None, the default, has none. {MEAN}"
        return f"{name}={value!r} on the sum of losses is prior={_short(1 / sqrt(number))} ({name} = 1/σ²). {MEAN}"

    return translate


def _penalty(value: object) -> str:
    if value in ("l1", "elasticnet"):
        return f"penalty={value!r} is a LaplacePrior here. {LASSO} {SUM}"
    return f"A penalty is a prior here: {PRIORS} {SUM}"


def _l1_ratio(value: object) -> str:
    number = _number(value)
    if number == 1.0:
        return f"l1_ratio={value!r} is the lasso. {LASSO} {SUM}"
    if number is not None and number < 1.0:
        rest = _short(1 / sqrt(1.0 - number))
        net = f"LaplacePrior(C / {_short(number)}, gaussian={rest} * C**0.5)"
        return f"l1_ratio={value!r} is prior={net}. {SUM}"
    return f"A penalty is a prior here: {PRIORS} {SUM}"


LASSO = (
    "C=c is prior=LaplacePrior(c), whose penalty ‖w‖₁ / c has the same optimum; with l1_ratio=r it is "
    "LaplacePrior(c / r, gaussian=√(c / (1 − r)))."
)

PENALISED: Mapping[str, str | Callable[[object], str]] = {
    **{name: _precision(name) for name in ("alpha", "alphas", "lambda_", "reg_lambda", "l2", "regParam")},
    **{"C": _c, "Cs": _c, "penalty": _penalty, "l1_ratio": _l1_ratio},
}

EVERYWHERE: Mapping[str, str | Callable[[object], str]] = {
    "random_state": "Use seed= if the model has it; other fits are deterministic, bit for bit.",
    "seed": "Nothing is random in this fit.",
    "n_jobs": "Use threads=; by default all cores are used, and the result does not depend on their number.",
    "threads": "This model runs on one thread; n_jobs= of OneVsRest fits its models in parallel.",
    "verbose": "Nothing is printed. trace_ holds every iteration; progress=True is an option of fit for files.",
    "multi_class": "More than two classes are the softmax; OneVsRest(LogisticRegression()) fits one for each class.",
    "estimator": "Use model=, the first argument.",
    "base_estimator": "Use model=, the first argument.",
    "dual": "The solver is chosen by the size of the data (solver='auto'); all of them end at the same optimum.",
    "intercept_scaling": "The intercept has no penalty, so it needs no scaling.",
    "normalize": "It is basis=Standardize().",
    "priors": "Use class_prior=, {class: probability}.",
    "prior": "For class probabilities, use class_prior=.",
    "class_priors": "Use class_prior=, {class: probability}.",
    "var_smoothing": "It is variance_smoothing=.",
    "fit_prior": "Use class_prior=: None takes the shares of the classes; give {class: probability} for others.",
    "binarize": "Convert the columns to 0 and 1 first; features='bernoulli' accepts them.",
    "force_alpha": "smoothing=0 is allowed, and is maximum likelihood.",
    "reg_param": "Use shrinkage=, a share between 0 and 1, or 'oas'.",
    "store_covariance": "covariances_ (or covariance_) is always available.",
    "covariance_estimator": "Use covariance= ('shared', 'separate', 'diagonal', …) and shrinkage=.",
    "eta0": "It is step_size=.",
    "learning_rate": "Use step_size= of a solver: LogisticRegression(solver=Gradient(step_size=0.1)).",
    "max_iter": "Use max_epochs= of PerceptronClassifier; models with a closed form have no iterations.",
    "max_epochs": "It is max_iter=.",
    "n_iter": "Use max_iter= (max_epochs= of PerceptronClassifier).",
    "shuffle": "The order of the rows is random with seed=0; seed=None keeps the given order.",
    "tol": "There is no tolerance: the solution has a closed form, or the fit ends when no row is misclassified.",
    "ensemble": "One map is learned from all folds, as with ensemble=False.",
    "sample_weight": "Pass it to fit: fit(X, y, sample_weight=…).",
    "categorical_features": "Categories of a table are found by type; design=Design(…) says how they become numbers.",
    "family": "Use link=, 'logit' or another; the classes are Bernoulli or categorical.",
}


def translate(kind: type[object], name: str, value: object, known: Iterable[str]) -> str:
    """Return the sentence for a parameter that a model does not have: what it is here, or the name that is nearest.

    >>> from oddsmith import LogisticRegression
    >>> translate(LogisticRegression, "C", 4, ["prior"])[:66]
    'LogisticRegression has no parameter C. C=4 is prior=2.0 (σ = √C). '
    """
    names, found = list(known), f"{kind.__name__} has no parameter {name}."
    words = {**EVERYWHERE, **PENALISED} if "prior" in names else dict(EVERYWHERE)
    if "smoothing" in names:
        words["alpha"] = "It is smoothing=."
    text = words.get(name)
    if text is not None:
        return f"{found} {text(value) if callable(text) else text}"
    return f"{found} It has: {', '.join(names)}.{did_you_mean(name, names)}"


def is_foreign(name: str) -> bool:
    """Whether a name is one that other libraries have.

    >>> is_foreign("C"), is_foreign("c")
    (True, False)
    """
    return name in EVERYWHERE or name in PENALISED


def checked_names(init: F) -> F:
    """Return a constructor that says what a parameter of another library is called here; its signature stays.

    >>> from oddsmith import LogisticRegression
    >>> LogisticRegression(n_jobs=2)
    Traceback (most recent call last):
    ...
    oddsmith.errors.InvalidTypeError: LogisticRegression has no parameter n_jobs. Use threads=; by default all ...
    """
    known = [name for name in inspect.signature(init).parameters if name != "self"]
    names = frozenset(known)

    @wraps(init)
    def checked(self: object, *args: object, **kwargs: object) -> None:
        if not names.issuperset(kwargs):
            name = next(name for name in kwargs if name not in names)
            raise InvalidTypeError(translate(type(self), name, kwargs[name], known))
        init(self, *args, **kwargs)

    return checked  # type: ignore[return-value]
