"""Cases for the estimators: one integer draws a recipe, a recipe makes the data.

A recipe is plain JSON, so that a stored case stays the same case when the draws change. For the same reason `build` gives
each part of the data a generator of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

import polymargin
from fuzz.formulas import ANGLES, CALLABLES
from polymargin.validation import KERNELS

MACHINES = (
    "CrammerSingerSVC",
    "WestonWatkinsSVC",
    "LpNormSVC",
    "M3SVC",
    "MarginDistributionSVC",
    "AngularSVC",
    "OneVsNoneSVC",
    "TopKSVC",
    "MultiLabelSVC",
    "MarginSVC",
)
STORAGES = ("C", "F", "csr", "csc", "csr_unsorted", "csr_duplicates", "strided")
SHAPES = (
    "plain",
    "duplicate_rows",
    "contradicting_rows",
    "constant_rows",
    "constant_columns",
    "zero_rows",
    "all_zero",
    "all_equal",
    "equal_in_class",
    "one_direction",
    "one_row_per_class",
)
LABELS = ("int", "shifted", "str", "bool", "negative", "object")

Recipe = dict[str, Any]


@dataclass
class Case:
    """A machine and its data."""

    recipe: Recipe
    X: Any
    y: Any
    sample_weight: Any

    @property
    def machine(self) -> str:
        return str(self.recipe["machine"])

    def estimator(self, **changes: Any) -> Any:
        """An unfitted estimator with the recipe's parameters and these."""
        return getattr(polymargin, self.machine)(**{**parameters(self.recipe), **changes})

    @property
    def moderate(self) -> bool:
        """Whether other libraries end on this data as well."""
        data = self.recipe["data"]
        largest_weight = 1.0 if self.sample_weight is None else float(np.max(self.sample_weight))
        tame = data["scale_level"] <= 1.0 and data["offset_level"] <= 1.0
        return tame and 1e-3 <= float(self.recipe["params"].get("C", 1.0)) <= 1e2 and largest_weight <= 1e2


def parameters(recipe: Recipe) -> dict[str, Any]:
    """Constructor arguments; what JSON cannot hold is looked up."""
    params = dict(recipe["params"])
    kernel = params.get("kernel", "linear")
    if kernel.startswith("callable:"):
        params["kernel"] = CALLABLES[kernel.partition(":")[2]]
    for name in ("p", "C"):
        if params.get(name) == "inf":
            params[name] = np.inf
    weights = params.get("class_weight")
    if isinstance(weights, list):  # by position: names differ with the kind of labels
        names = label_names(recipe)
        params["class_weight"] = {name: w for name, w in zip(names, weights, strict=True) if w is not None}
    return params


# ---- draws --------------------------------------------------------------------------------------------------------------


class Chooser(Protocol):
    """What the draws ask for: a NumPy generator, or something else that chooses, such as Hypothesis."""

    def random(self) -> float: ...
    def integers(self, low: int, high: int) -> Any: ...
    def uniform(self, low: float, high: float) -> float: ...
    def choice(self, choices: Any) -> Any: ...


def draw(seed: int) -> Recipe:
    """The recipe of a case."""
    rng = np.random.default_rng(seed)
    return draw_recipe(rng, seed, str(rng.choice(MACHINES)))


def draw_recipe(rng: Chooser, seed: int, machine: str, largest: tuple[int, int, int] = (300, 60, 30)) -> Recipe:
    """A recipe for a machine with at most so many rows, columns and classes; `seed` is that of the data."""
    data = _draw_data(rng, machine, *largest)
    params = _draw_common(rng, data)
    params.update(_OWN[machine](rng, params, data))
    if data.get("multilabel") and isinstance(params.get("class_weight"), list):
        params["class_weight"] = params["class_weight"][: data["c"]]
    refit = _draw_refit(rng) if params.get("warm_start") else None
    if _chance(rng, 0.1):
        params["probability"] = True
    return {"seed": seed, "machine": machine, "params": params, "data": data, "refit": refit}


def _chance(rng: Chooser, probability: float) -> bool:
    return bool(rng.random() < probability)


def _log_int(rng: Chooser, low: int, high: int) -> int:
    return min(high, int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))


def _power(rng: Chooser, level: float) -> float:
    """10 to some power up to +-level, with three digits."""
    return float(f"{10.0 ** rng.uniform(-level, level):.3g}")


def _pick(rng: Chooser, choices: Any, first: float) -> Any:
    """The first choice with this probability, else any of the others."""
    choices = list(choices)
    return choices[0] if _chance(rng, first) else choices[int(rng.integers(1, len(choices)))]


