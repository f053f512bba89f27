"""A model that was saved and loaded is the same model, to the bit; and so is every value in it."""

import enum
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.preprocessing import StandardScaler
from tests.persistence.zoo import answers, mixed_naive_bayes, models, random_model, same
from tests.traces import under

import oddsmith
from oddsmith import LogisticRegression, NaiveBayes, Polynomial, RecalibratedClassifier, recalibrate
from oddsmith.bordered import SparseBorder
from oddsmith.design.basis import BASES, Basis
from oddsmith.engines import MemoryEngine
from oddsmith.errors import InvalidInputError, InvalidTypeError, NotFittedError
from oddsmith.likelihood.fitted_state import TrainingDataRef
from oddsmith.models import MODELS
from oddsmith.models.base import Classifier
from oddsmith.persistence import decode, describe, encode, register
from oddsmith.persistence.file import pack, read, write
from oddsmith.solvers.table_newton import TableNewton
from oddsmith.testing import all_models

COUNT, SEED = 110, 11


def state(model: Any) -> tuple[Any, dict[str, bytes]]:
    node, tensors = encode(model)
    return node, {name: tensor.tobytes() for name, tensor in tensors.items()}


def check(model: Any, X: Any, y: Any, path: Path) -> Any:
    """Hold a model against itself, saved and loaded."""
    model.save(path)
    loaded = oddsmith.load(path)
    assert type(loaded) is type(model)
    assert state(loaded) == state(model)
    before, after = answers(model, X, y), answers(loaded, X, y)
    assert not [name for name in before if not same(before[name], after[name])]
    return loaded


@pytest.fixture(scope="module")
def zoo() -> list[tuple[str, Any, Any, Any]]:
    return list(models(COUNT, SEED))


def test_random_models_predict_the_same_to_the_bit_after_saving_and_loading(
    zoo: list[tuple[str, Any, Any, Any]], tmp_path: Path
) -> None:
    for said, model, X, y in zoo:
        try:
            check(model, X, y, tmp_path / "m.odds")
        except Exception as error:
            raise AssertionError(f"This model: {said}") from error


def test_the_random_models_are_many_and_of_all_kinds(zoo: list[tuple[str, Any, Any, Any]]) -> None:
    assert len(zoo) >= 100
    said = [text for text, *_ in zoo]
    kinds = [kind.__name__ for _, kind in BASES.items()] + [
        "JeffreysPrior",
        "LaplacePrior",
        "covariance=",
        "scale='evidence'",
        "formula=",
    ]
    assert not [name for name in [*MODELS, *kinds] if not any(name in text for text in said)]
    priors = [model.prior_ for _, model, *_ in zoo if hasattr(model, "prior_")]
    assert any(type(prior).__name__ == "Inherited" for prior in priors)
    assert sum(hasattr(model, "selection_") for _, model, *_ in zoo) >= 3


@pytest.mark.parametrize("kind", list(MODELS))
def test_every_registered_model_is_saved_with_nothing_left_behind(kind: str, tmp_path: Path) -> None:
    _, model, X, y = random_model(kind, np.random.default_rng(3))
    loaded = check(model, X, y, tmp_path / "m.odds")
    before = {name for name, value in vars(model).items() if value is not None}
    assert before - {"_recall"} <= set(vars(loaded))
    assert repr(loaded) == repr(model)


def test_naive_bayes_on_columns_of_every_family(tmp_path: Path) -> None:
    model, table, y = mixed_naive_bayes()
    loaded = check(model, table, y, tmp_path / "m.odds")
    assert type(loaded.sample(3, 0)[0]) is type(table)
    counts = np.random.default_rng(0).poisson(3, size=(40, 3))
    check(NaiveBayes(features="multinomial").fit(counts, np.arange(40) % 2), counts, None, tmp_path / "m.odds")


def test_training_goes_on_from_a_loaded_model_as_from_the_one_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = rng.random(80) < 0.5
    model = LogisticRegression(seed=4).partial_fit(X[:40], y[:40], classes=[False, True])
    model.save(tmp_path / "m.odds")
    loaded = oddsmith.load(tmp_path / "m.odds")
    # The generator of random numbers goes on where it stood.
    assert same(loaded.partial_fit(X[40:], y[40:]).coef_, model.partial_fit(X[40:], y[40:]).coef_)
    fitted = LogisticRegression(prior=1.0).fit(X[:40], y[:40])
    fitted.save(tmp_path / "m.odds")
    assert same(oddsmith.load(tmp_path / "m.odds").update(X[40:], y[40:]).coef_, fitted.update(X[40:], y[40:]).coef_)


