"""Bad input has a defined answer: an error that names the argument and the value, or a correct fit."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from interpreters import run_warm
from reference import REFERENCES
from registry import (
    LEAST_ACCURACY,
    all_estimators,
    each_convex,
    each_machine,
    each_variant,
    has_free_intercept,
    slack,
)

TIGHT = {"tol": 1e-8, "random_state": 0}


def names(*words):
    """A pattern that needs every one of the words, in any order."""
    return "(?s)" + "".join(rf"(?=.*(?<!\w){re.escape(str(word))}(?!\w))" for word in words)


# -- parameters --------------------------------------------------------------------------------------------

BAD_PARAMETERS = [
    ("C", 0),
    ("C", -1.5),
    ("C", float("nan")),
    ("C", float("inf")),
    ("C", "one"),
    ("C", None),
    ("C", [1.0, 2.0]),
    ("kernel", "rfb"),
    ("kernel", 3),
    ("kernel", None),
    ("fit_intercept", "yes"),
    ("tol", 0),
    ("tol", -1e-4),
    ("tol", float("nan")),
    ("tol", "tight"),
    ("max_iter", 0),
    ("max_iter", -3),
    ("max_iter", 2.5),
    ("max_iter", "many"),
    ("class_weight", "balance"),
    ("class_weight", 2.0),
    ("class_weight", [1.0, 2.0, 3.0]),
    ("warm_start", "yes"),
    ("n_jobs", 0),
    ("n_jobs", 1.5),
    ("n_jobs", "all"),
    ("verbose", "loud"),
    ("verbose", -1),
    ("random_state", "seed"),
    ("random_state", -1),
    ("random_state", 1.5),
    ("gamma", "big"),
    ("gamma", -1.0),
    ("degree", -2),
    ("degree", "three"),
    ("coef0", "zero"),
    ("n_components", 0),
    ("n_components", -5),
    ("n_components", 2.5),
]


@pytest.mark.parametrize("name, value", BAD_PARAMETERS, ids=lambda item: str(item).replace(" ", ""))
@each_machine
def test_bad_parameter_is_named_with_its_value(machine, name, value, iris):
    if name not in machine().get_params():
        pytest.skip(f"{machine.__name__} has no {name}")
    est = machine(**{name: value})  # __init__ only stores
    assert est.get_params()[name] is value
    with pytest.raises((ValueError, TypeError)) as error:
        est.fit(*iris)
    message = str(error.value)
    assert re.search(names(name), message), message
    assert str(value) in message, message
    assert not hasattr(est, "class_vectors_"), "a failed fit leaves no fitted state"


@each_machine
def test_good_but_unusual_parameters_are_accepted(machine, iris):
    X, y = iris
    for params in (
        {"C": np.float32(0.5)},
        {"C": 1},
        {"max_iter": np.int64(500)},
        {"tol": np.float64(1e-3)},
        {"class_weight": {}},
        {"class_weight": {0: 1, 1: np.float32(2)}},
        {"n_jobs": -1},
        {"random_state": np.random.RandomState(0)},
        {"random_state": np.int64(7)},
        {"verbose": False},
    ):
        assert machine(**params).fit(X, y).score(X, y) > LEAST_ACCURACY, params



@each_machine
def test_n_components_of_a_linear_kernel_is_not_silently_ignored(machine, iris):
    """A warning and not an error, because scikit-learn's checks set it wherever it exists."""
    with pytest.warns(UserWarning, match=names("n_components", "10")):
        est = machine(n_components=10, random_state=0).fit(*iris)
    np.testing.assert_array_equal(est.class_vectors_, machine(random_state=0).fit(*iris).class_vectors_)


@pytest.mark.parametrize(
    "class_weight, word",
    [
        ({0: 1.0, 99: 2.0}, "99"),
        ({0: 1.0, 1: 1.0, 2: 1.0, 99: 2.0}, "99"),
        ({"setosa": 1.0}, "setosa"),
        ({0: -1.0}, "-1.0"),
        ({0: float("nan")}, "nan"),
        ({0: float("inf")}, "inf"),
        ({0: "heavy"}, "heavy"),
        ({0: None}, "None"),
    ],
    ids=str,
)
@each_machine
def test_bad_class_weight_is_named_with_its_value(machine, class_weight, word, iris):
    with pytest.raises((ValueError, TypeError)) as error:
        machine(class_weight=class_weight).fit(*iris)
    message = str(error.value)
    assert "class_weight" in message and word in message, message


