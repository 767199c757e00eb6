"""The PyTorch modules: values of the formulas, gradients, precision, and everything a training loop may do to them."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'polymargin[torch]'")

from registry import has_clear_winner  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from torch import nn  # noqa: E402

from polymargin import M3SVC, CrammerSingerSVC, WestonWatkinsSVC  # noqa: E402
from polymargin.torch import (  # noqa: E402
    AngularRegularizer,
    CoupledNormRegularizer,
    CrammerSingerLoss,
    ISM3Loss,
    LpNormRegularizer,
    M3HingeLoss,
    MarginDistributionLoss,
    OneVsNoneLoss,
    PairwiseMarginRegularizer,
    WestonWatkinsLoss,
    to_torch,
)


def layer(c=5, d=7, seed=0):
    torch.manual_seed(seed)
    return nn.Linear(d, c, dtype=torch.float64)


def scores(n=40, c=5, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(1.5 * rng.standard_normal((n, c))), torch.from_numpy(rng.integers(0, c, n))


# ---- the formulas, in plain Python -------------------------------------------------------------------------------------


def margin(s, y):
    return s[y] - max(v for k, v in enumerate(s) if k != y)


def pairwise(g):
    return lambda s, y: sum(g(s[y] - v) for k, v in enumerate(s) if k != y)


def margin_distribution(s, y, theta=0.2, mu=0.5):
    low, high = max(0.0, 1 - theta - margin(s, y)), max(0.0, margin(s, y) - 1 - theta)
    return (low**2 + mu * high**2) / (1 - theta) ** 2


def smooth_hinge(m, delta=0.3):
    return (1 - m + math.sqrt((1 - m) ** 2 + delta**2)) / 2


LOSSES = {
    "crammer_singer": (CrammerSingerLoss, {}, lambda s, y: max(0.0, 1 - margin(s, y))),
    "squared_hinge": (CrammerSingerLoss, {"squared": True}, lambda s, y: max(0.0, 1 - margin(s, y)) ** 2),
    "weston_watkins": (WestonWatkinsLoss, {}, pairwise(lambda m: max(0.0, 1 - m))),
    "exact_m3": (M3HingeLoss, {"delta": 0.0}, pairwise(lambda m: max(0.0, 1 - m))),
    "m3": (M3HingeLoss, {"delta": 0.3}, pairwise(smooth_hinge)),
    "margin_distribution": (MarginDistributionLoss, {"theta": 0.2, "mu": 0.5}, margin_distribution),
    "one_vs_none": (OneVsNoneLoss, {}, lambda s, y: max(0.0, 1 - s[y])),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


def ism3(head, lam=0.02, **options):
    return ISM3Loss(head, lam=lam, **options)


def make(name, **options):
    maker, own, _ = LOSSES[name]
    return maker(**own, **options)


def distances(W):
    return [math.dist(v, w) for v, w in itertools.combinations(W, 2)]


def sums_of_differences(W):
    return [sum(abs(a - b) for a, b in zip(v, w, strict=True)) for v, w in itertools.combinations(W, 2)]


def cosines(W):
    unit = [np.array(w) / np.linalg.norm(w) for w in W]
    return np.array([abs(v @ w) for v, w in itertools.combinations(unit, 2)])


def squared_norm(W):
    return sum(x * x for w in W for x in w)


def evenness(W):
    s = np.linalg.svd(np.array(W), compute_uv=False) ** 2
    return math.log(s.sum()) - np.log(s).mean()


def inner_products(W):
    return sum(float(np.dot(v, w)) for v, w in itertools.combinations(W, 2))


TINY = 1e-9  # a floor that no value feels
REGULARIZERS = {
    "pairwise": (
        PairwiseMarginRegularizer(4, scale="power"),
        lambda W: sum(r**4 for r in distances(W)) + 1e-7 * squared_norm(W),
    ),
    "pairwise_1": (PairwiseMarginRegularizer(1, epsilon=0, scale="power"), lambda W: sum(distances(W))),
    "pairwise_1.5": (
        PairwiseMarginRegularizer(1.5, epsilon=0.1, scale="power"),
        lambda W: sum(r**1.5 for r in distances(W)) + 0.1 * squared_norm(W),
    ),
    "pairwise_norm": (
        PairwiseMarginRegularizer(3, epsilon=0),
        lambda W: (len(W) - 1) / 4 * (sum(r**3 for r in distances(W)) / len(distances(W))) ** (2 / 3),
    ),
    "pairwise_inf": (PairwiseMarginRegularizer(math.inf, epsilon=0, scale="power"), lambda W: max(distances(W)) ** 2),
    "pairwise_l1": (
        PairwiseMarginRegularizer(2, epsilon=0, norm="l1", scale="power"),
        lambda W: sum(r**2 for r in sums_of_differences(W)),
    ),
    "lp": (LpNormRegularizer(1.3), lambda W: 0.5 * sum(math.hypot(*w) ** 1.3 for w in W) ** (2 / 1.3)),
    "squared_norm": (LpNormRegularizer(2), lambda W: 0.5 * squared_norm(W)),
    "coupled": (CoupledNormRegularizer(0.3), lambda W: 0.5 * squared_norm(W) + 0.3 * inner_products(W)),
    "angular": (AngularRegularizer(0.7, floor=TINY), lambda W: 0.5 * squared_norm(W) + 0.35 * evenness(W)),
    "cosine": (AngularRegularizer(2.0, regularizer="cosine", ridge=0, floor=TINY), lambda W: cosines(W).mean()),
    "incoherence": (
        AngularRegularizer(2.0, regularizer="incoherence", ridge=0, floor=TINY),
        lambda W: math.sqrt((cosines(W) ** 2).mean()),
    ),
    "diversity": (
        AngularRegularizer(2.0, regularizer="diversity", ridge=0, floor=TINY),
        lambda W: np.arccos(cosines(W)).var() - np.arccos(cosines(W)).mean(),
    ),
}
each_regularizer = pytest.mark.parametrize("name", REGULARIZERS)
KINDS = ("angular", "cosine", "incoherence", "diversity")
# with the default floor in place of one that no value feels
SAFE = {
    **{name: module for name, (module, _) in REGULARIZERS.items() if name not in KINDS},
    **{kind: AngularRegularizer(regularizer=kind) for kind in KINDS},
    "high_floor": AngularRegularizer(rank=3, floor=0.1),
}
each_safe = pytest.mark.parametrize("name", SAFE)


@each_loss
def test_losses_have_the_values_of_the_formulas(name):
    S, y = scores()
    expected = [LOSSES[name][2](s, k) for s, k in zip(S.tolist(), y.tolist(), strict=True)]
    np.testing.assert_allclose(make(name, reduction="none")(S, y), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(make(name, reduction="sum")(S, y), sum(expected), rtol=1e-12)
    np.testing.assert_allclose(make(name)(S, y), np.mean(expected), rtol=1e-12)


@each_regularizer
def test_regularizers_have_the_values_of_the_formulas(name):
    module, formula = REGULARIZERS[name]
    W = layer().weight.detach()
    assert module(W).item() == pytest.approx(float(formula(W.tolist())), rel=1e-10)
    assert module(W.new_zeros(3, 4)).isfinite()


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_ism3_in_the_scale_of_the_equation_and_of_the_program(loss):
    """The paper's Eq. 32 has its lambda beside the sum over n rows; beside the mean it is lambda / n."""
    head, (S, y) = layer(), scores()
    n, lam = len(y), 0.3
    equation, program = ism3(head, lam, loss=loss, reduction="sum"), ism3(head, lam / n, loss=loss)
    assert equation(S, y).item() == pytest.approx(n * program(S, y).item(), rel=1e-12)
    of_sum, of_mean = (torch.autograd.grad(criterion(S, y), head.weight)[0] for criterion in (equation, program))
    torch.testing.assert_close(of_sum, n * of_mean)