def _draw_data(rng: Chooser, machine: str, most_rows: int, most_columns: int, most_classes: int) -> Recipe:
    n = _log_int(rng, 2, most_rows)
    c = min(n, _log_int(rng, 2, most_classes))
    level = _pick(rng, [0.0, 1.0, 3.0, 8.0], 0.5)
    data: Recipe = {
        "n": n,
        "d": _log_int(rng, 1, most_columns),
        "c": c,
        "separation": float(rng.choice([0.0, 0.5, 1.5, 4.0, 20.0])),
        "scale_level": level,
        "common_scale": _pick(rng, [0.0, -8.0, -4.0, -2.0, 2.0, 4.0, 8.0], 0.75),
        "offset_level": _pick(rng, [0.0, 1.0, 3.0, 6.0, 8.0], 0.6),
        "density": _pick(rng, [1.0, 0.5, 0.1, 0.02], 0.7),
        "whole_numbers": _chance(rng, 0.1),
        "shape": _pick(rng, SHAPES, 0.6),
        "storage": _pick(rng, STORAGES, 0.5),
        "dtype": _pick(rng, ["float64", "float32"], 0.7),
        "labels": _pick(rng, LABELS, 0.6),
        "balance": _pick(rng, ["even", "uneven"], 0.6),
        "weights": _pick(rng, ["none", "ones", "mild", "wild", "zeros", "whole"], 0.55),
        "multilabel": machine in ("OneVsNoneSVC", "MultiLabelSVC") and _chance(rng, 0.6),
    }
    if data["multilabel"]:
        data["negatives"] = _pick(rng, [0.0, 0.3], 0.5)
        data["sparse_labels"] = _chance(rng, 0.2)
    return data


def _draw_common(rng: Chooser, data: Recipe) -> Recipe:
    params: Recipe = {"C": _pick(rng, [1.0, _power(rng, 2.0), _power(rng, 8.0)], 0.3)}
    kernel = str(_pick(rng, [*KERNELS, "callable:cauchy", "callable:minus_distance"], 0.55))
    if kernel != "linear":
        params["kernel"] = kernel
        if _chance(rng, 0.5):
            params["gamma"] = _pick(rng, ["auto", 1.0, 0.01, 100.0], 0.3)
        if kernel == "poly":
            params["degree"] = int(rng.integers(0, 5))
        if kernel in ("poly", "sigmoid") and _chance(rng, 0.6):
            params["coef0"] = float(rng.choice([-1.0, 0.5, 1.0, 10.0]))
        if _chance(rng, 0.2):
            params["n_components"] = int(rng.integers(1, data["n"] + 5))
        if kernel == "precomputed":
            data["storage"] = str(rng.choice(["C", "F", "strided"]))
    if _chance(rng, 0.3):
        params["fit_intercept"] = False
    params["tol"] = _pick(rng, [1e-4, 1e-1, 1e-2, 1e-6, 1e-8], 0.5)
    if _chance(rng, 0.25):
        params["max_iter"] = int(rng.choice([1, 2, 3, 5, 20, 100]))
    weights = _pick(rng, ["none", "balanced", "mild", "wild"], 0.7)
    if weights == "balanced":
        params["class_weight"] = "balanced"
    elif weights != "none":
        level = 0.5 if weights == "mild" else 6.0
        params["class_weight"] = [_power(rng, level) if _chance(rng, 0.7) else None for _ in range(data["c"])]
    if _chance(rng, 0.2):
        params["warm_start"] = True
    if _chance(rng, 0.1):
        params["n_jobs"] = 2
    if _chance(rng, 0.6):
        params["random_state"] = int(rng.integers(0, 1000))
    if _chance(rng, 0.03):
        params["C"] = "inf"
    return params


def _draw_refit(rng: Chooser) -> Recipe:
    """What is different in the fits before a warm start: one, or two, as on a path."""
    refit: Recipe = {"C_factor": float(rng.choice([0.01, 0.3, 1.0, 3.0, 100.0])), "same_rows": _chance(rng, 0.8)}
    if _chance(rng, 0.5):
        refit["before"] = [float(rng.choice([1e-3, 0.1, 0.5, 1.0, 2.0, 30.0]))]
    return refit