@each_machine
def test_class_weight_zero_leaves_a_class_empty(machine, iris):
    X, y = iris
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    with pytest.raises(ValueError, match=r"(?s)(?=.*class_weight)(?=.*virginica)"):
        machine(class_weight={"virginica": 0.0}).fit(X, y)


# -- sample_weight -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, word",
    [
        (lambda w: -w, "negative"),
        (lambda w: np.where(np.arange(len(w)) == 17, -0.5, w), "negative"),
        (lambda w: np.where(np.arange(len(w)) == 17, np.nan, w), "NaN"),
        (lambda w: np.where(np.arange(len(w)) == 17, np.inf, w), "inf"),
        (lambda w: 0 * w, "zero"),
        (lambda w: w[:-1], "149"),
        (lambda w: np.r_[w, 1.0], "151"),
        (lambda w: w[:, None] * np.ones((1, 2)), "(150, 2)"),
        (lambda w: np.array(["heavy"] * len(w)), "number"),
    ],
    ids=["all_negative", "one_negative", "nan", "inf", "all_zero", "short", "long", "2d", "text"],
)
@each_machine
def test_bad_sample_weight_is_named(machine, change, word, iris):
    X, y = iris
    weights = change(np.ones(len(y)))
    with pytest.raises((ValueError, TypeError)) as error:
        machine().fit(X, y, sample_weight=weights)
    message = str(error.value).lower()
    assert re.search("sample.weight", message), message
    assert word.lower() in message, message


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@each_machine
def test_a_class_of_weight_zero_is_named(machine, container, iris):
    X, y = iris
    words = np.array(["red", "green", "blue"])[y]
    with pytest.raises(ValueError, match=r"(?s)(?=.*sample_weight)(?=.*green)"):
        machine().fit(container(X), words, sample_weight=np.where(words == "green", 0.0, 1.0))
    with pytest.raises(ValueError, match=r"(?s)(?=.*sample_weight)(?=.*red)(?=.*blue)"):
        machine().fit(container(X), words, sample_weight=np.where(words == "green", 1.0, 0.0))


@each_machine
def test_a_scalar_sample_weight_is_for_every_row(machine, iris):
    X, y = iris
    scalar = machine(random_state=0).fit(X, y, sample_weight=2.0)
    vector = machine(random_state=0).fit(X, y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_array_equal(scalar.class_vectors_, vector.class_vectors_)


@each_machine
def test_tiny_and_huge_weights_are_fitted(machine, iris):
    """C v_i is what counts: a common factor is a factor of C."""
    X, y = iris
    plain = machine(C=1.0, **TIGHT).fit(X, y)
    for factor in (1e-100, 1e-12, 1e12, 1e100):
        est = machine(C=1.0 / factor, **TIGHT).fit(X, y, sample_weight=np.full(len(y), factor))
        assert est.objective_ == pytest.approx(plain.objective_, abs=slack(plain, est) * (1 + 1e-6))


# -- X and y -----------------------------------------------------------------------------------------------


@each_machine
def test_one_class_is_refused_by_name(machine, iris):
    X, _ = iris
    with pytest.raises(ValueError, match=r"(?s)(?=.*class)(?=.*only)"):
        machine().fit(X, np.full(len(X), "only"))


@each_machine
def test_empty_data_is_refused(machine):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        machine().fit(np.empty((0, 3)), np.empty(0))
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        machine().fit(np.empty((3, 0)), [0, 1, 0])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        machine().fit(sp.csr_array((0, 3)), np.empty(0))


@each_machine
def test_empty_prediction_data_is_refused(machine, iris):
    est = machine().fit(*iris)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        est.predict(np.empty((0, 4)))


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda table: pd.DataFrame(table).to_numpy()], ids=["pandas", "object"]
)
@each_machine
def test_text_columns_are_refused(machine, frame):
    X = frame({"size": [1.0, 2.0, 3.0, 4.0], "colour": ["crimson", "azure", "crimson", "azure"]})
    with pytest.raises(ValueError, match=r"crimson|azure|colour"):
        machine().fit(X, [0, 1, 0, 1])


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("bad, word", [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array])
@each_machine
def test_not_finite_X_is_refused(machine, container, dtype, bad, word, iris):
    X, y = iris
    est = machine(random_state=0).fit(container(X.astype(dtype)), y)
    X = X.astype(dtype)
    X[77, 2] = bad
    with pytest.raises(ValueError, match=f"X contains.*{word}"):
        machine().fit(container(X), y)
    for method in (est.predict, est.decision_function):
        with pytest.raises(ValueError, match=f"X contains.*{word}"):
            method(container(X))
    with pytest.raises(ValueError, match=f"X contains.*{word}"):
        est.objective(container(X), y)