def test_ism3_is_a_loss_and_a_regularizer():
    head, (S, y) = layer(), scores()
    logistic = sum(pairwise(lambda m: math.log1p(math.exp(-m)))(s, k) for s, k in zip(S.tolist(), y.tolist(), strict=True))
    R = REGULARIZERS["pairwise"][1](head.weight.tolist()) + 1e-7 * squared_norm([head.bias.tolist()])
    assert ism3(head, loss="logistic", reduction="sum")(S, y).item() == pytest.approx(logistic + 0.02 * R, rel=1e-12)
    assert ism3(head)(S, y).item() == pytest.approx(nn.CrossEntropyLoss()(S, y).item() + 0.02 * R, rel=1e-12)


# ---- gradients -----------------------------------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_of_losses(name, reduction):
    S, y = scores(n=12, seed=3)
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0], dtype=torch.float64)
    loss = make(name, reduction=reduction, weight=weight, ignore_index=2)
    assert torch.autograd.gradcheck(lambda S: loss(S, y), S.requires_grad_())


def layer_of(W, b):
    """A layer made of given tensors, so that gradients can be asked for in them."""
    made = nn.Linear(W.shape[1], W.shape[0])
    del made.weight, made.bias
    made.weight, made.bias = W, b
    return made


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_gradients_of_ism3(loss):
    """Through the scores and through the regulariser."""
    S, y = scores(n=6, seed=4)
    X = torch.randn(6, 7, dtype=torch.float64, requires_grad=True)

    def value(X, W, b):
        head = layer_of(W, b)
        return ism3(head, loss=loss, label_smoothing=0.1, epsilon=0.1)(head(X) + S, y)

    assert torch.autograd.gradcheck(value, (X, layer().weight, layer().bias))