def test_posterior_of_a_maximum_likelihood_fit_is_saved_whatever_its_solver(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    y = np.arange(50) % 2
    LogisticRegression(solver="truncated-newton").fit(X, y).save(tmp_path / "m.odds")
    del y
    assert oddsmith.load(tmp_path / "m.odds").posterior_.covariance.shape == (3, 3)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
@pytest.mark.parametrize(("prior", "levels"), [(None, 2600), (1.0, 220)])
def test_a_long_table_with_a_factor_eliminated_is_saved(prior: float | None, levels: int, tmp_path: Path) -> None:
    """Its plan has a solver of its own, and its Hessian may be sparse beside the factor eliminated."""
    rng, N = np.random.default_rng(0), 80_000
    codes, few = rng.integers(0, levels, N), rng.integers(0, 4, N)
    table = pd.DataFrame({"x": rng.normal(size=N), "a": pd.Categorical(codes), "b": pd.Categorical(few)})
    y = rng.random(N) < 0.4 + 0.2 * (codes % 2)
    model = under({"one_thread_elements": 1000.0}, lambda: LogisticRegression(prior=prior).fit(table, y))
    assert isinstance(model.plan_.solver, TableNewton)
    model.save(tmp_path / "m.odds")
    loaded = oddsmith.load(tmp_path / "m.odds")
    assert loaded.plan_ == model.plan_ and same(loaded.predict_proba(table[:9]), model.predict_proba(table[:9]))
    if prior is None:
        assert isinstance(model._learned.bordered.B, SparseBorder)
        assert same(loaded.summary().std_error, model.summary().std_error)


def test_saving_forms_no_hessian_although_the_rows_of_the_fit_are_there(tmp_path: Path) -> None:
    X = sparse.random_array((300, 401), density=0.05, rng=0, format="csr")
    y = np.arange(300) % 2
    model = LogisticRegression(prior=1.0).fit(X, y)
    assert model._learned.hessian is None
    model.save(tmp_path / "m.odds")
    assert model._learned.hessian is None
    loaded = oddsmith.load(tmp_path / "m.odds")
    with pytest.raises(InvalidInputError, match="rows are no longer in memory"):
        _ = loaded.posterior_
    assert same(loaded.summary(X, y).posterior_sd, model.summary().posterior_sd)
    assert same(loaded.posterior_.mean, model.posterior_.mean)


def test_file_is_the_same_whether_the_rows_of_the_fit_are_alive_or_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Rows were read.")

    X = sparse.random_array((300, 401), density=0.05, rng=0, format="csr")
    y = np.arange(300) % 2
    model = LogisticRegression(prior=1.0).fit(X, y)
    assert model._learned.hessian is None and model._recall() is not None
    for name in ("alive", "gone"):
        with monkeypatch.context() as patch:
            patch.setattr(MemoryEngine, "fold", refuse)
            patch.setattr(TrainingDataRef, "__call__", refuse)
            model.save(tmp_path / name)
        X = y = None
    assert model._recall() is None
    (alive, numbers), (gone, same_numbers) = (read(tmp_path / name) for name in ("alive", "gone"))
    assert alive["model"] == gone["model"] and numbers.keys() == same_numbers.keys()
    assert all(same(numbers[name], same_numbers[name]) for name in numbers)


def test_file_does_not_grow_with_the_rows_or_with_a_model_that_is_met_twice(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 3)), np.arange(4000) % 2
    model = LogisticRegression().fit(X, y)
    model.save(tmp_path / "m.odds")
    size = (tmp_path / "m.odds").stat().st_size
    assert size < 10_000
    recalibrated = recalibrate(model, X, y)
    assert recalibrated.model is recalibrated.model_
    recalibrated.save(tmp_path / "r.odds")
    assert (tmp_path / "r.odds").stat().st_size < size + 1000
    loaded = oddsmith.load(tmp_path / "r.odds")
    assert loaded.model is loaded.model_


def test_safetensors_reads_the_file_and_finds_the_weights(tmp_path: Path) -> None:
    from safetensors import safe_open

    X = np.random.default_rng(0).normal(size=(50, 2))
    model = LogisticRegression().fit(X, np.arange(50) % 2)
    model.save(tmp_path / "m.odds")
    with safe_open(tmp_path / "m.odds", framework="np") as file:
        assert list(file.metadata()) == ["oddsmith"]
        assert same(file.get_tensor("coef_"), model.coef_)
        assert file.get_tensor("_learned.hessian").shape == (3, 3)


