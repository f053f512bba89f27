"""Marginal effects by statsmodels' ``get_margeff``, one record per case. Run in this folder, by ``sh make.sh python``.

Effects of the average row (``at="mean"``) and average effects (``at="overall"``), with every column treated as
continuous and with 0/1 columns as differences; errors by the delta method from the observed information.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import statsmodels.api as sm
from common import BIRTHWT, INFERT, INFERT_EDUCATION, PENGUINS, PIMA, save

MODELS = {
    "logit": (sm.Logit, {"birthwt": BIRTHWT, "pima": PIMA, "infert": INFERT}),
    "probit": (sm.Probit, {"birthwt": BIRTHWT, "pima": PIMA, "infert": INFERT}),
    "mnlogit": (sm.MNLogit, {"infert": INFERT_EDUCATION, "penguins": PENGUINS}),
}


def fitted(kind: Any, X: np.ndarray, t: np.ndarray) -> Any:
    """Return a fit from which another Newton step is below 1e-9 standard errors."""
    result = kind(t, sm.add_constant(X)).fit(method="newton", tol=1e-14, maxiter=100, disp=0, warn_convergence=False)
    w = result.params.ravel(order="F")
    step = np.linalg.solve(result.model.hessian(w), result.model.score(w).ravel(order="F"))
    assert np.all(np.abs(step) < 1e-9 * result.bse.ravel(order="F")), np.abs(step).max()
    return result


def margins(result: Any, at: str, dummy: bool) -> dict[str, Any]:
    if dummy and isinstance(result.model, sm.MNLogit):
        effect, error = softmax_differences(result, at)
    else:
        found = result.get_margeff(at=at, method="dydx", dummy=dummy)
        effect, error = np.asarray(found.margeff), np.asarray(found.margeff_se)
    return {"at": at, "dummy": dummy, "effect": effect, "std_error": error}


def softmax_differences(result: Any, at: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``get_margeff(dummy=True)`` means for MNLogit, from the parts of statsmodels that work.

    Its covariance of 0/1 columns breaks unless there are as many classes as columns (0.15.0), so the Jacobian is
    taken by complex step; for continuous columns this must give what ``get_margeff`` gives.
    """
    model = result.model
    exog = model.exog if at == "overall" else model.exog.mean(axis=0, keepdims=True)
    binary = np.flatnonzero([set(column) == {0.0, 1.0} for column in model.exog.T])
    K = model.exog.shape[1]

    def effects(w: np.ndarray, dummy: np.ndarray | None) -> np.ndarray:
        rows = model._derivative_exog(w.reshape(K, -1, order="F"), exog, "dydx", dummy)
        return rows.mean(axis=0).reshape(K, -1, order="F")[1:]

    def errors(dummy: np.ndarray | None) -> np.ndarray:
        J = np.array([effects(w + 1e-30j * e, dummy).imag.ravel() / 1e-30 for e in np.eye(w.size)])
        return np.sqrt(np.einsum("ij,ik,kj->j", J, result.cov_params(), J)).reshape(len(J[0]) // model.J, -1)

    w = np.asarray(result.params).ravel(order="F")
    continuous = result.get_margeff(at=at, method="dydx", dummy=False)
    np.testing.assert_allclose(effects(w, None), continuous.margeff, rtol=1e-12)
    np.testing.assert_allclose(errors(None), continuous.margeff_se, rtol=1e-10)
    return effects(w, binary), errors(binary)


def main() -> None:
    for model, (kind, tables) in MODELS.items():
        for data_name, table in tables.items():
            result = fitted(kind, *table.read())
            answers = {
                "model": model,
                "intercept": True,
                # The intercept first; for mnlogit one list per class other than the reference.
                "coefficients": np.asarray(result.params).T,
                "log_likelihood": float(result.llf),
                # A row per column of the table; for mnlogit with a number per class.
                "effects": [margins(result, at, dummy) for at in ("overall", "mean") for dummy in (False, True)],
            }
            save(f"margins_{model}_{data_name}", table, answers, ["statsmodels"])


if __name__ == "__main__":
    main()