@each_safe
def test_gradients_of_regularizers(name):
    module, W = SAFE[name], layer().weight
    assert torch.autograd.gradcheck(module, W)
    if name != "pairwise_inf":  # its second derivative is that of one pair: checked, but a tie within 1e-6 would not be
        assert torch.autograd.gradgradcheck(module, W)


def test_offsets_count_if_a_layer_is_given():
    W, b = layer().weight, layer().bias
    pairwise, coupled = PairwiseMarginRegularizer(4, epsilon=0.1), CoupledNormRegularizer(0.5, gamma_b=0.7)
    assert pairwise(layer()).item() == pytest.approx((pairwise(W) + 0.1 * (b * b).sum()).item(), rel=1e-12)
    assert coupled(layer()).item() == pytest.approx((coupled(W) + 0.7 * b.sum() ** 2).item(), rel=1e-12)
    for module in (pairwise, coupled):
        assert torch.autograd.gradcheck(lambda W, b, module=module: module(layer_of(W, b)), (W, b))


@each_safe
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_no_gradient_is_nan_where_vectors_coincide_or_vanish(name, dtype):
    for W in (torch.ones(4, 3), torch.zeros(4, 3), torch.eye(4, 3), torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])):
        W = W.to(dtype).requires_grad_()
        value = SAFE[name](W)
        value.backward()
        assert value.isfinite() and W.grad.isfinite().all(), W


def test_coinciding_vectors_have_the_subgradient_zero():
    W = torch.tensor([[1.0, 2.0], [1.0, 2.0]], requires_grad=True)
    PairwiseMarginRegularizer(1, epsilon=0)(W).backward()
    assert not W.grad.any()


def test_many_classes_are_computed_in_parts():
    W = torch.randn(300, 200, dtype=torch.float64, requires_grad=True)  # above the limit
    value = PairwiseMarginRegularizer(4, epsilon=0, scale="power")(W)
    (G,) = torch.autograd.grad(value, W)
    r = torch.pdist(W)
    (expected,) = torch.autograd.grad(r.pow(4).sum(), W)
    assert value.item() == pytest.approx(r.pow(4).sum().item(), rel=1e-12)
    torch.testing.assert_close(G, expected, rtol=1e-10, atol=1e-8)


# ---- the options of nn.CrossEntropyLoss ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.25])  # PyTorch rounds it to float32
@pytest.mark.parametrize("weighted", [False, True])
def test_ism3_without_a_regularizer_is_the_cross_entropy(reduction, smoothing, weighted):
    S, y = scores()
    y[:7] = -1
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0], dtype=torch.float64) if weighted else None
    options = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing, "ignore_index": -1}
    ours, theirs = ISM3Loss(layer(), lam=0.0, **options), nn.CrossEntropyLoss(**options)
    torch.testing.assert_close(ours(S, y), theirs(S, y), rtol=1e-12, atol=0)