@each_machine
def test_not_finite_or_missing_y_is_refused(machine, iris):
    X, y = iris
    with pytest.raises(ValueError, match="y contains NaN"):
        machine().fit(X, np.where(y == 2, np.nan, y))
    with pytest.raises(ValueError, match="y"):
        machine().fit(X, None)
    with pytest.raises(ValueError, match="Unknown label type"):
        machine().fit(X, y + 0.5)  # continuous


@each_machine
def test_shapes_that_differ_are_refused(machine, iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"(?s)(?=.*150)(?=.*149)"):
        machine().fit(X, y[:-1])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        machine().fit(X[:, 0], y)
    with pytest.raises(ValueError, match="3"):
        machine().fit(X[:, :, None], y)
    est = machine(random_state=0).fit(X, y)
    for method in (est.predict, est.decision_function):
        with pytest.raises(ValueError, match=r"(?s)(?=.*3 features)(?=.*4 features)"):
            method(X[:, :3])
    with pytest.raises(ValueError, match=r"(?s)(?=.*150)(?=.*149)"):
        est.objective(X, y[:-1])


@each_machine
def test_objective_refuses_a_label_it_does_not_know(machine, iris):
    X, y = iris
    est = machine(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"(?s)(?=.*y)(?=.*7)"):
        est.objective(X, np.where(y == 2, 7, y))


@each_machine
def test_objective_accepts_a_part_of_the_classes(machine, iris):
    X, y = iris
    est = machine(random_state=0).fit(X, y)
    parts = [est.objective(X[y == k], y[y == k]) for k in range(3)]
    weightless = est.objective(X, y, np.full(len(y), 1e-300))  # R alone
    assert sum(parts) - 2 * weightless == pytest.approx(est.objective_, rel=1e-9)


@each_machine
def test_complex_numbers_are_refused(machine, iris):
    X, y = iris
    with pytest.raises(ValueError, match="Complex data not supported"):
        machine().fit(X + 1j, y)


@each_machine
def test_unseen_and_misordered_feature_names_are_refused(machine, iris):
    X, y = iris
    table = pd.DataFrame(X, columns=list("abcd"))
    est = machine(random_state=0).fit(table, y)
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*zebra"):
        est.predict(table.rename(columns={"d": "zebra"}))
    with pytest.raises(ValueError, match="same order"):
        est.predict(table[list("dcba")])
    with pytest.raises(ValueError, match="same order"):
        est.objective(table[list("dcba")], y)
    with pytest.warns(UserWarning, match="valid feature names"):
        est.predict(X)


@pytest.mark.parametrize("damage", ["index too large", "index negative", "offsets fall", "offsets beyond the end"])
def test_broken_sparse_matrices_are_refused(damage):
    """An error, not a read outside of the array."""
    code = """
        import sys
        import numpy as np, polymargin.estimators, scipy.sparse as sp
        damage = sys.argv[1]
        for name, machine in polymargin.estimators.machines().items():
            print(name, end=" ", flush=True)  # who it was, should the process die
            rng = np.random.default_rng(0)
            X, y = sp.csr_array(rng.standard_normal((30, 4))), np.arange(30) % 3
            if damage == "index too large":
                X.indices[10] = 10**8
            elif damage == "index negative":
                X.indices[10] = -(10**8)
            elif damage == "offsets fall":
                X.indptr[3], X.indptr[4] = X.indptr[5], X.indptr[2]
            else:
                X.indptr[-1] = 10**8
            try:
                machine(max_iter=2).fit(X, y)
            except (ValueError, IndexError) as error:
                print("refused:", str(error).replace("\\n", " "))
            else:
                print("accepted")
    """
    said = run_warm(code, damage).strip().splitlines()
    assert len(said) == len(all_estimators())
    for line in said:
        assert re.search(r"refused: .*(ind|offset|X)", line), line


