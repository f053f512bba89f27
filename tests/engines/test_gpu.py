"""Fits on a device: the same code on PyTorch's CPU device, and on a GPU where there is one."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from oddsmith import (  # noqa: E402
    FisherDiscriminant,
    GaussianClassifier,
    GaussianPrior,
    LeastSquaresClassifier,
    LogisticRegression,
    NaiveBayes,
    Polynomial,
    load,
    probe,
)
from oddsmith.engines.gpu import DeviceSource, GpuEngine  # noqa: E402
from oddsmith.errors import InvalidInputError  # noqa: E402
from oddsmith.likelihood.device_coordinates import column_moments, device_machine, device_memory  # noqa: E402
from oddsmith.testing import check_rows  # noqa: E402

pytestmark = pytest.mark.gpu
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def problem(rows: int, columns: int, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    A = 1.5 * X @ rng.normal(size=(columns, classes)) / np.sqrt(columns)
    y = (A + rng.gumbel(size=A.shape)).argmax(axis=1)
    return X * np.exp(rng.normal(size=columns)) + rng.normal(size=columns), y


def objective(model: LogisticRegression, X: np.ndarray, y: np.ndarray, scale: float) -> float:
    log_p = model.predict_log_proba(X)
    return float(-log_p[np.arange(len(y)), y].sum() + 0.5 * (model.coef_**2).sum() / scale**2)


def test_rows_on_a_device_keep_the_laws_of_storages() -> None:
    from oddsmith.rows.device import DeviceRows

    check_rows(DeviceRows)


def test_the_engine_folds_every_statistic_as_the_memory_engine_does(device: str) -> None:
    def source(X: np.ndarray, t: np.ndarray, K: int, s: np.ndarray | None) -> DeviceSource:
        there = [None if part is None else torch.as_tensor(part, device=device) for part in (X, t, s)]
        return DeviceSource(X=there[0], t=there[1], K=K, s=there[2])

    from oddsmith.engines import MemoryEngine, MemorySource
    from oddsmith.statistic import STATISTICS, Shape
    from oddsmith.statistics import Curvature, Moments, MomentsParams

    X, y = problem(400, 5, 3)
    t, s = y.astype(np.int32), np.random.default_rng(1).integers(0, 3, size=400).astype(float)
    cases = [(Moments, MomentsParams(3, "full"))]
    cases += [(Curvature, at) for at in STATISTICS["curvature"].example_params(Shape(5, 3), np.random.default_rng(2))]
    for statistic, params in cases:
        ours = GpuEngine().fold(statistic, source(X, t, 3, s), params)
        theirs = MemoryEngine().fold(statistic, MemorySource(X, t, 3, s), params)
        for name, value in vars(theirs).items():
            if value is not None:
                np.testing.assert_allclose(getattr(ours, name), value, rtol=2e-5 if name == "longest" else 1e-9)


@pytest.mark.parametrize(("columns", "prior"), [(6, None), (6, 1.0), (160, 1.0)])
def test_weights_equal_those_of_the_cpu(device: str, columns: int, prior: float | None) -> None:
    X, y = problem(24_000, columns)
    model = LogisticRegression(prior=prior, tol=1e-10).fit(torch.as_tensor(X, device=device), torch.as_tensor(y))
    cpu = LogisticRegression(prior=prior, tol=1e-13).fit(X, y)
    assert model.certificate_.converged and model.certificate_.rigorous
    assert "on all rows" in model.certificate_.method
    errors = np.array(LogisticRegression().fit(X, y).summary().to_dict()["std_error"])[1:] if columns == 6 else 0.02
    near = 1e-6 if prior is None else 2e-2  # of a standard error: with a prior the gap is what was asked for
    assert np.abs((model.coef_[0] - cpu.coef_[0]) / errors).max() < near


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_the_certificate_is_true(device: str, kind: str) -> None:
    for seed, (classes, scale) in enumerate([(2, 1.0), (2, 0.1), (4, 1.0), (4, 10.0)]):
        X, y = problem(21_000 if classes == 2 else 3_000, 8, classes, seed)
        rows = torch.as_tensor(X, device=device).to(getattr(torch, kind))
        model = LogisticRegression(prior=scale, tol=1e-7).fit(rows, torch.as_tensor(y, device=device))
        exact = rows.to(torch.float64).cpu().numpy()
        best = LogisticRegression(prior=scale, tol=1e-13).fit(exact, y)
        above = objective(model, exact, y, scale) - objective(best, exact, y, scale)
        assert model.certificate_.converged
        assert above <= model.certificate_.gap + 1e-9 * abs(objective(best, exact, y, scale))


def test_a_fit_has_the_same_bits_again(device: str) -> None:
    X, y = (torch.as_tensor(part, device=device) for part in problem(21_000, 5))
    one, two = (LogisticRegression(prior=1.0).fit(X, y) for _ in range(2))
    assert (one.coef_ == two.coef_).all()


def test_rows_in_slices_give_the_same_weights(device: str) -> None:
    X, y = problem(24_000, 5)
    source = DeviceSource(X=torch.as_tensor(X), t=torch.as_tensor(y, device=device).to(torch.uint8), K=2)
    streamed = replace(source, slice_rows=5_000)
    assert sum(len(block.X) for block in streamed.blocks()) == 24_000
    assert [len(block.X) for block in streamed.blocks()][-1] == 4_000
    from oddsmith.likelihood.fit import fit_likelihood
    from oddsmith.likelihood.problem import Problem

    def fit(rows: DeviceSource) -> np.ndarray:
        counts = np.bincount(y).astype(float)
        given = {"intercept": True, "reference": None, "solver": "auto", "tol": 1e-13, "max_iter": 100}
        prior = GaussianPrior(scale=1.0)
        return fit_likelihood(Problem(engine=GpuEngine(), source=rows, prior=prior, class_weight=counts, **given)).coef

    np.testing.assert_allclose(fit(streamed), fit(replace(source, X=source.X.to(device))), rtol=1e-6)


def test_parquet_and_arrow_are_moved_to_a_device(device: str, tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = problem(1_500, 3)
    table = pa.table({"a": X[:, 0], "y": np.array(["no", "yes"])[y], "b": X[:, 1], "c": np.round(X[:, 2]).astype(int)})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=400)
    rows = np.column_stack([X[:, :2], np.round(X[:, 2])])
    cpu = LogisticRegression(prior=1.0, tol=1e-12).fit(rows, y)
    for given in (tmp_path / "rows.parquet", table):
        model = LogisticRegression(prior=1.0, tol=1e-12).fit(given, "y", device=device)
        np.testing.assert_allclose(model.coef_, cpu.coef_, atol=1e-6)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"] and model.classes_.tolist() == ["no", "yes"]
    for what, call in {
        "no column 'z'": lambda: LogisticRegression().fit(table, "z", device=device),
        "'y' is of type string": lambda: LogisticRegression().fit(table, y, device=device),
    }.items():
        with pytest.raises(InvalidInputError, match=what):
            call()


def test_curvature_between_intercepts_keeps_its_digits_where_classes_are_separated(device: str) -> None:
    from oddsmith.kernels.device.softmax import SoftmaxPoint, class_curvature

    torch.manual_seed(0)
    X, W = torch.randn(400, 5, device=device), 30.0 * torch.randn(4, 5, dtype=torch.float64, device=device)
    zero, one = torch.zeros(5, dtype=torch.float64, device=device), torch.ones(5, dtype=torch.float64, device=device)
    at = SoftmaxPoint(W, zero[:4], zero, one)
    low, exact = (class_curvature(X, None, None, None, at, exact=e) for e in (False, True))
    P = torch.softmax(X.double() @ W.T, dim=1)
    np.testing.assert_allclose(exact.cpu(), (torch.diag(P.sum(0)) - P.T @ P).cpu(), rtol=1e-8, atol=1e-12)
    assert float((low - exact).abs().max() / exact.diagonal().max()) < (1e-4 if device == "cpu" else 0.05)
    np.testing.assert_allclose(low.sum(dim=1).cpu(), 0.0, atol=1e-9)


def test_solutions_are_extrapolated_along_a_path() -> None:
    from oddsmith.likelihood.device_sweep import SolutionPath

    path = SolutionPath()
    for place in (0.0, 0.5, 1.0):
        path.add(place, torch.tensor([place**2, 1.0]))
    np.testing.assert_allclose(path.ahead(1.5), [2.25, 1.0])
    assert path.ahead(4.0)[0] == 1.0 and path.ahead(0.5)[0] == 1.0  # too far, and back: the last one


def test_tiles_have_loads_for_every_width() -> None:
    from oddsmith.kernels.device.logistic import tile_shape

    for itemsize in (2, 4, 8):
        for M in (1, 3, 31, 100, 129, 1000, 2048):
            for exact, centred, writes in (
                (False, False, False),
                (True, False, False),
                (True, True, False),
                (True, True, True),
            ):
                BN, S, L, V, _ = tile_shape(M, itemsize, exact=exact, centred=centred, writes=writes)
                assert min(BN, S, L, V) >= 1 and S * L * V >= M


def test_sample_weights_count_rows(device: str) -> None:
    X, y = problem(22_000, 4)
    s = np.random.default_rng(0).integers(0, 3, size=len(X))
    model = LogisticRegression(prior=1.0, tol=1e-10).fit(torch.as_tensor(X, device=device), y, sample_weight=s)
    cpu = LogisticRegression(prior=1.0, tol=1e-12).fit(X, y, sample_weight=s)
    np.testing.assert_allclose(model.coef_, cpu.coef_, atol=1e-4)
    assert model._learned.n_rows == np.count_nonzero(s)


def test_predictions_are_tensors_where_the_rows_lie(device: str, tmp_path) -> None:
    X, y = problem(2_000, 4, 3)
    rows = torch.as_tensor(X, device=device)
    model = LogisticRegression(prior=1.0).fit(rows, torch.as_tensor(y))
    P = model.predict_proba(rows)
    assert isinstance(P, torch.Tensor) and P.device.type == device and P.dtype == torch.float64
    np.testing.assert_allclose(P.cpu().numpy(), model.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(rows).cpu().numpy(), np.log(model.predict_proba(X)), atol=1e-9)
    assert (model.predict(rows) == model.predict(X)).all()
    model.save(tmp_path / "model.odds")
    assert (load(tmp_path / "model.odds").predict(X) == model.predict(X)).all()
    script = f"import sys, oddsmith; oddsmith.load({str(tmp_path / 'model.odds')!r}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_labels_are_of_any_kind(device: str) -> None:
    X, y = problem(500, 3)
    rows = torch.as_tensor(X, device=device)
    for labels in (np.array(["a", "b"])[y], y.astype(bool), 7 - 3 * y):
        given = torch.as_tensor(labels, device=device) if labels.dtype.kind != "U" else labels
        model = LogisticRegression(prior=1.0).fit(rows, given)
        assert model.classes_.tolist() == np.unique(labels).tolist()
        assert (model.predict(rows) == LogisticRegression(prior=1.0).fit(X, labels).predict(X)).all()


@pytest.mark.parametrize("kind", [LeastSquaresClassifier, GaussianClassifier, FisherDiscriminant, NaiveBayes])
def test_other_models_fit_tensors_as_arrays(device: str, kind: type) -> None:
    X, y = problem(600, 4, 3)
    rows = torch.as_tensor(X, device=device)
    assert (kind().fit(rows, torch.as_tensor(y)).predict(rows) == kind().fit(X, y).predict(X)).all()


def test_standard_errors_come_from_the_hessian_on_the_device(device: str) -> None:
    X, y = problem(21_000, 4)
    ours = LogisticRegression().fit(torch.as_tensor(X, device=device), y).summary().to_dict()["std_error"]
    np.testing.assert_allclose(ours, LogisticRegression().fit(X, y).summary().to_dict()["std_error"], rtol=1e-8)


def test_a_probe_on_a_device_scores_as_one_in_memory(device: str) -> None:
    for classes in (2, 4):
        X, y = problem(4_000, 6, classes)
        ours = probe(torch.as_tensor(X, device=device), torch.as_tensor(y), scales=[0.1, 1.0])
        theirs = probe(X, y, scales=[0.1, 1.0])
        assert all(ours.to_dict()["converged"]) and ours.best_scale == theirs.best_scale
        for name in ("log_loss", "std_error", "accuracy"):
            np.testing.assert_allclose(ours.to_dict()[name], theirs.to_dict()[name], rtol=2e-3)
        np.testing.assert_allclose(ours.model.coef_, theirs.model.coef_, atol=5e-3)


def test_the_machine_of_a_plan_is_the_device(device: str) -> None:
    source = DeviceSource(X=torch.zeros(8, 2, device=device), t=torch.zeros(8, dtype=torch.uint8, device=device), K=2)
    assert (device_machine(source).bytes_per_second > 1e12) == (device == "cuda")


def test_bad_input_gets_a_sentence(device: str) -> None:
    X, y = problem(300, 3)
    rows = torch.as_tensor(X, device=device)
    hole = rows.clone()
    hole[7, 1] = torch.nan
    for what, call in {
        "row 7": lambda: LogisticRegression(prior=1.0).fit(hole, y),
        "basis= was given": lambda: LogisticRegression(basis=Polynomial(2)).fit(rows, y),
        "offset= was given": lambda: LogisticRegression().fit(rows, y, offset=y),
        "y 5 labels": lambda: LogisticRegression().fit(rows, y[:5]),
        "one class only": lambda: LogisticRegression().fit(rows, torch.zeros(300, dtype=torch.int64)),
        "N × D": lambda: LogisticRegression().fit(rows[0], y),
        "fitted to 3": lambda: LogisticRegression(prior=1.0).fit(rows, y).predict_proba(rows[:, :2]),
        "'cuda:1' or the like": lambda: LogisticRegression().fit(X, y, device="gpu"),
        "64 bits": lambda: LogisticRegression().fit(X, y, device="mps"),
    }.items():
        with pytest.raises(InvalidInputError, match=what):
            call()
    if device == "cpu" and not torch.cuda.is_available():
        with pytest.raises(InvalidInputError, match="sees none"):
            LogisticRegression().fit(X, y, device="cuda")


def test_the_end_of_memory_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        total_memory = 10**9

    freed = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 8 * 10**8)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append(True))
    source = DeviceSource(X=torch.zeros(1000, 100), t=torch.zeros(1000, dtype=torch.uint8), K=2)
    with pytest.raises(InvalidInputError, match=r"1,000 rows take 0\.0004 GB of its 1, and .* 0\.8\. About .* rows"):
        with device_memory(source):
            raise torch.OutOfMemoryError("CUDA out of memory")
    assert freed


def test_the_certificate_is_true_where_steps_go_too_far() -> None:
    """Rows that nearly separate the classes make Newton's first steps on a subsample too long."""
    rng = np.random.default_rng(3)
    X = rng.standard_t(2, size=(21_000, 6))
    y = (X @ rng.normal(size=6) * 8 + rng.logistic(size=len(X)) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression(prior=100.0).fit(torch.as_tensor(X), y)
    best = LogisticRegression(prior=100.0, tol=1e-13).fit(X, y)
    assert model.certificate_.converged
    assert objective(model, X, y, 100.0) - objective(best, X, y, 100.0) <= model.certificate_.gap + 1e-7


def test_a_walk_ends_where_steps_from_memory_do(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many weights the first steps wait for nothing; where one is not good enough, all are taken from memory."""
    from oddsmith.solvers.device_quasi_newton import QuasiNewtonOnTensors

    X, y = problem(24_000, 170)
    rows, found = torch.as_tensor(X, device=device), []
    walked = QuasiNewtonOnTensors._walked
    monkeypatch.setattr(QuasiNewtonOnTensors, "_walked", lambda self, *a: found.append(walked(self, *a)) or found[-1])
    one = LogisticRegression(prior=1.0).fit(rows, y)
    monkeypatch.setattr(QuasiNewtonOnTensors, "_good", staticmethod(lambda *given: False))
    two = LogisticRegression(prior=1.0).fit(rows, y)
    assert found[0] is not None and found[1] is None
    assert [r[-1] for r in one.trace_.records][:2] == [r[-1] for r in two.trace_.records][:2]
    assert one.certificate_.converged and two.certificate_.converged
    np.testing.assert_allclose(one.coef_, two.coef_, atol=2e-4)


@pytest.mark.parametrize("spoilt", [None, (0, 0, np.nan), (3, 5, 1.0), (1, 3, -1.0), (3, 3, 1e9), (1, 0, 2e4)])
def test_steps_of_a_walk_are_judged(spoilt: tuple[int, int, float] | None) -> None:
    from oddsmith.solvers.device_quasi_newton import QuasiNewtonOnTensors

    part = SimpleNamespace(size=200, fraction=0.25, weight=1e5)
    log = np.array([[9e3, 1.0, 4.0, 1e4, 1.0, 0.0], [8e3, 1.0, 4.0, 5e2, 1.0, 0.0], [9e3, 1.0, 4.0, 9e2, 1.0, 0.0]])
    log = np.vstack([log, [8e3, 1.0, 4.0, 9e2, 1.0, 0.0]])
    if spoilt is not None:
        log[spoilt[0], spoilt[1]] = spoilt[2]
    assert QuasiNewtonOnTensors._good([part, part], [2, 4], log) == (spoilt is None)  # type: ignore[list-item]
    if spoilt is None:  # a first decrement may be large: that of the next subsample decides
        log[1, 3] = 1e9
        assert QuasiNewtonOnTensors._good([part, part], [2, 4], log)  # type: ignore[list-item]


@pytest.mark.parametrize(("columns", "scale", "tol"), [(6, 1.0, 1e-7), (30, 10.0, 1e-7), (160, 1.0, 1e-5)])
def test_passes_that_follow_unseen_end_with_a_certificate(
    device: str, columns: int, scale: float, tol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hessian of the subsample, in half precision and of another point, bounds that of all rows."""
    from oddsmith.solvers.device_quasi_newton import TensorCertificate

    X, y = problem(60_000, columns, seed=columns)
    rows, taken, accept = torch.as_tensor(X, device=device).to(torch.float32), [], TensorCertificate.accept
    monkeypatch.setattr(TensorCertificate, "accept", lambda *given: taken.append(accept(*given)) or taken[-1])
    model = LogisticRegression(prior=scale, tol=tol).fit(rows, y)
    assert taken == [True] and model.certificate_.converged and model.certificate_.rigorous
    exact = rows.to(torch.float64).cpu().numpy()
    best = LogisticRegression(prior=scale, tol=1e-13).fit(exact, y)
    above = objective(model, exact, y, scale) - objective(best, exact, y, scale)
    assert above <= model.certificate_.gap + 1e-9 * abs(objective(best, exact, y, scale))


def test_a_bound_in_half_precision_is_below_the_hessian(device: str) -> None:
    """Nearly dependent columns, whose rounding in half precision is as large as what tells them apart."""
    from oddsmith.kernels.device.tensors import gram_rounding
    from oddsmith.likelihood.device_iterate import SHIFT, _shifted_factor

    generator = torch.Generator().manual_seed(0)
    for noise in (1.0, 0.5, 0.1, 0.01, 1e-3):
        B = torch.randn(3000, 12, generator=generator, dtype=torch.float64)
        B[:, 1] = B[:, 0] + noise * B[:, 1]
        exact = torch.roll(B.T @ B, (1, 1), (0, 1))
        rounded = B.to(torch.float16).double()
        factor, least = _shifted_factor(
            (rounded.T @ rounded).to(device), 3000, torch.zeros(12).double().to(device), gram_rounding(3000, 1)
        )
        if int(factor.info[0]) == 0:  # so the matrix before its shift, and that after, are below
            below = (factor.L @ factor.L.T).cpu()
            assert torch.linalg.eigvalsh(exact - below)[0] >= 0.0
            assert torch.linalg.eigvalsh(exact)[0] >= SHIFT * float(least)
        assert (int(factor.info[0]) == 0) == (noise >= 0.5)


def test_weights_beyond_half_precision_give_no_false_certificate(device: str) -> None:
    X, y = problem(30_000, 6)
    rows = torch.as_tensor(X, device=device).to(torch.float32)
    s = np.where(np.arange(len(y)) % 100 == 0, 1e10, 1.0)
    model = LogisticRegression(prior=1.0, tol=1e-6).fit(rows, y, sample_weight=torch.as_tensor(s, device=device))
    exact = rows.to(torch.float64).cpu().numpy()
    best = LogisticRegression(prior=1.0, tol=1e-12).fit(exact, y, sample_weight=s)

    def value(fit: LogisticRegression) -> float:
        loss = -fit.predict_log_proba(exact)[np.arange(len(y)), y]
        return float(s @ loss + 0.5 * (fit.coef_**2).sum())

    assert value(model) - value(best) <= model.certificate_.gap + 1e-9 * value(best)


def test_no_row_of_a_subsample_is_named_twice(device: str) -> None:
    X = torch.zeros(1000, 2, device=device)
    for count in (999, 700, 333, 7):
        rows = DeviceSource(X=X, t=torch.zeros(1000, device=device), K=2).spread(count, seed=count).cpu()
        assert len(rows) == count == len(torch.unique(rows)) and 0 <= int(rows[0]) and int(rows[-1]) < 1000


def test_a_certificate_is_tried_again_with_more_rows(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.solvers.device_quasi_newton import TensorCertificate

    X, y = problem(40_000, 6)
    begun: list[int] = []
    begin, rows_for = TensorCertificate.begin, TensorCertificate.rows_for

    def few_rows(self, decrement, e, spare=1.0):
        rows = rows_for(self, decrement, e)
        return 8 if rows is not None and spare > 1.0 else rows  # far too few ahead of the pass

    monkeypatch.setattr(TensorCertificate, "rows_for", few_rows)
    monkeypatch.setattr(TensorCertificate, "begin", lambda self, x, g, n: begun.append(n) or begin(self, x, g, n))
    model = LogisticRegression(prior=10.0, tol=1e-9).fit(torch.as_tensor(X, device=device), y)
    assert model.certificate_.converged and begun[-2] == 8 and begun[-1] > 8


@pytest.mark.parametrize("width", [24, 528])
def test_gram_matrices_are_symmetric_sums(device: str, width: int) -> None:
    from oddsmith.kernels.device.tensors import TensorGram

    B = torch.randn(90, width, dtype=torch.float64, device=device)
    gram = TensorGram(width, torch.float64)
    gram.add(B[:50])
    gram.add(B[50:])
    np.testing.assert_allclose(gram.total().cpu(), (B.T @ B).cpu(), atol=1e-10)


def test_shifted_factors_bound_matrices() -> None:
    from oddsmith.solvers.tensor_factor import ShiftedFactor

    B = np.random.default_rng(0).normal(size=(40, 5))
    A, g = B.T @ B, np.ones(5)
    for kind in (np.asarray, torch.as_tensor):
        square, smallest = ShiftedFactor.of(kind(A), 0.1, kind(g)).bound()
        assert square > g @ np.linalg.solve(A, g) and 0.0 < smallest <= np.linalg.eigvalsh(A)[0]
        assert ShiftedFactor.of(kind(A), 0.99, kind(g)).bound()[1] == 0.0


def test_rare_values_of_a_column_are_counted_where_a_sample_may_miss_them(device: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_t(1.5, size=30_000), rng.random(30_000) < 2e-4, rng.normal(size=30_000)])
    source = DeviceSource(X=torch.as_tensor(X, device=device), t=torch.zeros(30_000, device=device), K=2)
    mean, variance = column_moments(source)
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-5)  # of all rows: 4,000 show hardly one
    tails = replace(source, X=source.X[:, [0, 2]])
    assert column_moments(tails)[1][1] != pytest.approx(X[:, 2].var(), rel=1e-9)  # of a sample, which shows both
    assert variance[1] > 0.0


def test_kernels_in_triton_equal_the_products_of_pytorch() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    script = """
import torch
from triton.runtime import interpreter
patch = interpreter._patch_lang_tensor
def patched(tensor, scope):  # NumPy from 2.4 on makes no integer of an array of one number, Triton 3.6 asks for that
    patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))
interpreter._patch_lang_tensor = patched
from oddsmith.kernels.device import logistic, softmax, steps, tensors
torch.manual_seed(0)
X, s = torch.randn(90, 20) + 0.5, torch.randint(0, 3, (90,)).double()
w, c, b = torch.randn(20).double(), torch.full((20,), 0.5).double(), torch.ones(3).double()
t, W, some = torch.randint(0, 2, (90,)).to(torch.uint8), torch.randn(3, 20).double(), torch.arange(1, 90, 2)
def sums(exact, rows, centred):
    B = torch.full((90 if rows is None else 45, 24), 7.0, dtype=torch.float64 if exact else torch.float32)
    asked = {"exact": exact, "longest": True, "rows": rows}
    at = logistic.point(w, b[:1], c, c)
    two = logistic.logistic_sums(X, t, s, at, B=B, **asked)
    plain = logistic.logistic_sums(X, t, s, at, centred=centred, **asked)
    turn = torch.cat([b[:1], b[:1] - 0.1 * w @ c, 0.1 * w])
    ratio = logistic.logistic_sums(X, t, s, at, centred=centred, exact=exact, rows=rows, moved=turn)
    plain = plain if centred else logistic.take_off_center(plain, c, float((c * c).norm()))
    loss, gradient = softmax.softmax_sums(X, t, s, rows, softmax.SoftmaxPoint(W, b, c, c), precision=2 if exact else 1)
    return torch.cat([two, ratio, plain[:1], plain[2:], B.double().ravel(), loss[None], gradient.ravel()]), plain[1]
for exact, rows, centred in ((True, None, True), (False, None, False), (True, some, False), (False, some, True)):
    fused, bound = sums(exact, rows, centred)
    for module in (logistic, softmax):
        module.has_triton, kept = (lambda X: False), module.has_triton
    plain, longest = sums(exact, rows, centred)
    for module in (logistic, softmax):
        module.has_triton = kept
    assert (fused - plain).abs().max() < (1e-5 if exact else 1e-4), (fused - plain).abs().max()
    assert bound >= longest * (1 - 1e-6)
for weight, rows in ((s, None), (None, some)):
    B, at = torch.zeros(90 if rows is None else 45, 24), logistic.point(w, b[:1], c, c)
    plain = logistic.logistic_sums(X, t, weight, at, exact=False, rows=rows, B=B)
    loss, G, rounding = logistic.logistic_gram(X, t, weight, at, rows)
    H = B.double().T @ B.double()
    g = torch.cat([plain[3:] * c, plain[2:3]])
    assert torch.allclose(loss, plain[:1]) and torch.allclose(G[:21, :21], H[:21, :21], rtol=1e-4, atol=1e-5)
    assert torch.allclose(G[:21, 21], g, rtol=1e-4, atol=1e-4) and (G[22:] == 0.0).all()
    assert rounding < 1e-4
    H, slope = steps.newton_system(G, w.new_ones(21), w.new_ones(21), 2.0)
    assert torch.allclose(H, steps.complete_hessian(G, w.new_ones(21), 2.0))
    assert torch.allclose(slope, 1.0 + 2.0 * torch.roll(G[:21, 21], 1))
y = torch.randint(-1, 1, (5000,))
assert tensors.label_range(y)[:3] == (-1, 0, int(y.sum())) and (tensors.label_range(y)[3] == (y & 1)).all()
rows = tensors.spread_rows(X, 40, 3)
assert (rows >= torch.arange(40) * 90 // 40).all() and (rows < torch.arange(1, 41) * 90 // 40).all()
def stepped(paired):
    torch.manual_seed(1)
    P, r = 5, lambda n: torch.rand(n).double() + 0.1
    at, known, before, log, G = r(4 * P - 1 + P), r(2 * P), r(6 * P + 1), torch.zeros(6).double(), torch.randn(8, 8)
    steps.take_step(r(P + 2), r(P), r(P), torch.zeros(1), at, known, before, log, 2.0, paired=paired, fresh=not paired)
    return torch.cat([at, before, log, steps.complete_hessian(G, known[P:], 3.0).ravel()])
for paired in (False, True):
    fused = stepped(paired)
    steps.has_triton, kept = (lambda X: False), steps.has_triton
    assert torch.allclose(fused, stepped(paired), rtol=1e-9), paired
    steps.has_triton = kept
print("equal")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "equal", done.stderr