def _of_lp_norm(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    p = _pick(rng, [1.5, 1.01, 1.1, 1.9, 2.0, "auto"], 0.3)
    if p == "auto" and (data["n"] > 120 or _chance(rng, 0.5)):
        p = 1.33
    return {"p": p, "loss": _pick(rng, ["hinge", "squared_hinge"], 0.6), **_sometimes_costs(rng, data)}


def _of_m3(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    own: Recipe = {
        "p": _pick(rng, [4.0, 1.0, 1.3, 2.0, 3.0, 8.0, 30.0, 120.0, "inf"], 0.3),
        "loss": _pick(rng, ["hinge", "logistic", "softmax"], 0.5),
    }
    if "kernel" not in params and own["p"] != "inf" and _chance(rng, 0.15):
        own["norm"] = "l1"
    if _chance(rng, 0.2):
        own["epsilon"] = float(rng.choice([1e-12, 1e-9, 1e-3, 1.0]))
    if _chance(rng, 0.4):
        own["scale"] = "power"
    if own["loss"] == "hinge" and "norm" not in own and own["p"] in (2.0, 3.0, 4.0, 8.0):
        own |= _sometimes_costs(rng, data)
    return own


def _of_margin_distribution(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    own: Recipe = {
        "theta": _pick(rng, [0.2, 0.0, 0.5, 0.9, 0.999], 0.4),
        "mu": _pick(rng, [0.5, 1e-6, 0.1, 1.0], 0.4),
    }
    if _chance(rng, 0.15):
        own.update(relaxation="paper", fit_intercept=False)
    elif _chance(rng, 0.1):
        own["n_starts"] = 2
    return own


def _of_angular(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    own: Recipe = {"omega": _pick(rng, [1.0, 0.0, 1e-6, 0.1, 10.0, 100.0, 500.0, 1e6], 0.3)}
    own["regularizer"] = _pick(rng, ["angular", "cosine", "incoherence", "diversity"], 0.6)
    if _chance(rng, 0.1):
        own["n_starts"] = 2
    return own | _sometimes_costs(rng, data)


def _of_one_vs_none(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    params.pop("fit_intercept", None)
    own: Recipe = {}
    if _chance(rng, 0.3):
        own["weights"] = "hard"
    elif _chance(rng, 0.5):
        low = -1.0 / (data["c"] - 1)
        own["alpha"] = float(rng.choice([0.0, 0.9, 0.999, 0.5 * low, 0.999 * low]))
    if _chance(rng, 0.3):
        own["biases"] = "soft"
        if _chance(rng, 0.5):
            own["gamma_b"] = _power(rng, 4.0)
    if data["multilabel"] and _chance(rng, 0.2):
        own["threshold"] = "auto" if data["n"] <= 80 and _chance(rng, 0.5) else float(rng.choice([0.0, 0.5, 1.5]))
    if _chance(rng, 0.08):
        own["solver"] = "mm"
    if _chance(rng, 0.15):
        own["zeros"] = "negative"
    return own


def _of_multi_label(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    own: Recipe = {"loss": _pick(rng, ["relevance", "squared_relevance", "ranking", "max_ranking"], 0.4)}
    if data["multilabel"]:
        own["threshold"] = 0.0
        if data["n"] <= 80 and _chance(rng, 0.3):
            own["threshold"] = str(rng.choice(["auto", "per_label"]))
            own["metric"] = str(rng.choice(["jaccard", "micro_f1", "macro_f1", "subset_accuracy"]))
            own["allow_empty"] = [None, True, False][int(rng.integers(0, 3))]
    return own


def _of_top_k(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    k = int(rng.choice([k for k in (1, 2, 3, data["c"]) if k <= data["c"]]))
    return {"k": k, **_sometimes_costs(rng, data)}


def _of_family(rng: Chooser, params: Recipe, data: Recipe) -> Recipe:
    absolute = ["lee_lin_wahba", "margin_regression", "absolute_max", "total_max", "total_sum", "reinforced", "one_vs_rest"]
    own: Recipe = {"loss": _pick(rng, ["weston_watkins", "crammer_singer", *absolute, "top_k"], 0.1)}
    loss = own["loss"]
    if loss == "top_k":
        own["k"] = 2
    elif _chance(rng, 0.3):
        own["squared"] = True
    if loss == "reinforced" and _chance(rng, 0.5):
        own["own_share"] = float(rng.choice([0.0, 0.2, 1.0]))
    if loss in ("weston_watkins", "crammer_singer", "top_k") and _chance(rng, 0.4):
        own |= _of_costs(rng, data)
    penalties = ["l2", "coupled", "lp", str(rng.choice(ANGLES))] + ([] if "kernel" in params else ["elastic_net", "group"])
    own["penalty"] = _pick(rng, penalties + ([] if loss == "one_vs_rest" else ["pairwise"]), 0.4)
    own |= _of_penalty(rng, own["penalty"])
    return own


def _sometimes_costs(rng: Chooser, data: Recipe) -> Recipe:
    return _of_costs(rng, data) if _chance(rng, 0.15) else {}


def _of_costs(rng: Chooser, data: Recipe) -> Recipe:
    """Of few classes: they are written out."""
    c = data["c"]
    return {"label_cost": [[0.0 if k == at else _cost(rng, k) for at in range(c)] for k in range(c)]} if c <= 6 else {}


def _cost(rng: Chooser, k: int) -> float:
    return float(rng.choice([0.0, 0.1, 1.0, 3.0])) + (k == 0)


def _of_penalty(rng: Chooser, penalty: str) -> Recipe:
    if penalty in ("elastic_net", "group"):
        return {"l1": _power(rng, 2.0)}
    if penalty == "coupled":
        return {"alpha": float(rng.choice([0.0, 0.5, 0.9]))}
    if penalty in ANGLES:
        return {"omega": float(rng.choice([0.1, 1.0, 30.0]))}
    if penalty == "lp":
        return {"p": float(rng.choice([1.1, 1.5, 2.0]))}
    if penalty != "pairwise":
        return {}
    scale = str(rng.choice(["norm", "power"]))
    return {"p": float(rng.choice([2.0, 4.0])), "scale": scale, "epsilon": float(rng.choice([1e-6, 1e-2]))}


_OWN = {
    "MarginSVC": _of_family,
    "CrammerSingerSVC": lambda rng, params, data: _sometimes_costs(rng, data),
    "WestonWatkinsSVC": lambda rng, params, data: _sometimes_costs(rng, data),
    "LpNormSVC": _of_lp_norm,
    "M3SVC": _of_m3,
    "MarginDistributionSVC": _of_margin_distribution,
    "AngularSVC": _of_angular,
    "OneVsNoneSVC": _of_one_vs_none,
    "TopKSVC": _of_top_k,
    "MultiLabelSVC": _of_multi_label,
}


# ---- data ---------------------------------------------------------------------------------------------------------------


def build(recipe: Recipe) -> Case:
    """The data of a recipe."""
    data = recipe["data"]
    codes = _codes(recipe)
    rows = _rows(recipe, codes).astype(data["dtype"])
    if recipe["params"].get("kernel") == "precomputed":
        rows = _gram(rows)
    y = _labels(recipe, codes) if not data["multilabel"] else _label_matrix(recipe, codes)
    return Case(recipe, stored(rows, data["storage"]), y, _weights(recipe, codes))


def _generator(recipe: Recipe, part: str) -> np.random.Generator:
    return np.random.default_rng([recipe["seed"], *part.encode()])


def _codes(recipe: Recipe) -> np.ndarray:
    data, rng = recipe["data"], _generator(recipe, "classes")
    n, c = data["n"], data["c"]
    if data["shape"] == "one_row_per_class":
        return np.arange(c)
    if data["balance"] == "even":
        return rng.permutation(np.arange(n) % c)
    shares = rng.exponential(size=c) ** 3 + 1e-9
    rest = rng.choice(c, size=n - c, p=shares / shares.sum())
    return rng.permutation(np.append(np.arange(c), rest))


def _rows(recipe: Recipe, codes: np.ndarray) -> np.ndarray:
    data, rng = recipe["data"], _generator(recipe, "rows")
    n, d, c = len(codes), data["d"], data["c"]
    X = data["separation"] * rng.standard_normal((c, d))[codes] / np.sqrt(d) + rng.standard_normal((n, d))
    if data["whole_numbers"]:
        X = np.round(2.0 * X)
    X = _shaped(X, codes, data["shape"], _generator(recipe, "shape"))
    scales = 10.0 ** _generator(recipe, "scales").uniform(-1.0, 1.0, d) ** 3
    X = X * scales ** data["scale_level"] * 10.0 ** data["common_scale"]
    if data["offset_level"] > 0.0 and data["shape"] != "all_zero":
        spread = X.std(axis=0)
        away = _generator(recipe, "offsets").uniform(-1.0, 1.0, d) * 10.0 ** data["offset_level"]
        X = X + away * np.where(spread > 0.0, spread, 1.0)
    holes = _generator(recipe, "holes").random((n, d)) > data["density"]
    return np.where(holes, 0.0, X)


def _shaped(X: np.ndarray, codes: np.ndarray, shape: str, rng: np.random.Generator) -> np.ndarray:
    """Rows and columns that do not vary as they should."""
    n, d = int(X.shape[0]), int(X.shape[1])
    some = (rng.random(n) < 0.5)[:, None]
    if shape in ("duplicate_rows", "contradicting_rows"):
        source = [int(i) for i in rng.integers(0, n, n)]
        if shape == "duplicate_rows":  # of the same class
            source = [int(rng.choice(np.flatnonzero(codes == k))) for k in codes]
        X = np.where(some, X[source], X)
    elif shape == "constant_rows":
        X = np.where(some, X[:, :1], X)
    elif shape == "constant_columns":
        X = np.where(rng.random(d) < 0.7, X[:1], X)
    elif shape == "zero_rows":
        X = np.where(some, 0.0, X)
    elif shape == "all_zero":
        X = np.zeros_like(X)
    elif shape == "all_equal":
        X = np.repeat(X[:1], n, axis=0)
    elif shape == "equal_in_class":
        X = X[np.unique(codes, return_index=True)[1]][np.unique(codes, return_inverse=True)[1]]
    elif shape == "one_direction":
        X = np.outer(X[:, 0], X[0])
    return X


def _gram(rows: np.ndarray) -> np.ndarray:
    """A precomputed kernel: linear in extended precision, scaled to a largest entry near 1."""
    wide = rows.astype(np.longdouble)
    K = wide @ wide.T
    largest = np.abs(K).max()
    return np.asarray(K / largest if largest > 0 else K, dtype=rows.dtype)


def stored(rows: np.ndarray, storage: str) -> Any:
    """The same numbers in another storage."""
    if storage == "C":
        return np.ascontiguousarray(rows)
    if storage == "F":
        return np.asfortranarray(rows)
    if storage == "strided":
        return np.repeat(rows, 2, axis=1)[:, ::2]
    if storage == "csc":
        return sparse.csc_array(rows)
    X = sparse.csr_array(rows)
    if storage == "csr":
        return X
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)])
    if storage == "csr_unsorted":
        return sparse.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)
    # each entry in two exact halves
    halves, twice = np.repeat(X.data[order] * rows.dtype.type(0.5), 2), np.repeat(X.indices[order], 2)
    return sparse.csr_array((halves, twice, 2 * X.indptr), shape=X.shape)


def label_names(recipe: Recipe) -> list[Any]:
    """The names of the classes, in the order of their codes."""
    data = recipe["data"]
    c = data["c"]
    if data["multilabel"]:
        return list(range(c))
    kind = data["labels"]
    if kind == "bool" and c == 2:
        return [False, True]
    if kind == "str":
        return [f"class {k:02d}" for k in range(c)]
    if kind == "object":
        return [f"ö{k:02d}" for k in range(c)]
    return [{"shifted": 3, "negative": -c}.get(kind, 0) + k for k in range(c)]


def _labels(recipe: Recipe, codes: np.ndarray) -> np.ndarray:
    dtype = object if recipe["data"]["labels"] == "object" else None
    return np.array(label_names(recipe), dtype=dtype)[codes]


def _label_matrix(recipe: Recipe, codes: np.ndarray) -> Any:
    """Each row's class, further labels, and some -1; every label has a member."""
    data, rng = recipe["data"], _generator(recipe, "labels")
    Y = np.eye(data["c"], dtype=np.int64)[codes]
    Y[rng.random(Y.shape) < 0.15] = 1
    Y[(Y == 0) & (rng.random(Y.shape) < data["negatives"])] = -1
    lonely = Y.copy()
    lonely[rng.random(len(Y)) < 0.1] = 0  # a row that says nothing
    if (lonely > 0).any(axis=0).all():
        Y = lonely
    return sparse.csr_array(Y) if data["sparse_labels"] else Y


def _weights(recipe: Recipe, codes: np.ndarray) -> Any:
    data, rng = recipe["data"], _generator(recipe, "weights")
    n, kind = len(codes), data["weights"]
    if kind == "none":
        return None
    if kind == "ones":
        return np.ones(n)
    if kind == "whole":
        return rng.integers(1, 4, n).astype(np.float64)
    level = 6.0 if kind == "wild" else 0.5
    weight = 10.0 ** rng.uniform(-level, level, n)
    if kind == "zeros":
        keep = np.unique(codes, return_index=True)[1]  # one row of every class
        off = rng.random(n) < 0.4
        off[keep] = False
        weight[off] = 0.0
    return weight