def test_smoothed_labels_are_a_mixture_of_labels():
    S, y = scores(n=9)
    plain = ISM3Loss(layer(), loss="logistic", lam=0.0)
    each = torch.stack([plain(S, torch.full_like(y, k)) for k in range(5)])
    smooth = ISM3Loss(layer(), loss="logistic", lam=0.0, label_smoothing=0.3)
    torch.testing.assert_close(smooth(S, y), 0.7 * plain(S, y) + 0.3 * each.mean())


def test_weston_watkins_is_the_multi_margin_loss_times_the_number_of_classes():
    S, y = scores()
    torch.testing.assert_close(WestonWatkinsLoss()(S, y), 5 * nn.MultiMarginLoss()(S, y))


@each_loss
def test_class_weights_and_ignored_rows(name):
    S, y = scores()
    weight = torch.tensor([1.0, 2.0, 0.0, 1.0, 3.0], dtype=torch.float64)
    rows = make(name, reduction="none")(S, y)
    y_some, S_some = y.clone(), S.clone()
    y_some[::3], S_some[::3] = -100, float("nan")
    kept = torch.ones(len(y)).bool()
    kept[::3] = False
    S_some.requires_grad_()
    value = make(name, weight=weight)(S_some, y_some)
    torch.testing.assert_close(value, (weight[y] * rows)[kept].sum() / weight[y][kept].sum())
    value.backward()
    assert S_some.grad.isfinite().all() and not S_some.grad[::3].any()
    none = make(name, weight=weight, reduction="none")(S_some, y_some)
    torch.testing.assert_close(none, torch.where(kept, weight[y] * rows, 0.0))
    assert make(name)(S, torch.full_like(y, -100)).item() == 0.0


@each_loss
def test_scores_of_pixels_and_of_one_row(name):
    S, y = scores(n=24)
    images, classes = S.reshape(2, 3, 4, 5).permute(0, 3, 1, 2), y.reshape(2, 3, 4)
    expected = make(name, reduction="none")(S, y)
    torch.testing.assert_close(make(name, reduction="none")(images, classes), expected.reshape(2, 3, 4))
    torch.testing.assert_close(make(name)(S[0], y[0]), expected[0])
    assert make(name)(S[:0], y[:0]).item() == 0.0


def test_label_matrices():
    S, _ = scores(n=8, c=3)
    T = torch.from_numpy(np.random.default_rng(5).integers(-1, 2, (8, 3)))
    weight = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    expected = weight * T.abs() * (1 - T * S).clamp(min=0)
    loss = OneVsNoneLoss(weight=weight, reduction="none")
    torch.testing.assert_close(loss(S, T), expected)
    torch.testing.assert_close(OneVsNoneLoss(weight=weight)(S, T.double()), expected.sum() / (weight * T.abs()).sum())
    assert OneVsNoneLoss()(S, torch.zeros_like(T)).item() == 0.0
    assert torch.autograd.gradcheck(lambda S: loss(S, T), S.requires_grad_())
    y = torch.tensor([0, 2, 1, 1, 0, 2, 2, 0])
    one_hot = nn.functional.one_hot(y, 3)
    torch.testing.assert_close(OneVsNoneLoss()(S, y), OneVsNoneLoss()(S, one_hot))


# ---- precision ---------------------------------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_scores_are_summed_in_float32(name, dtype):
    S, y = scores(n=3000, seed=6)
    S = (8 * S).to(dtype).requires_grad_()
    value = make(name, reduction="sum")(S, y)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(make(name, reduction="sum")(S.detach().double(), y).item(), rel=1e-5)
    value.backward()
    assert S.grad.dtype == dtype and S.grad.isfinite().all()


