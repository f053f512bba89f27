"""Every family of the library with settings that suit most tables: what ``compare("all", …)`` compares."""

from __future__ import annotations

from sklearn.preprocessing import StandardScaler

from oddsmith.models import MODELS, RecalibratedClassifier
from oddsmith.models.base import Classifier


def default_models(K: int) -> dict[str, Classifier]:
    """Return an instance of every registered family by name, for K classes.

    Where the size of columns matters (priors on weights, shrinkage, perceptron) they are standardised first; weights
    have a prior of one standard deviation, so that separated classes do no harm. A family without an entry here comes
    with its default parameters. Wrappers around other models are no family: recalibration is left out.
    """
    found: dict[str, Classifier] = {}
    for name, kind in MODELS.items():
        if name == "gaussian":
            found["gaussian, shared covariance"] = _scaled(kind("shared", shrinkage="oas"))
            found["gaussian, separate covariances"] = _scaled(kind("separate", shrinkage="oas"))
        elif name in ("logistic", "probit"):
            model = kind(prior=1.0)
            found[name] = _scaled(MODELS["one-vs-rest"](model) if name == "probit" and K > 2 else model)
        elif name in ("one-vs-rest", "one-vs-one"):
            found[name] = _scaled(kind())
        elif name == "perceptron":
            found[name] = _scaled(kind(max_epochs=10))
        elif kind is not RecalibratedClassifier:
            found[name] = kind()
    return found


def _scaled(model: Classifier) -> Classifier:
    # Inside the model, behind its design, so that tables may hold categories. Without centring, which none of these
    # needs, so that sparse rows stay sparse.
    model.set_params(basis=StandardScaler(with_mean=False))
    return model