def test_provenance_says_where_a_model_comes_from_and_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import getpass
    import socket

    monkeypatch.setenv("USER", "somebody-special")
    X = np.random.default_rng(0).normal(size=(50, 2))
    weight = np.full(50, 2.0)
    model = LogisticRegression().fit(X, np.arange(50) % 2, sample_weight=weight)
    recalibrate(model, X, np.arange(50) % 2).save(tmp_path / "m.odds")
    about = describe(tmp_path / "m.odds")
    assert about["model"] == "RecalibratedClassifier" and about["schema"] == 1
    saved = datetime.fromisoformat(about["provenance"].pop("saved"))
    assert abs(datetime.now(UTC) - saved) < timedelta(hours=1)
    software = f"oddsmith {oddsmith.__version__}"
    assert about["provenance"] == {"software": software, "rows": 50, "weight": 100.0, "columns": 2, "classes": 2}
    data = (tmp_path / "m.odds").read_bytes()
    places = (str(tmp_path), str(Path.cwd()), str(Path.home()) + "/", socket.gethostname(), getpass.getuser())
    assert not [name for name in places if name.encode() in data]


def test_same_model_gives_the_same_bytes_but_for_the_time(tmp_path: Path) -> None:
    model = LogisticRegression(prior=1.0).fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
    node, tensors = encode(model)
    assert pack({"model": node}, tensors) == pack({"model": node}, tensors)


# ---------------------------------------------------------------------------------------------- what is refused


def test_objects_of_scikit_learn_are_refused_by_name_before_a_file_is_touched(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    path = tmp_path / "m.odds"
    with pytest.raises(InvalidTypeError, match=r"basis\[0\] is a StandardScaler of sklearn.* pickled"):
        LogisticRegression(basis=[StandardScaler(), Polynomial(2)]).fit(X, y).save(path)
    with pytest.raises(InvalidTypeError, match="model is a LogisticRegression of sklearn"):
        RecalibratedClassifier(SklearnLogisticRegression()).fit(X, y).save(path)
    assert list(tmp_path.iterdir()) == []


def test_model_that_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    for model in all_models():
        with pytest.raises(NotFittedError):
            model.save(tmp_path / "m.odds")


def test_class_that_is_not_registered_is_refused_with_the_way_to_register_it(tmp_path: Path) -> None:
    class Halves(Basis):
        def learn(self, source: Any, engine: Any, names: Any) -> None:
            self.learned_ = True

        def expand(self, rows: Any) -> Any:
            return np.asarray(rows) / 2.0

        def column_names(self, names: Any) -> list[str]:
            return list(names)

    model = LogisticRegression(basis=Halves()).fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
    with pytest.raises(InvalidTypeError, match=r"basis is a .*Halves.*BASES"):
        model.save(tmp_path / "m.odds")
    register(Halves)
    model.save(tmp_path / "m.odds")
    assert type(oddsmith.load(tmp_path / "m.odds").basis) is Halves


@dataclass
class Unregistered:
    x: int


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (lambda: 1, "function"),
        (Unregistered(1), "Unregistered"),
        (Path("a"), "Path"),
        (np.array([1], dtype=np.longdouble), "longdouble|float128|float64"),
        (np.array([(1, 2)], dtype=[("a", int), ("b", int)]), "type"),
        (np.array(["a"], dtype=np.dtypes.StringDType(na_object=None)), "StringDType"),
        (np.ma.masked_array([1.0]), "MaskedArray"),
        (np.random.Generator(np.random.MT19937(0)), "Generator"),
        (enum.Enum("Colour", "RED"), "EnumType"),
        (len, "builtin"),
        (int, "type"),
    ],
)
def test_values_that_are_no_data_are_refused(value: Any, what: str) -> None:
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and type(value) is np.ndarray:
        pytest.skip("long double is double here")
    with pytest.raises(InvalidTypeError, match=what):
        encode([value])


def test_objects_that_are_one_stay_one() -> None:
    @register
    @dataclass(frozen=True)
    class Knot:
        x: Any

    knot, weights = Knot(1), np.arange(3.0)
    first, table, pair, again = decode(
        *encode([knot, {Knot(2): knot, knot: [weights]}, Knot((knot, weights)), weights])
    )
    assert table[Knot(2)] is first and list(table)[1] is first and pair.x[0] is first
    assert table[first][0] is again and pair.x[1] is again


def test_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInputError, match="contain itself"):
        encode(loop)


def test_two_classes_of_one_name_are_refused() -> None:
    class Certificate:
        pass

    with pytest.raises(InvalidInputError, match="Two classes would be 'Certificate'"):
        register(Certificate)


