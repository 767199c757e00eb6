"""The data sets, one small file each, and the seven cases (data set and C) of the linear benchmark."""

from functools import cache

from . import letter, mnist, news20, pendigits, satimage, small, usps
from .base import Case, Data

MODULES = {m.NAME: m for m in (news20, letter, pendigits, usps, satimage, mnist)}
CASES: dict[str, Case] = {
    case.key: case
    for case in (
        Case("news20", 1.0),
        Case("news20", 10.0),
        Case("letter", 1.0),
        Case("pendigits", 1.0),
        Case("usps", 0.1),
        Case("satimage", 1.0),
        Case("mnist", 0.01),
    )
}
QUICK: dict[str, Case] = {case.key: case for case in small.CASES}


@cache
def load(name: str) -> Data:
    """The real data set where its file is found, else its stand-in; kept for the process's life."""
    if name in small.MAKERS:
        return small.MAKERS[name]()
    module = MODULES[name]
    try:
        return module.real()
    except FileNotFoundError:
        return module.stand_in()


__all__ = ["CASES", "MODULES", "QUICK", "Case", "Data", "load"]
