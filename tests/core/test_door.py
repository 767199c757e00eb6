"""The seam to the native module: the stub says what it has, and arrays that do not fit are refused, never read beyond."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from loops import BUILDS, open_loop, problem_data, stored
from scipy import sparse

import polymargin._core
from polymargin._core import native

STUB = ast.parse((Path(polymargin._core.__file__).parent / "_baseline.pyi").read_text())
ALIASES = {node.target.id: ast.unparse(node.value) for node in STUB.body if isinstance(node, ast.AnnAssign)}


def functions_of(node) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            found.setdefault(item.name, []).append(item)
    return found


def stub_classes() -> dict[str, dict[str, list[ast.FunctionDef]]]:
    """Public classes with their functions, inherited ones included."""
    nodes = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}

    def all_of(name):
        inherited = {}
        for base in nodes[name].bases:
            inherited |= all_of(base.id)
        return inherited | functions_of(nodes[name])

    return {name: all_of(name) for name in nodes if not name.startswith("_")}


def stub_signature(node: ast.FunctionDef) -> tuple[list[tuple[str, str]], str]:
    def text(annotation):
        written = ast.unparse(annotation)
        for alias, meaning in ALIASES.items():
            written = re.sub(rf"\b{alias}\b", meaning, written)
        return written

    arguments = [*node.args.args, *node.args.kwonlyargs]
    return [(a.arg, text(a.annotation)) for a in arguments if a.arg != "self"], text(node.returns)


def native_signatures(function) -> list[tuple[list[tuple[str, str]], str]]:
    """Of every overload, in the words of the stub."""
    found = []
    for written, *_ in function.__nb_signature__:
        written = re.sub(r"(?:numpy\.)?ndarray\[dtype=(\w+)[^\]]*\]", r"NDArray[np.\1]", written)
        written = re.sub(r"polymargin\._core\._\w+\.|collections\.abc\.", "", written)
        written = re.sub(r" = \\\d+", " = ...", written)
        node = ast.parse(re.sub(r"^def \(", "def value(", written) + ": ...").body[0]
        found.append(stub_signature(node))
    return found


def names_of(signatures):
    return {tuple(name for name, _ in arguments) for arguments, _ in signatures}


def assert_same(stubs, function):
    expected, found = [stub_signature(node) for node in stubs], native_signatures(function)
    assert names_of(expected) == names_of(found)
    if len(found) == 1:
        assert expected == found


@pytest.mark.parametrize("build", BUILDS)
def test_the_stub_has_what_the_module_has(build):
    classes, functions = stub_classes(), functions_of(STUB)
    public = {name for name in dir(build) if not name.startswith("_")}
    assert public == classes.keys() | functions.keys()
    for name, stubs in functions.items():
        assert_same(stubs, getattr(build, name))
    for name, members in classes.items():
        native_class = getattr(build, name)
        named = {member for member in vars(native_class) if not member.startswith("_")}
        assert named == {member for member in members if not member.startswith("_")}
        for member, stubs in members.items():
            attribute = getattr(native_class, member)
            assert_same(stubs, attribute.fget if isinstance(attribute, property) else attribute)


def csr(X):
    S = sparse.csr_array(X)
    return [S.data, S.indices.astype(np.int32), S.indptr.astype(np.int64), X.shape[1]]


def damaged_csr(X):
    data, indices, indptr, d = csr(X)
    yield data[1:], indices, indptr, d
    yield data, indices[1:], indptr, d
    yield data, indices, indptr[:0], d
    yield data, indices, indptr + 1, d
    yield data, indices, np.concatenate([indptr[:-1], [len(data) + 5]]), d
    yield data, indices, np.concatenate([indptr[:1], indptr[:0:-1]]), d
    yield data, indices, indptr, int(indices.max())
    yield data, indices - 1, indptr, d


def test_rows_of_a_damaged_matrix_are_refused():
    X, _, _ = problem_data(0)
    rows = native.Rows(*csr(X))
    assert (rows.n_rows, rows.n_features) == X.shape
    for arrays in damaged_csr(X):
        with pytest.raises(ValueError, match=r"indptr|indices"):
            native.Rows(*arrays)
    data, indices, indptr, d = csr(X)
    native.Rows(np.append(data, 1.0), np.append(indices, np.int32(0)), indptr, d)  # spare entries do no harm
    for wrong in (X.astype(int), X[:, ::2], X.T, X[0], X.astype(np.float16)):
        with pytest.raises(TypeError):
            native.Rows(wrong)


def targets(n):
    """Targets, costs and number of classes that do not fit n rows of four classes."""
    y, cost = np.arange(n, dtype=np.int32) % 4, np.ones(n)
    yield y[1:], cost, 4
    yield y, cost[1:], 4
    yield y, cost, 3
    yield y - np.int32(1), cost, 4
    yield y * np.int32(0), cost, 1


def test_targets_that_do_not_fit_are_refused():
    X, _, _ = problem_data(1)
    rows = native.Rows(X)
    for y, cost, c in targets(len(X)):
        with pytest.raises(ValueError, match=r"y has|cost has|n_classes"):
            native.row_loop("simplex", "identity", rows, y, cost, c, False, 0)
        with pytest.raises(ValueError, match=r"y has|cost has|n_classes"):
            native.band_loop(rows, y, cost, c, 0.2, 0.5, False, False, 0)


def loops():
    X, y, cost = problem_data(2)
    yield open_loop(native, "box", X, y, cost), y, 4
    yield native.band_loop(stored(native, X, "csr64"), y, cost, 4, 0.2, 0.5, False, True, 0), y, 4
    yield native.band_loop(native.Rows(X), y, cost, 4, 0.2, 0.5, True, True, 0), y, 5


def wrong_duals(y, n_labels):
    """Of rows that have one dual each."""
    n = len(y)
    starts, classes, values = np.arange(n + 1), (y + np.int32(1)) % np.int32(4), np.full(n, 0.01)
    yield starts[:-1], classes, values
    yield starts, classes[1:], values
    yield starts, classes, values[1:]
    yield starts + 1, classes, values
    yield starts[::-1].copy(), classes, values
    yield starts, y, values  # the own class
    yield starts, np.where(np.arange(n) == 7, np.int32(n_labels), classes), values
    yield starts, np.where(np.arange(n) == 7, np.int32(-1), classes), values
    two = np.minimum(2 * np.arange(n + 1), n)
    yield two, np.repeat(classes, 2)[:n], values  # twice the same class


def test_loops_refuse_arrays_of_other_sizes():
    for loop, y, n_labels in loops():
        for duals in wrong_duals(y, n_labels):
            with pytest.raises(ValueError, match=r"starts|classes|values|own class"):
                loop.set_duals(*duals)
        for d in (5, 7):
            with pytest.raises(ValueError, match="means has"):
                loop.start_intercept(np.zeros(d), 1.0)
        for c in (3, 5):
            with pytest.raises(ValueError, match="to has"):
                loop.move_centre(np.zeros(c))
            with pytest.raises(ValueError, match="factors has another shape"):
                loop.scaled(np.ones((4, c)))


def test_the_row_loop_refuses_bases_scales_and_metrics_of_other_sizes():
    X, y, cost = problem_data(3)
    with pytest.raises(ValueError, match="W0 has another shape"):
        open_loop(native, "simplex", X, y, cost).set_base(np.zeros((4, 6)), 0.0)
    scaled = open_loop(native, "simplex", X, y, cost, metric="class_scales")
    with pytest.raises(ValueError, match="scales has 3"):
        scaled.rescale(np.ones(3), np.zeros(4))
    with pytest.raises(ValueError, match="squared_norms has 5"):
        scaled.rescale(np.ones(4), np.zeros(5))
    with pytest.raises(ValueError, match="P has another shape"):
        open_loop(native, "box", X, y, cost, metric="between_classes").change_metric(np.eye(5), 1.0)
    with pytest.raises(ValueError, match=r"unknown domain 'hinge': there are .*box, .*simplex"):
        open_loop(native, "hinge", X, y, cost)
    with pytest.raises(ValueError, match=r"unknown metric 'euclid': identity, class_scales, .* or"):
        open_loop(native, "box", X, y, cost, metric="euclid")
    with pytest.raises(ValueError, match="a has 2"):
        native.solve_row("box", "identity", np.eye(4), np.zeros(3), np.zeros(2), 0.0, 1.0)
    with pytest.raises(ValueError, match="H has another shape"):
        native.solve_row("box", "identity", np.eye(3), np.zeros(3), np.zeros(3), 0.0, 1.0)


def test_targets_couplings_and_absolute_margins_are_checked():
    X, y, cost = problem_data(3)
    for shape in ((3, 3), (4, 5)):
        with pytest.raises(ValueError, match="targets has another shape"):
            open_loop(native, "simplex", X, y, cost, targets=np.ones(shape))
    for parameters in ((), (1.0,), (-1.0, 1.0), (0.0, 0.0)):
        with pytest.raises(ValueError, match="two parameters"):
            open_loop(native, "absolute_box", X, y, cost, parameters=parameters)
    with pytest.raises(ValueError, match="a domain that knows it"):
        open_loop(native, "absolute_box", X, y, cost, parameters=(1.0, 1.0), metric="between_classes")
    with pytest.raises(RuntimeError, match="another metric"):
        open_loop(native, "box", X, y, cost).couple(1.0, 0.0, True)
    coupled = open_loop(native, "absolute_box", X, y, cost, parameters=(1.0, 1.0), metric="coupled")
    for wrong in ((0.0, 1.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="scale must be"):
            coupled.couple(*wrong, True)
    with pytest.raises(RuntimeError, match="no base"):
        coupled.set_base(np.zeros((6, 4)), 0.0)
    with pytest.raises(ValueError, match="own is out of range"):
        native.solve_row("absolute_box", "identity", np.eye(3), np.zeros(2), np.zeros(2), 0.0, 1.0, [1.0, 1.0], 2)


def test_duals_belong_to_margins():
    X, y, cost = problem_data(3)
    starts, others, values = np.arange(len(y) + 1), (y + np.int32(1)) % np.int32(4), np.full(len(y), 0.01)
    for parameters, right, wrong in (((0.0, 1.0), others, y), ((1.0, 0.0), y, others)):
        loop = open_loop(native, "absolute_simplex", X, y, cost, parameters=parameters)
        with pytest.raises(ValueError, match="a row has a"):
            loop.set_duals(starts, wrong, values)
        loop.set_duals(starts, right, values)
        assert loop.flow == pytest.approx(0.01 * len(y))


def test_what_duals_are_made_for_does_not_change_under_them():
    X, y, cost = problem_data(3)
    starts, others, values = np.arange(len(y) + 1), (y + np.int32(1)) % np.int32(4), np.full(len(y), 0.01)
    for begin in (lambda loop: loop.set_duals(starts, others, values), lambda loop: loop.ascend(len(y), 0.0)):
        loop = open_loop(native, "box", X, y, cost, metric="coupled")
        begin(loop)
        with pytest.raises(RuntimeError, match="start_intercept comes before"):
            loop.start_intercept(np.zeros(6), 1.0)
        with pytest.raises(RuntimeError, match="couple comes before"):
            loop.couple(1.0, 0.0, True)


def test_newton_passes_need_a_first_one_and_arrays_that_fit():
    X, y, cost = problem_data(4)
    loop = native.band_loop(native.Rows(X), y, cost, 4, 0.2, 0.5, False, False, 0)
    with pytest.raises(RuntimeError, match="evaluate first"):
        loop.relinearise()
    W, b = np.zeros((6, 4)), np.zeros(4)
    for call in (lambda: loop.newton_product(W, b), loop.newton_matrix, loop.newton_curvature, loop.accept_newton):
        with pytest.raises(RuntimeError, match="must come first"):
            call()
    for wrong in ((W[1:], b), (W, b[1:])):
        with pytest.raises(ValueError, match=r"(W|b) has"):
            loop.newton_pass(*wrong, 1.0)
    loop.newton_pass(W, b, 1.0)
    with pytest.raises(ValueError, match="P has another shape"):
        loop.newton_product(W.T.copy(), b)


def test_the_label_loop_refuses_pairs_that_do_not_fit():
    X, _, _ = problem_data(5)
    n = len(X)
    settings = {"scale": 1.0, "common": 1.0, "slack": 0.0, "inverse_rho": 1.0, "seed": 0}
    starts, labels = 2 * np.arange(n + 1), np.tile(np.array([0, 2], dtype=np.int32), n)
    good = [starts, labels, np.ones(2 * n), np.ones(2 * n), np.zeros(6)]
    loop = native.label_loop(native.Rows(X), *good, n_labels=3, **settings)
    for at, wrong in enumerate((starts[1:], labels[1:], np.ones(3), np.ones(3), np.zeros(5))):
        arrays = [*good[:at], wrong, *good[at + 1 :]]
        with pytest.raises(ValueError, match=r"starts|signs|costs|means"):
            native.label_loop(native.Rows(X), *arrays, n_labels=3, **settings)
    for n_labels in (0, 2):
        with pytest.raises(ValueError, match="labels"):
            native.label_loop(native.Rows(X), *good, n_labels=n_labels, **settings)
    with pytest.raises(ValueError, match="a has"):
        loop.set_duals(np.zeros(3))
    with pytest.raises(ValueError, match="to has"):
        loop.move_centre(np.zeros(4))


def test_cuts_are_climbed_over_arrays_that_fit():
    order, flags = np.array([[1, 0, 2]]), np.ones((1, 3), dtype=bool)
    settings = {"subsets": False, "rounds": 3, "worth": 0.0}
    member, reach = np.array([[False, True, False]]), np.array([3])
    native.climb_cuts(order, flags, member, flags, np.ones(3), reach, **settings)
    assert reach.tolist() == [1]  # the first in the order is the only member
    with pytest.raises(ValueError, match="order has an entry out of range"):
        native.climb_cuts(order + 1, flags, flags, flags, np.ones(3), reach, **settings)
    with pytest.raises(ValueError, match="reach has an entry out of range"):
        native.climb_cuts(order, flags, flags, flags, np.ones(3), np.array([4]), **settings)
    for k, name in enumerate(["ends", "member", "known"]):
        arrays = [flags, flags, flags]
        arrays[k] = flags[:, :2].copy()
        with pytest.raises(ValueError, match=f"{name} has another shape"):
            native.climb_cuts(order, *arrays, np.ones(3), reach, **settings)
    with pytest.raises(ValueError, match="weight has 2 entries, not 3"):
        native.climb_cuts(order, flags, flags, flags, np.ones(2), reach, **settings)


def test_kernel_arrays_are_checked():
    n, c = 10, 3
    S, a, y, cost, b = np.zeros((c, n)), np.zeros((n, c)), np.zeros(n, dtype=np.int32), np.ones(n), np.zeros(c)
    with pytest.raises(ValueError, match="y has an entry out of range"):
        native.kernel_gaps("simplex", S, a, y + np.int32(3), cost, b, np.zeros(n))
    with pytest.raises(ValueError, match="out has 9"):
        native.kernel_gaps("simplex", S, a, y, cost, b, np.zeros(n - 1))
    with pytest.raises(ValueError, match="numbers has an entry out of range"):
        native.gather(S, np.array([3]), np.array([0]), np.zeros((1, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="columns has an entry out of range"):
        native.gather(S, np.array([0]), np.array([-1]), np.zeros((1, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="numbers has an entry out of range"):
        native.add_rows(S, np.array([-1]), np.ones((1, c)), np.zeros((c, n)))
    with pytest.raises(ValueError, match="steps has another shape"):
        native.add_rows(S, np.array([0]), np.ones((1, c - 1)), np.zeros((c, n)))
    with pytest.raises(ValueError, match="S has another shape"):
        native.add_rows(S, np.array([0]), np.ones((1, c)), np.zeros((c, n - 1)))
