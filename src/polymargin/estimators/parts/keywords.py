"""Keywords that a machine does not have: refused in its own name, with what to use instead."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Self

_ITS_CLASS = "the class of a machine says what it minimises"
_CHOSEN = "the solver is chosen by what the problem offers and by its size; leave it out"
_INSTEAD = {
    "dual": _CHOSEN,
    "solver": _CHOSEN,
    "loss": f"{_ITS_CLASS}; MarginSVC(loss=..., squared=True) takes any loss of margins",
    "penalty": f"{_ITS_CLASS}; MarginSVC(penalty='elastic_net' or 'group') leaves features out",
    "l1_ratio": f"{_ITS_CLASS}; MarginSVC(penalty='elastic_net', l1=...) mixes both norms",
    "multi_class": "all classes are fitted together; sklearn.multiclass.OneVsRestClassifier fits one machine a class",
    "decision_function_shape": "there is one score a class; sklearn.multiclass.OneVsOneClassifier compares pairs",
    "intercept_scaling": "the intercept is not a column of X; fit_intercept says whether there is one",
    "fit_intercept": "its offsets are part of it; biases='hard' or 'soft' says how they are held together",
    "break_ties": "the highest score wins, and ties go to the lower class; leave it out",
    "shrinking": "rows that have settled are always left alone; leave it out",
    "keep_on_interrupt": "on_interrupt='keep' keeps the machine found so far",
    "nu": "C weighs the loss; there is no bound on the share of support rows",
    "cache_size": "rows of the kernel matrix are kept as memory allows; leave it out",
}


class OwnKeywords:
    """Objects whose constructor refuses what it does not know, in the name of their own class."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        known, by_place = _parameters(cls.__init__)
        unknown = [name for name in kwargs if known is not None and name not in known]
        if unknown:
            raise TypeError(_refusal(cls.__name__, unknown[0], known))
        if by_place is not None and len(args) > len(by_place):
            raise TypeError(
                f"{cls.__name__} takes {' and '.join(by_place)} by position, and {len(args)} values were given: give the "
                "others by name."
            )
        return super().__new__(cls)


@cache
def _parameters(constructor: Any) -> tuple[Any, Any]:
    """The names that a constructor takes, and those of them by position; None for any."""
    known = list(inspect.signature(constructor).parameters.values())[1:]
    kinds = {p.kind for p in known}
    names = None if inspect.Parameter.VAR_KEYWORD in kinds else [p.name for p in known]
    by_place = [p.name for p in known if p.kind is p.POSITIONAL_OR_KEYWORD]
    return names, None if inspect.Parameter.VAR_POSITIONAL in kinds else by_place


def _refusal(machine: str, name: str, known: list[str]) -> str:
    if name in _INSTEAD:
        return f"{machine} has no parameter {name!r}: {_INSTEAD[name]}."
    from polymargin.tables.table import suggestion

    return f"{machine} has no parameter {name!r}" + (suggestion(name, known) or f": it has {', '.join(known)}.")