def test_new_model_that_keeps_a_class_unknown_to_files_fails_to_save(tmp_path: Path) -> None:
    """The tests above find a model by the registry, so one that cannot be saved cannot be added unnoticed."""

    class Stubborn(Classifier):
        def fit(self, X: Any, y: Any) -> Any:
            self.classes_, self.kept_ = np.unique(y), Unregistered(1)
            return self

    register(Stubborn)
    with pytest.raises(InvalidTypeError, match="kept_ is a Unregistered"):
        Stubborn().fit([[0.0]], [0]).save(tmp_path / "m.odds")


# ---------------------------------------------------------------------------------------------- values of all types

PLAIN = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=20), st.complex_numbers()),
    *(
        st.dates(),
        st.datetimes().map(lambda when: when.replace(fold=0)),
        st.timedeltas(),
        st.text(st.characters(categories=["Cs", "L"])),
    ),
    st.sampled_from(
        [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("é"), np.bytes_(b"x"), np.datetime64("NaT", "s")]
    ),
)
KEYS = st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.integers()), st.booleans())
DTYPES = st.one_of(
    *(
        hnp.boolean_dtypes(),
        hnp.integer_dtypes(endianness="?"),
        hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    ),
    *(
        hnp.unicode_string_dtypes(endianness="?", max_len=5),
        hnp.byte_string_dtypes(max_len=5),
        hnp.complex_number_dtypes(),
    ),
    *(hnp.datetime64_dtypes(endianness="?"), hnp.timedelta64_dtypes(endianness="?")),
)
ARRAYS = hnp.arrays(DTYPES.filter(lambda d: d.itemsize <= 20), hnp.array_shapes(min_dims=0, min_side=0, max_side=4))


def through_bytes(value: Any, path: Path) -> Any:
    node, tensors = encode(value)
    write(path, pack({"model": node}, tensors))
    document, read_back = read(path)
    return decode(document["model"], read_back)


@given(
    value=st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner))
)
def test_plain_values_come_back_with_their_types(value: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    again = through_bytes(value, tmp_path_factory.getbasetemp() / "plain.odds")
    assert repr(again) == repr(value)  # NaN is not equal to itself, and −0 is to 0
    assert type(again) is type(value)


@given(array=ARRAYS, layout=st.sampled_from(["C", "F", "view"]))
def test_arrays_come_back_with_type_shape_order_and_bits(
    array: Any, layout: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    array = (
        array[..., ::-1]
        if layout == "view" and array.ndim
        else np.asarray(array, order=layout if layout != "view" else "C")
    )
    again = through_bytes(array, tmp_path_factory.getbasetemp() / "array.odds")
    assert same(again, np.asarray(array))
    assert again.flags.writeable and again.dtype.str == array.dtype.str
    if layout != "view":
        assert again.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "", "čau\0", "\ud800"], dtype=object),
        np.array([["a", "b"], ["c", "d"]], dtype=object),
        np.array([], dtype=object),
        np.array(["a", "", "čau"], dtype=np.dtypes.StringDType()),
        np.array([None, 1, "a", 2.5, (1, 2)], dtype=object),
        np.array([date(2020, 1, 2)], dtype=object),
    ],
    ids=str,
)
def test_arrays_of_objects_come_back(array: Any, tmp_path: Path) -> None:
    assert same(through_bytes(array, tmp_path / "objects.odds"), array)


def test_names_that_are_attacks_come_through_as_names(tmp_path: Path) -> None:
    import pandas as pd

    names = [
        "'; DROP TABLE m; --",
        "$(rm -rf /)",
        "{0.__class__}",
        '{"checksum":"' + "0" * 64 + '"',
        "__class__",
        "π\n",
    ]
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, len(names))), columns=names)
    y = np.array(['{\\"checksum\\":\\"' + "1" * 64 + '\\"', '{"checksum":"' + "2" * 64 + '"'])[np.arange(60) % 2]
    model = LogisticRegression(prior=1.0).fit(table, y)
    loaded = check(model, table, y, tmp_path / "m.odds")
    assert loaded.feature_names_in_.tolist() == names
    assert loaded.summary().to_dict()["term"][1:] == names


def test_loading_imports_what_prediction_needs_and_no_pickle_is_read(tmp_path: Path) -> None:
    LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"]).save(tmp_path / "m.odds")
    code = (
        "import pickle, builtins\n"
        "import oddsmith, oddsmith.persistence.model_file\n"
        "def refuse(*a, **k): raise SystemExit('code was run')\n"
        "pickle.loads = pickle.load = pickle.Unpickler = builtins.eval = builtins.exec = builtins.compile = refuse\n"
        f"print(oddsmith.load({str(tmp_path / 'm.odds')!r}).predict([[3.0]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "['b']\n", done.stderr
