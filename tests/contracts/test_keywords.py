"""Parameters that a machine does not have: refused in its own name, with what to use instead."""

import copy
import inspect
import pickle

import pytest
from registry import all_estimators
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from polymargin import M3SVC, OneVsNoneSVC

MACHINES = all_estimators()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("theirs", [LinearSVC, SVC, LogisticRegression])
def test_every_keyword_of_scikit_learn_is_known_or_refused_with_a_way_out(machine, theirs):
    ours = inspect.signature(machine).parameters
    for name in inspect.signature(theirs).parameters:
        if name in ours or name == "probability":
            continue
        with pytest.raises(TypeError, match=rf"^{machine.__name__} has no parameter '{name}': \w") as error:
            machine(**{name: None})
        assert "it has C," not in str(error.value)  # not the list of all, but a sentence of its own


@pytest.mark.parametrize("machine", MACHINES)
def test_a_typo_names_the_machine_and_the_nearest_parameter(machine):
    with pytest.raises(TypeError, match=rf"^{machine.__name__} has no parameter 'max_itr'; did you mean 'max_iter'\?$"):
        machine(max_itr=3)
    with pytest.raises(TypeError, match=rf"^{machine.__name__} has no parameter 'zzz': it has C, .*on_interrupt"):
        machine(zzz=3)
    with pytest.raises(TypeError, match=rf"^{machine.__name__} takes C by position, and 2 values were given"):
        machine(1.0, "rbf")


def test_other_words_for_our_parameters():
    with pytest.raises(TypeError, match=r"^M3SVC has no parameter 'c'; did you mean 'C'\?$"):
        M3SVC(c=3)
    with pytest.raises(TypeError, match=r"^M3SVC has no parameter 'keep_on_interrupt': on_interrupt='keep'"):
        M3SVC(keep_on_interrupt=True)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_builds_machines_still_does(machine):
    one = machine(2.0, tol=1e-3)
    for other in (clone(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one)), machine(**one.get_params())):
        assert other.get_params() == one.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'dual'"):
        one.set_params(dual=True)


def test_subclasses_have_the_parameters_of_their_machine():
    class Mine(M3SVC):
        def __init__(self, C=1.0, *, mine=0, **common):
            super().__init__(C, **common)
            self.mine = mine

    assert Mine(p=2, mine=1, tol=1e-3).get_params() | {"p": 2, "mine": 1} == Mine(p=2, mine=1, tol=1e-3).get_params()
    with pytest.raises(TypeError, match=r"^Mine has no parameter 'dual'"):
        Mine(dual=True)


def test_the_offsets_of_one_versus_none_are_part_of_it():
    with pytest.raises(TypeError, match=r"^OneVsNoneSVC has no parameter 'fit_intercept': its offsets are part of it"):
        OneVsNoneSVC(fit_intercept=False)
