"""Every family of the library with settings that suit most tables: what ``compare("all", …)`` compares."""

from __future__ import annotations

from typing import Any

from sklearn.preprocessing import StandardScaler

from oddsmith.models import MODELS, RecalibratedClassifier


def default_models(K: int) -> dict[str, Any]:
    """Return an instance of every registered family by name, for K classes.

    Where the size of columns matters (priors on weights, shrinkage, perceptron) they are standardised first; weights
    have a prior of one standard deviation, so that separated classes do no harm. A family without an entry here comes
    with its default parameters. Wrappers around other models are no family: recalibration is left out.

    >>> "logistic" in default_models(2)
    True
    """
    found: dict[str, Any] = {}
    for name, kind in MODELS.items():
        if kind is not RecalibratedClassifier:
            found |= _settings(name, kind, K)
    return found


def _settings(name: str, kind: Any, K: int) -> dict[str, Any]:
    if name == "gaussian":
        return {
            "gaussian, shared covariance": _scaled(kind("shared", shrinkage="oas")),
            "gaussian, separate covariances": _scaled(kind("separate", shrinkage="oas")),
        }
    if name in ("logistic", "probit"):
        model = kind(prior=1.0)
        if name == "probit" and K > 2:
            model = MODELS["one-vs-rest"](model)
        return {name: _scaled(model)}
    if name in ("one-vs-rest", "one-vs-one"):
        return {name: _scaled(kind())}
    if name == "perceptron":
        return {name: _scaled(kind(max_epochs=10))}
    return {name: kind()}


def _scaled(model: Any) -> Any:
    # Inside the model, behind its design, so that tables may hold categories. Without centring, which none of these
    # needs, so that sparse rows stay sparse.
    return model.set_params(basis=StandardScaler(with_mean=False))
