"""The data sets, by storage, and the cases (data set and C) of the linear benchmark.

Some are never tuned on: of the sets that no goal names and that no earlier version was tuned on, in the order of this
list, the first two of every three. They are over a third of all cases, and their ratios are reported apart.
"""

from functools import cache

from . import dense, small, stored_sparse
from .base import Case, Data

SETS = {**dense.SETS, **stored_sparse.SETS}
_KNOWN = (
    Case("news20", 1.0),
    Case("news20", 10.0),
    Case("letter", 1.0),
    Case("pendigits", 1.0),
    Case("usps", 0.1),
    Case("satimage", 1.0),
    Case("mnist", 0.01),
    Case("banking77_emb", 1.0),
    Case("banking77_emb", 10.0),
    Case("wordnet", 1.0),
)
_OTHERS = (
    Case("fashion_mnist", 0.01),
    Case("isolet", 0.1),
    Case("connect4", 1.0),
    Case("shuttle", 10.0),
    Case("segment", 10.0),
    Case("vowel", 10.0),
    Case("dna", 0.1),
    Case("digits", 0.1),
    Case("yaleb", 0.01),
    Case("orl", 0.01),
    Case("cornell", 1.0),
    Case("bibtex_ml", 1.0),
    Case("kddcup", 1.0),
)
CASES: dict[str, Case] = {case.key: case for case in (*_KNOWN, *_OTHERS)}
HELD_BACK = frozenset(case.key for k, case in enumerate(_OTHERS) if k % 3 < 2)
QUICK: dict[str, Case] = {case.key: case for case in small.CASES}


@cache
def load(name: str) -> Data:
    """The real data set where its file is found, else its stand-in; kept for the process's life."""
    if name in small.MAKERS:
        return small.MAKERS[name]()
    source = SETS[name]
    try:
        return source.real()
    except FileNotFoundError:
        return source.stand_in()


__all__ = ["CASES", "HELD_BACK", "QUICK", "SETS", "Case", "Data", "load"]
