"""A fitted model as a Bayesian one: updates, better predictions, every link, tables and pickles."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.errors import InvalidInputError, OddsmithError, SeparationWarning


def make(seed: int, N: int, D: int, K: int = 2, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    y = (X @ rng.normal(size=(D, K)) + rng.gumbel(size=(N, K))).argmax(axis=1)
    return X + shift, y


@pytest.mark.parametrize(
    "K, how", [(2, {}), (2, {"prior": None}), (3, {}), (3, {"reference": 1}), (3, {"prior": None})]
)
@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_updates_end_at_the_fit_of_all_rows_in_any_order(K: int, how: dict, shift: float) -> None:
    X, y = make(K, 3000, 3, K, shift)
    how = {"prior": 2.0, **how}
    whole = LogisticRegression(**how).fit(X, y)
    std = whole.posterior_.std.reshape(len(whole.coef_), -1)[:, 1:]
    std = np.where(std > 0, std, 1.0)
    ends = []
    for order in (range(10), range(9, -1, -1)):
        slices = [slice(300 * i, 300 * i + 300) for i in order]
        model = LogisticRegression(**how).fit(X[slices[0]], y[slices[0]])
        for part in slices[1:]:
            model.update(X[part], y[part])
        assert model.n_rows_ == 3000
        assert np.allclose((model.coef_ - whole.coef_) / std, 0.0, atol=0.4)
        assert np.allclose(model.posterior_.std, whole.posterior_.std, rtol=0.1)
        assert np.allclose(model.class_prior_, whole.class_prior_)
        ends.append(model.coef_)
    assert np.allclose((ends[0] - ends[1]) / std, 0.0, atol=0.4)


def test_update_is_a_fit_with_the_posterior_as_the_prior() -> None:
    X, y = make(0, 200, 2)
    first = LogisticRegression(1.0).fit(X[:100], y[:100])
    prior = GaussianPrior(mean=first.posterior_.mean, covariance=first.posterior_.covariance)
    direct = LogisticRegression(prior).fit(X[100:], y[100:])
    first.update(X[100:], y[100:])
    assert np.allclose(first.coef_, direct.coef_, rtol=1e-6)
    assert np.allclose(first.posterior_.covariance, direct.posterior_.covariance, rtol=1e-6)
    assert np.isclose(first.log_evidence_, direct.log_evidence_, atol=1e-6)
    left_out = [model.leave_one_out(X[100:], y[100:]).proba for model in (first, direct)]
    assert np.allclose(*left_out, atol=1e-6)


def test_summary_of_an_updated_model_is_about_its_posterior() -> None:
    X, y = make(6, 200, 2)
    model = LogisticRegression().fit(X[:100], y[:100])
    assert "p_value" in model.summary().to_dict()
    summary = model.update(X[100:], y[100:]).summary()
    assert np.allclose(summary.to_dict()["posterior_sd"], model.posterior_.std)


def test_update_takes_rows_of_one_class_and_refuses_new_ones() -> None:
    X, y = make(1, 300, 2, 3)
    model = LogisticRegression(1.0).fit(X, y)
    before = model.intercept_.copy()
    model.update(X[:5], np.full(5, 2))
    assert model.n_rows_ == 305 and model.intercept_[2] > before[2]
    kept = model.coef_.copy()
    with pytest.raises(InvalidInputError, match="y holds 7, which the model was not fitted to"):
        model.update(X[:2], [0, 7])
    assert np.array_equal(model.coef_, kept) and model.n_rows_ == 305


@pytest.mark.filterwarnings("ignore::oddsmith.errors.CollinearityWarning")
def test_update_needs_a_posterior_of_every_weight() -> None:
    X, y = make(2, 100, 2)
    model = LogisticRegression().fit(np.column_stack([X, X[:, 0]]), y)
    with pytest.raises(InvalidInputError, match="'x2' aside"):
        model.update(np.column_stack([X, X[:, 0]]), y)


def test_integrating_the_weights_out_predicts_better_from_few_rows() -> None:
    losses: dict[str, list[float]] = {"predictive": [], "map": [], "ml": []}
    for seed in range(50):
        X, y = make(seed, 1030, 5)
        train, test = slice(0, 30), slice(30, None)
        model = LogisticRegression(GaussianPrior(covariance=np.full(6, 4.0))).fit(X[train], y[train])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # separated
            likelihood = LogisticRegression().fit(X[train], y[train])
        for name, P in (
            ("predictive", model.predictive(X[test]).mean),
            ("map", model.predict_proba(X[test])),
            ("ml", likelihood.predict_proba(X[test])),
        ):
            losses[name].append(float(-np.log(np.maximum(P[np.arange(1000), y[test]], 1e-15)).mean()))
    mean = {name: np.mean(values) for name, values in losses.items()}
    assert mean["predictive"] < mean["map"] - 0.01 and mean["map"] < mean["ml"] - 0.05


@pytest.mark.parametrize("link", ["probit", "cloglog", "loglog"])
def test_posterior_of_a_link_is_near_the_integral(link: str) -> None:
    from oddsmith.links import LINKS

    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    y = (rng.random(150) < LINKS[link].inverse(0.3 + 0.7 * x)).astype(int)
    model = LogisticRegression(GaussianPrior(covariance=[4.0, 4.0]), link=link).fit(x[:, None], y)
    posterior = model.posterior_
    b, w = (np.linspace(m - 7 * s, m + 7 * s, 150) for m, s in zip(posterior.mean, posterior.std, strict=True))
    B, W = np.meshgrid(b, w, indexing="ij")
    up, down = LINKS[link].log_probability(B[..., None] + W[..., None] * x)
    log_p = np.where(y == 1, up, down).sum(axis=-1) - (B**2 + W**2) / 8.0 - np.log(8.0 * np.pi)
    exact = np.log(np.exp(log_p).sum() * (b[1] - b[0]) * (w[1] - w[0]))
    assert abs(model.log_evidence_ - exact) < 0.02
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    assert abs((p * W).sum() - posterior.mean[1]) < 0.15 * posterior.std[1]


def test_model_with_a_posterior_pickles_and_clones() -> None:
    X, y = make(3, 100, 2)
    model = LogisticRegression(GaussianPrior(scale="evidence")).fit(X, y).update(X[:50], y[:50])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.posterior_.mean, model.posterior_.mean) and again.n_rows_ == 150
    assert clone(model).fit(X, y).n_rows_ == 100


def test_large_fit_forms_its_hessian_when_asked() -> None:
    X, y = make(4, 110_000, 30)
    model = LogisticRegression(1.0).fit(X, y)
    assert model._learned.hessian is None
    std = model.posterior_.std
    newton = LogisticRegression(1.0, solver="newton").fit(X, y)
    assert np.allclose(std, newton.posterior_.std, rtol=1e-5)
    del X
    gone = LogisticRegression(1.0).fit(make(4, 110_000, 30)[0], y)
    with pytest.raises(InvalidInputError, match="rows are no longer in memory"):
        gone.log_evidence_  # noqa: B018


@pytest.mark.parametrize("how", ["evidence", "loo"])
def test_width_of_large_data_is_that_of_all_passes(how: str) -> None:
    X, y = make(5, 110_000, 30)
    model = LogisticRegression(GaussianPrior(scale=how)).fit(X, y)
    width = model.prior_.scale
    if how == "evidence":
        ends = [LogisticRegression(w, solver="newton").fit(X, y).log_evidence_ for w in (width * 1.01, width / 1.01)]
        assert abs(ends[0] - ends[1]) / (2 * np.log(1.01)) < 0.02
    else:
        losses = [LogisticRegression(w).fit(X, y).leave_one_out(X, y).log_loss for w in (width / 2, width, width * 2)]
        assert losses[1] <= min(losses) + 1e-9
    assert model.certificate_.converged


def test_what_a_fit_does_not_have_is_no_attribute_of_it() -> None:
    X, y = make(0, 60, 2)
    plain = LogisticRegression().fit(X, y)
    assert hasattr(plain, "posterior_")
    assert not hasattr(plain, "log_evidence_")
    with pytest.raises(InvalidInputError, match="needs a prior"):
        _ = plain.log_evidence_
    online = LogisticRegression(seed=0).partial_fit(X, y, classes=[0, 1])
    assert not hasattr(online, "posterior_")
    assert not hasattr(online, "n_rows_")
    with pytest.warns(SeparationWarning):
        separated = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert not hasattr(separated, "posterior_")


@pytest.mark.parametrize("n, seed", [(-1, 0), (2.5, 0), ("a", 0), (3, "a"), (3, -1)])
def test_bad_draws_are_refused(n: object, seed: object) -> None:
    X, y = make(0, 60, 2)
    posterior = LogisticRegression(1.0).fit(X, y).posterior_
    with pytest.raises(OddsmithError, match=r"draws|seed"):
        posterior.sample(n, seed=seed)
    with pytest.raises(InvalidInputError, match="infinity"):
        posterior.logpdf([np.nan, 0.0, 0.0])


def test_a_prior_on_an_intercept_that_is_not_there_is_refused() -> None:
    X, y = make(0, 60, 2)
    with pytest.raises(InvalidInputError, match="Give the 2 weights"):
        LogisticRegression(GaussianPrior(covariance=np.eye(3)), fit_intercept=False).fit(X, y)
    model = LogisticRegression(GaussianPrior(covariance=np.eye(2)), fit_intercept=False).fit(X, y)
    assert model.update(X, y).intercept_ == 0.0


def test_a_model_whose_intercepts_were_moved_is_no_prior() -> None:
    X, y = make(0, 60, 2)
    moved = LogisticRegression(1.0).fit(X, y).with_class_prior({0: 0.9, 1: 0.1})
    with pytest.raises(InvalidInputError, match="moved by with_class_prior"):
        moved.update(X, y)


def test_rows_of_another_fit_are_refused() -> None:
    X, y = make(0, 60, 2)
    model = LogisticRegression(1.0).fit(X, y)
    for method in (model.leave_one_out, model.posterior_mean):
        with pytest.raises(InvalidInputError, match="not the rows that the model was fitted to"):
            method(X + 1.0, y)
        with pytest.raises(InvalidInputError, match="not the rows that the model was fitted to"):
            method(X, y, sample_weight=np.full(60, 2.0))