@each_safe
def test_regularizers_in_half_precision_and_under_autocast(name):
    module, W = SAFE[name], 20 * layer().weight.detach().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = module(W)
    torch.testing.assert_close(value, module(W))
    half = W.half().requires_grad_()
    value = module(half)
    value.backward()
    assert value.dtype == torch.float32 and half.grad.dtype == torch.float16
    assert value.item() == pytest.approx(module(half.detach().double()).item(), rel=1e-3)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_ism3_under_autocast(loss):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    criterion = ism3(network[2], loss=loss, label_smoothing=0.1)
    X, y = torch.randn(20, 6), torch.arange(20) % 4
    exact = criterion(network(X), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        S = network(X)
        value = criterion(S, y)
    assert S.dtype == torch.bfloat16 and value.dtype == torch.float32
    assert value.item() == pytest.approx(exact.item(), rel=1e-2)
    value.backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


# ---- modules among modules ---------------------------------------------------------------------------------------------


def test_ism3_does_not_own_the_layer():
    head = layer()
    criterion = ism3(head, weight=torch.ones(5))
    assert not list(criterion.parameters())
    assert list(criterion.state_dict()) == ["weight"]
    assert criterion.layer is head
    network = nn.ModuleDict({"head": head, "criterion": criterion})
    again = copy.deepcopy(network)
    assert again["criterion"].layer is again["head"] and again["head"] is not head
    restored = pickle.loads(pickle.dumps(criterion))
    S, y = scores()
    assert restored(S, y).item() == criterion(S, y).item()


@each_loss
def test_losses_say_what_they_are(name):
    assert "reduction='sum'" in repr(make(name, reduction="sum"))
    assert all(repr(module) != type(module).__name__ + "()" for module, _ in REGULARIZERS.values())


WRONG = {
    "reduction": (lambda: CrammerSingerLoss(reduction="average"), "reduction='average'"),
    "delta": (lambda: M3HingeLoss(delta=-1), "delta=-1"),
    "theta": (lambda: MarginDistributionLoss(theta=1.0), "theta=1.0 .*0 <= theta < 1"),
    "mu": (lambda: MarginDistributionLoss(mu=0), "mu=0 .*0 < mu <= 1"),
    "p of pairs": (lambda: PairwiseMarginRegularizer(0.5), "p=0.5 .*1 <= p"),
    "l1": (lambda: PairwiseMarginRegularizer(math.inf, norm="l1"), "finite p"),
    "p of lp": (lambda: LpNormRegularizer(1.0), "p=1.0 .*1 < p <= 2"),
    "nan": (lambda: AngularRegularizer(float("nan")), "omega=nan"),
    "kind": (lambda: AngularRegularizer(regularizer="sine"), "'angular', 'cosine'"),
    "alpha": (lambda: CoupledNormRegularizer(1.0), "alpha=1.0"),
    "alpha of many": (lambda: CoupledNormRegularizer(-0.5)(torch.eye(4)), "alpha=-0.5 .*4 classes"),
    "no rows": (lambda: ISM3Loss(layer(), reduction="none"), "belongs to no row"),
    "loss": (lambda: ISM3Loss(layer(), loss="hinge"), "'softmax', 'logistic'"),
    "smoothing": (lambda: ISM3Loss(layer(), label_smoothing=2), "label_smoothing=2"),
    "weight": (lambda: CrammerSingerLoss(weight=torch.tensor([-1.0, 2.0])), "weight must be"),
    "number of weights": (lambda: CrammerSingerLoss(weight=torch.ones(3))(*scores()), "3 numbers for 5 classes"),
    "class": (lambda: CrammerSingerLoss()(scores()[0], scores()[1] + 3), "from 0 to 4"),
    "shapes": (lambda: CrammerSingerLoss()(scores()[0], scores()[1][:-1]), "belong to classes"),
    "one class": (lambda: CrammerSingerLoss()(torch.ones(3, 1), torch.zeros(3).long()), "at least two"),
    "labels": (lambda: OneVsNoneLoss()(torch.ones(2, 2), torch.full((2, 2), 2)), "label matrix"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_argument_and_what_would_work(case):
    act, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        act()


def test_wrong_kinds_are_refused():
    with pytest.raises(TypeError, match=r"nn\.Linear"):
        ISM3Loss(nn.ReLU())
    with pytest.raises(TypeError, match=r"shape \(8, 1, 5, 5\)"):
        LpNormRegularizer()(nn.Conv2d(1, 8, 5))
    with pytest.raises(TypeError, match=r"torch\.float64"):
        CrammerSingerLoss()(scores()[0], scores()[1].double())
    with pytest.raises(TypeError, match=r"torch\.int64"):
        CrammerSingerLoss()(scores()[0].long(), scores()[1])


# ---- machines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("machine", [CrammerSingerSVC, WestonWatkinsSVC])
@pytest.mark.parametrize("free", [True, False])
def test_a_machine_becomes_a_layer(machine, dtype, free, overlapping):
    X, y = overlapping
    X, est = X.astype(dtype), machine(fit_intercept=free, random_state=0).fit(X.astype(dtype), y)
    before = torch.random.get_rng_state()
    linear = to_torch(est)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert isinstance(linear, nn.Linear) and (linear.bias is not None) == free
    S = linear(torch.from_numpy(X)).detach().numpy()
    assert S.dtype == dtype
    np.testing.assert_allclose(S, est.decision_function(X), rtol=0, atol=50 * np.finfo(dtype).eps * np.abs(S).max())
    clear = has_clear_winner(est, X)
    np.testing.assert_array_equal(est.classes_[S.argmax(axis=1)][clear], est.predict(X)[clear])
    assert to_torch(est, dtype=torch.float16).weight.dtype == torch.float16
    assert all(parameter.requires_grad for parameter in linear.parameters())


def test_two_classes_and_machines_of_scikit_learn(two_classes):
    X, y = two_classes
    for est in (CrammerSingerSVC(), LogisticRegression()):
        S = to_torch(est.fit(X, y))(torch.from_numpy(X)).detach().numpy()
        np.testing.assert_allclose(S[:, 1] - S[:, 0], est.decision_function(X), atol=1e-12)


def test_what_is_no_layer_is_refused(iris):
    X, y = iris
    with pytest.raises(TypeError, match="StandardScaler"):
        to_torch(make_pipeline(StandardScaler(), CrammerSingerSVC()).fit(X, y))
    with pytest.raises(TypeError, match="kernel='rbf'"):
        to_torch(CrammerSingerSVC(kernel="rbf").fit(X, y))


def descend(value, parameters, rounds=1):
    """L-BFGS until it stops; `value(round)` may change from round to round."""
    for number in range(rounds):
        optimizer = torch.optim.LBFGS(
            parameters, max_iter=3000, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )

        def closure(number=number, optimizer=optimizer):
            optimizer.zero_grad()
            loss = value(number)
            loss.backward()
            return loss

        optimizer.step(closure)


def test_a_layer_trained_by_lbfgs_reaches_the_optimum_of_m3svc(iris):
    X, y = map(torch.from_numpy, iris)
    linear, loss, regularizer = layer(3, 4), M3HingeLoss(reduction="sum"), PairwiseMarginRegularizer(4, scale="power")
    exact = WestonWatkinsLoss(reduction="sum")

    def smoothed(number):
        loss.delta = 10.0**-number
        return 10.0 * loss(linear(X), y) + regularizer(linear)

    descend(smoothed, list(linear.parameters()), rounds=6)
    reached = (10.0 * exact(linear(X), y) + regularizer(linear)).item()
    assert reached == pytest.approx(299.5846, rel=1e-5)
    assert reached == pytest.approx(M3SVC(C=10.0, p=4, scale="power", tol=1e-7).fit(*iris).objective_, rel=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_a_layer_trained_by_lbfgs_on_ism3_reaches_the_optimum_of_m3svc(loss, overlapping):
    X, y = map(torch.from_numpy, overlapping)
    linear = layer(4, 5)
    criterion = ISM3Loss(linear, loss=loss, lam=0.5, reduction="sum")
    descend(lambda _: criterion(linear(X), y), list(linear.parameters()))
    optimum = M3SVC(C=2.0, p=4, loss=loss, scale="power", tol=1e-8).fit(*overlapping).objective_
    assert 2.0 * criterion(linear(X), y).item() == pytest.approx(optimum, rel=1e-6)