# -- unusual but correct -----------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@each_convex
def test_all_zero_rows_are_fitted(machine, container, overlapping):
    X, y = overlapping
    X = X.copy()
    X[::4], X[1] = 0.0, 0.0
    params = {"fit_intercept": False} if has_free_intercept(machine) else {}
    for settings in (params, {}):
        est = machine(**TIGHT, **settings).fit(container(X), y)
        optimum = REFERENCES[machine.__name__](X, y, 1.0, None, settings.get("fit_intercept", True))
        assert est.objective_ == pytest.approx(optimum, rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*trivial solution")
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@each_variant
def test_nothing_but_zeros_is_fitted(machine, params, container):
    """Only the intercept can tell classes apart; the largest class wins."""
    y = np.array([0] * 3 + [1] * 8 + [2] * 3)
    X = container(np.zeros((14, 3)))
    est = machine(**TIGHT, **params).fit(X, y)
    np.testing.assert_array_equal(est.class_vectors_, 0.0)
    assert np.isfinite(est.class_offsets_).all() and np.isfinite(est.objective_)
    if has_free_intercept(machine) and not params:
        np.testing.assert_array_equal(est.predict(X), 1)


@pytest.mark.parametrize("value", [0.0, 1.0, -37.0])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@each_machine
def test_a_constant_column_changes_nothing(machine, container, value, overlapping):
    """A free intercept does all that a constant column could do, at no cost."""
    if not has_free_intercept(machine):
        pytest.skip("its biases are part of it")
    X, y = overlapping
    plain = machine(**TIGHT).fit(container(X), y)
    more = machine(**TIGHT).fit(container(np.c_[X, np.full(len(y), value)]), y)
    assert more.objective_ == pytest.approx(plain.objective_, abs=slack(plain, more))
    np.testing.assert_allclose(more.class_vectors_[:, -1], 0.0, atol=1e-3)


@each_convex
def test_one_row_per_class_and_one_column(machine):
    X, y = np.array([[-1.0], [0.5], [2.0]]), np.array([0, 1, 2])
    est = machine(C=10.0, **TIGHT).fit(X, y)
    assert est.objective_ == pytest.approx(REFERENCES[machine.__name__](X, y, 10.0), rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*trivial solution")
@each_convex
def test_identical_rows_with_different_labels(machine):
    X, y = np.ones((9, 2)), np.arange(9) % 3
    est = machine(**TIGHT).fit(X, y)
    assert est.objective_ == pytest.approx(REFERENCES[machine.__name__](X, y, 1.0), rel=1e-6)


def fit_or_refusal(est, X, y):
    """The fitted machine, or None if it refused; and everything it said on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            est.fit(X, y)
        except ValueError as refusal:
            return None, str(refusal)
    assert not [w for w in caught if issubclass(w.category, RuntimeWarning)]
    return est, "\n".join(str(w.message) for w in caught)


@pytest.mark.pool(0.3)
@pytest.mark.parametrize("factor", [1e150, 1e30, 1e6, 1e-6, 1e-30, 1e-150])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@each_variant
def test_badly_scaled_X_is_finite_or_a_clear_error(machine, params, container, factor, iris):
    """Never NaN, never silent: either an error about X, or a finite fit and a warning with advice."""
    X, y = container(factor * iris[0]), iris[1]
    est, said = fit_or_refusal(machine(random_state=0, max_iter=300, **params), X, y)
    if not 1e-20 < factor < 1e20:
        assert re.search("(?i)scal", said), said
    if est is None:
        assert re.search(r"\bX\b", said), said
        return
    for number in (est.class_vectors_, est.class_offsets_, est.decision_function(X), est.objective_):
        assert np.isfinite(number).all()
    assert est.n_iter_ <= 300
    assert est.certificate_.converged or "gap" in said


@each_machine
def test_float32_overflow_in_the_data_is_not_silent(machine, iris):
    """1e30 fits in float32, its square does not."""
    X, y = (1e30 * iris[0]).astype(np.float32), iris[1]
    est, said = fit_or_refusal(machine(random_state=0, max_iter=300), X, y)
    assert re.search("(?i)scal", said), said
    if est is not None:
        assert np.isfinite(est.class_vectors_).all() and np.isfinite(est.objective_)


@pytest.mark.filterwarnings("ignore:(?s).*(trivial solution|scal)")
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@each_convex
def test_tiny_X_is_solved_too(machine, container, iris):
    """Next to W = 0 the optimum is known, however little a row can move W: F loses less than 1e-12 of its value."""
    X, y = container(1e-9 * iris[0]), iris[1]
    params = {"fit_intercept": False} if has_free_intercept(machine) else {}
    for settings in (params, {}):
        est = machine(random_state=0, **settings).fit(X, y)
        trivial = machine(random_state=0, **settings).fit(0.0 * X, y)
        assert est.certificate_.status == "optimal"
        assert est.objective_ == pytest.approx(trivial.objective_, rel=1e-4)
