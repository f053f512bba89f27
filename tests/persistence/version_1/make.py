"""Make the files of schema 1 that later versions must go on loading: ``python make.py`` in this folder.

A file that is there stays: it is what users have on their disks. Run it again for a model that did not exist before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith import (
    FisherDiscriminant,
    GaussianClassifier,
    GaussianKernel,
    GaussianPrior,
    JeffreysPrior,
    LeastSquaresClassifier,
    LogisticRegression,
    NaiveBayes,
    OneVsOne,
    OneVsRest,
    PerceptronClassifier,
    Polynomial,
    ProbitRegression,
    RadialBasis,
    Spline,
    Standardize,
    recalibrate,
)

HERE = Path(__file__).parent


def main() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(60) % 3
    X = rng.normal(size=(60, 2)) + t[:, None]
    three, two = np.array(["ash", "birch", "cedar"])[t], t > 0
    models: dict[str, Any] = {
        "logistic": LogisticRegression(prior=GaussianPrior(scale="evidence"), basis=Polynomial(2)).fit(X, three),
        "jeffreys": LogisticRegression(prior=JeffreysPrior(), basis=Spline()).fit(X, two),
        "probit": ProbitRegression(prior=1.0, basis=[Standardize(), RadialBasis(3, seed=0)]).fit(X, two),
        "updated": LogisticRegression(prior=1.0).fit(X[:30], two[:30]).update(X[30:], two[30:]),
        "least-squares": LeastSquaresClassifier(basis=GaussianKernel(landmarks=5, seed=0), prior=1.0).fit(X, three),
        "fisher": FisherDiscriminant().fit(X, t),
        "gaussian": GaussianClassifier("separate").fit(X, t.astype(np.int8)),
        "naive-bayes": NaiveBayes().fit(X, three.astype(object)).with_class_prior([0.5, 0.3, 0.2]),
        "perceptron": PerceptronClassifier().fit(X + 5.0 * t[:, None], two.astype(float)),
        "one-vs-rest": OneVsRest().fit(X, three),
        "one-vs-one": OneVsOne(LeastSquaresClassifier()).fit(X, three),
        "recalibrated": recalibrate(GaussianClassifier().fit(X, three), X, three, method="isotonic"),
    }
    known = HERE / "expected.json"
    expected = json.loads(known.read_text()) if known.exists() else {"rows": X[:9].tolist()}
    for name, model in models.items():
        if name in expected:
            continue
        model.save(HERE / f"{name}.odds")
        answer = model.predict_proba if hasattr(model, "predict_proba") else model.decision_function
        expected[name] = {"labels": [str(v) for v in model.predict(X[:9])], "answers": answer(X[:9]).tolist()}
    known.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
