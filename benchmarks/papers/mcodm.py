"""mcODM, Table 2 (Zhang & Zhou, ICML 2017)."""

import math

from polymargin import CrammerSingerSVC, MarginDistributionSVC
from polymargin.comparison import Candidate
from polymargin.datasets.known import KNOWN

from . import arithmetic, chances
from . import machines as use
from .plan import LIMITS, Case, Paper, Printed, Reason, Table
from .reading import (
    Results,
    against,
    by_split,
    difference,
    few_splits,
    listed,
    mean_of,
    most_printed,
    printed_of,
    spread_of,
    standing,
)

# The paper's grid is 2^0, 2^2, ..., 2^20 and 0.2, 0.4, 0.6, 0.8 for mu and theta; ours start from parts of it.
POWERS = {"full": (0, 4, 8, 12, 16, 20), "coarse": (0, 5, 10), "coarsest": (0, 6)}
BANDS = {"full": (0.2, 0.6), "coarse": (0.2, 0.6), "coarsest": (0.4,)}
VARIANTS = ("mcODM, paper's steps", "mcSVM, intercept", "mcODM, intercept")  # not in the paper's table
MACHINES = ("mcSVM", "ovaSVM", "ovoSVM", "ecocSVM", "mcODM")
# With two or three values only, they are moved to where they matter: powers added to C, and to lambda of mcODM.
SHIFT = {"news20": -4, "mnist": -4, "connect4": -4, "usps": -2, "shuttle": 4}
ODM_SHIFT = {"letter": 4, "shuttle": 6}


def _row(*cells: float) -> dict[str, tuple[float, float | None]]:
    return {name: (cells[2 * k], cells[2 * k + 1]) for k, name in enumerate(MACHINES) if cells[2 * k]}


# fmt: off
PRINTED: Printed = {
    "iris": _row(84.7, 5.0, 82.0, 5.0, 73.0, 7.1, 73.3, 4.2, 87.3, 3.4),
    "wine": _row(96.5, 2.6, 97.0, 2.4, 96.8, 3.1, 91.6, 2.7, 98.4, 1.9),
    "glass": _row(62.0, 7.6, 57.8, 2.1, 62.4, 6.0, 60.4, 4.0, 68.2, 7.3),
    "svmguide2": _row(80.9, 2.6, 81.5, 2.3, 74.6, 5.4, 79.0, 3.6, 84.1, 1.8),
    "svmguide4": _row(86.6, 3.2, 77.2, 3.1, 77.1, 6.9, 74.2, 4.3, 87.8, 3.5),
    "vehicle": _row(80.5, 2.1, 78.5, 2.9, 73.5, 3.5, 76.9, 2.5, 85.6, 6.6),
    "vowel": _row(65.4, 2.1, 44.1, 2.6, 71.1, 4.9, 43.1, 2.0, 65.6, 3.9),
    "segment": _row(95.3, 0.9, 92.3, 0.7, 93.2, 2.2, 90.7, 0.8, 96.7, 1.3),
    "dna": _row(95.1, 0.6, 95.1, 0.7, 93.0, 1.0, 90.9, 1.1, 95.6, 0.7),
    "satimage": _row(81.8, 0.5, 80.1, 0.7, 77.4, 4.2, 76.0, 1.4, 89.1, 8.0),
    "usps": _row(95.1, 0.3, 94.2, 0.3, 94.5, 0.6, 92.3, 0.7, 95.1, 0.6),
    "pendigits": _row(94.8, 0.3, 91.8, 0.5, 95.7, 0.8, 87.6, 0.7, 96.7, 0.9),
    "news20": _row(83.3, 0.3, 83.0, 0.3, 69.4, 0.4, 0, 0, 83.6, 0.3),
    "letter": _row(76.9, 0.4, 64.9, 1.0, 75.7, 1.2, 0, 0, 82.7, 1.6),
    "shuttle": _row(97.2, 0.1, 89.9, 2.8, 97.4, 0.1, 84.2, 0.0, 99.6, 0.0),
    "connect4": _row(75.7, 0.1, 75.7, 0.1, 75.7, 0.2, 75.1, 0.2, 94.4, 7.6),
    "mnist": _row(92.5, 0.2, 91.5, 0.2, 90.9, 0.5, 87.6, 0.2, 95.2, 0.3),
}
# fmt: on


def machines(case: Case) -> list[Candidate]:
    """The paper's lambda / m is C of mcODM, with m training rows; C of the others is 2^0, ... itself. No intercept."""
    powers, bands = POWERS[case.grid], BANDS[case.grid]
    training_rows = 0.8 * (case.rows or KNOWN[case.data].rows)
    Cs = tuple(2.0 ** (k + SHIFT.get(case.data, 0)) for k in powers)
    band = {"theta": bands, "mu": bands, "C": tuple(2.0**k / training_rows for k in _odm_powers(case))}
    common = {"fit_intercept": False, "tol": case.tol}
    found = [
        use.ours(CrammerSingerSVC, "mcSVM", {"C": Cs}, **common),
        use.one_vs_rest("ovaSVM", Cs, fit_intercept=False),
        use.one_vs_one("ovoSVM", Cs, fit_intercept=False),
        use.ours(MarginDistributionSVC, "mcODM", band, **common),
        use.ours(MarginDistributionSVC, "mcODM, paper's steps", band, relaxation="paper", **common),
    ]
    if KNOWN[case.data].classes <= use.CODE_CLASSES:
        found.insert(3, use.output_codes("ecocSVM", Cs, fit_intercept=False))
    if case.grid == "full":
        free = {"tol": case.tol}
        found.append(use.ours(CrammerSingerSVC, "mcSVM, intercept", {"C": Cs}, **free))
        found.append(use.ours(MarginDistributionSVC, "mcODM, intercept", band, **free))
    return found


def whole_grid(case: Case) -> list[Candidate]:
    """What was tried to reach the printed numbers: all values of the paper's grid."""
    powers, bands = range(0, 21, 2), (0.2, 0.4, 0.6, 0.8)
    training_rows = 0.8 * KNOWN[case.data].rows
    Cs = tuple(2.0**k for k in powers)
    band = {"theta": bands, "mu": bands, "C": tuple(C / training_rows for C in Cs)}
    common = {"fit_intercept": False, "tol": case.tol}
    return [
        use.ours(CrammerSingerSVC, "mcSVM", {"C": Cs}, **common),
        use.ours(MarginDistributionSVC, "mcODM", band, **common),
    ]


def equal(case: Case) -> list[Candidate]:
    """With lambda / m of the paper as C, its smallest lambda, 1, is inside of the range for up to 10,000 rows."""
    Cs, common = chances.CS, {"tol": case.tol}
    return [
        use.ours(CrammerSingerSVC, "mcSVM", {"C": Cs}, **common),
        use.one_vs_rest("ovaSVM", Cs),
        use.one_vs_one("ovoSVM", Cs),
        use.ours(MarginDistributionSVC, "mcODM", {"theta": (0.2, 0.6), "mu": (0.2, 0.8), "C": Cs}, **common),
    ]


def symmetric(case: Case) -> list[Candidate]:
    """The paper's machines without our variants of them."""
    return [one for one in machines(case) if one.name not in VARIANTS]


def starts(case: Case) -> list[Candidate]:
    grid, common = {"C": (0.01, 1.0, 100.0)}, {"theta": 0.2, "mu": 0.2, "fit_intercept": False, "tol": case.tol}
    return [
        use.ours(MarginDistributionSVC, "mcODM", grid, **common),
        use.ours(MarginDistributionSVC, "mcODM, 8 starts", grid, n_starts=8, **common),
    ]


def on_own_rows(case: Case) -> list[Candidate]:
    """As much as a linear machine can have on the rows it was fitted to."""
    Cs = (0.01, 1.0, 100.0)
    band, free = {"theta": (0.2, 0.6), "mu": (0.2,), "C": Cs}, {"fit_intercept": False, "tol": case.tol}
    return [
        use.ours(MarginDistributionSVC, "mcODM", band, **free),
        use.ours(MarginDistributionSVC, "mcODM, intercept", band, tol=case.tol),
        use.ours(CrammerSingerSVC, "mcSVM, intercept", {"C": Cs}, tol=case.tol),
    ]


def _odm_powers(case: Case) -> tuple[int, ...]:
    """Divided by the rows the small powers are next to nothing: with few values, take large ones."""
    powers = {"full": POWERS["full"], "coarse": (8, 12, 16), "coarsest": (10, 14)}[case.grid]
    return tuple(k + ODM_SHIFT.get(case.data, 0) for k in powers)


def reading(results: Results) -> list[str]:
    table, fair = results.table("table-2"), results.table("equal")
    theirs = [
        record
        for case in results.cases(table)
        for record in results.records(table, case)
        if record["machine"] == "mcODM, paper's steps" and "status" in record
    ]
    ends = {status: sum(record["status"] == status for record in theirs) for status in ("stalled", "max_iter")}
    two = difference(results, table, "mcODM", "mcODM, paper's steps")
    free, machine = difference(results, table, "mcSVM, intercept", "mcSVM"), difference(results, table, "mcODM", "mcSVM")
    both = difference(results, table, "mcODM, intercept", "mcSVM, intercept")
    odd = ("satimage", "vehicle")  # their printed deviations are
    rows = [math.ceil(0.2 * KNOWN[data].rows) for data in odd]
    moved = [arithmetic.deviation(PRINTED[data]["mcODM"][0], n) for data, n in zip(odd, rows, strict=True)]
    iris = [mean_of(results, "table-2", "iris", name) for name in ("mcSVM", "mcSVM, intercept")]
    return [
        "The paper says that mcODM is the best machine on 20 of 22 data sets and never significantly worse than another. "
        "With equal chances (one range of C for all, scaling and intercept chosen) it has "
        f"{standing(results, fair, 'mcODM')}; in [0, 1] without intercept, from parts of the paper's grid on, "
        f"{standing(results, table, 'mcODM', leave_out=VARIANTS)}.",
        "Equal chances, better / not different / worse on so many data sets (corrected t-test): mcODM against "
        f"{against(results, fair, 'mcODM', ('mcSVM', 'ovaSVM', 'ovoSVM'))}.",
        "Better / not different / worse on so many data sets (corrected t-test): mcODM against "
        f"{against(results, table, 'mcODM', ('mcSVM', 'ovaSVM', 'ovoSVM', 'ecocSVM'))}. The paper: 17/5/0, 19/3/0, 18/3/0, "
        "17/0/0 on up to 22 sets, by the plain test.",
        "No machine of the paper seems to have an intercept: mcSVM is printed with "
        f"{printed_of(results, 'table-2', 'iris', 'mcSVM')} % on iris, and has {iris[0]} here without one, "
        f"{iris[1]} with one. Adding it to mcSVM changes the accuracy by {free[0]:+z.1f} points on average over "
        f"{free[1]} small sets; going from mcSVM to mcODM by {machine[0]:+z.1f} over {machine[1]} sets without "
        f"intercepts, and by {both[0]:+z.1f} over {both[1]} sets with them.",
        f"The iteration that the paper prints need not lower its objective: {sum(ends.values())} of its {len(theirs)} "
        f"searches end with a machine that has not settled ({ends['stalled']} after twenty rounds without a better one, "
        f"{ends['max_iter']} at the limit of iterations). Ours, which descends, differs from it by {two[0]:+z.1f} points "
        f"on average over {two[1]} sets, most on {_farthest(results, table)}.",
        f"connect-4 is printed with {_beside_others(results, 'connect4')}: no linear machine here comes near. satimage with "
        f"{_beside_others(results, 'satimage')} and vehicle with {printed_of(results, 'table-2', 'vehicle', 'mcODM', True)} "
        f"have deviations that chance does not give: with {rows[0]:,} and {rows[1]:,} test rows it moves an accuracy by "
        f"{moved[0]:.1f} and {moved[1]:.1f} points from split to split.",
    ]


def _beside_others(results: Results, data: str) -> str:
    """What the paper prints for mcODM, and beside it the best of the others and what mcODM has here."""
    others = most_printed(PRINTED, data, 100.0, leave_out=("mcODM",))
    here = mean_of(results, "table-2", data, "mcODM")
    return f"{printed_of(results, 'table-2', data, 'mcODM', True)} (all others at most {others}; here {here})"


def _farthest(results: Results, table: Table, count: int = 2) -> str:
    """The splits on which the two iterations differ most, and how the paper's steps ended there."""
    gaps = by_split(results, table, "mcODM", "mcODM, paper's steps")
    apart = sorted(
        ((gap, data, s) for data, found in gaps.items() for s, gap in found.items()), key=lambda one: -abs(one[0])
    )
    endings = {
        (case.data, record["split"]): record.get("status", "")
        for case in results.cases(table)
        for record in results.records(table, case)
        if record["machine"] == "mcODM, paper's steps"
    }
    return listed([f"split {s + 1} of {data} ({gap:+z.1f}, {endings[data, s]})" for gap, data, s in apart[:count]])


def _on_own_rows(results: Results, data: str) -> str:
    """What mcODM has on the rows it was fitted to, with an intercept too where that was run; empty without records."""
    plain, free = (mean_of(results, "own-rows", data, name) for name in ("mcODM", "mcODM, intercept"))
    with_one = "" if free == "–" else f"{free} with an intercept; "
    return "" if plain == "–" else f"{data} {plain} ({with_one}printed {PRINTED[data]['mcODM'][0]:.1f})"


def reasons(results: Results) -> list[Reason]:
    own = [said for data in ON_OWN_ROWS if (said := _on_own_rows(results, data))]
    symmetric = [
        f"{data} {spread_of(results, 'symmetric', data, 'mcODM')} (in [0, 1] "
        f"{spread_of(results, 'table-2', data, 'mcODM')}, printed {PRINTED[data]['mcODM'][0]:.1f} ± "
        f"{PRINTED[data]['mcODM'][1]:.1f})"
        for data in ("iris", "wine")
    ]
    gain, sets = difference(results, results.table("starts"), "mcODM, 8 starts", "mcODM")
    found = [
        Reason(
            "Likely",
            "These are not test accuracies of the paper's Eq. 1 with a linear kernel in [0, 1]. With the best C and θ for "
            f"the very rows it is tested on mcODM has {listed(own)}. The minimum is a local one, so this is no proof.",
        ),
        Reason(
            "Likely",
            "iris and wine fit features in [−1, 1] better than in [0, 1], which the paper states: without an intercept "
            f"mcODM has {listed(symmetric)} there.",
        ),
    ]
    if sets:
        found.append(
            Reason(
                "Open",
                "Whether the local minimum is to blame: the best of eight starts in place of one changes the test accuracy "
                f"by {gain:+z.2f} points on average over {sets} sets"
                f"{few_splits(results, results.table('starts'), 'mcODM, 8 starts')}.",
            )
        )
    found.append(
        Reason(
            "Open",
            f"mnist is printed with {PRINTED['mnist']['mcODM'][0]:.1f}; only a sample was run, which has "
            f"{mean_of(results, 'table-2', 'mnist', 'mcODM')}. segment is printed with "
            f"{PRINTED['segment']['mcODM'][0]:.1f}, and has {mean_of(results, 'table-2', 'segment', 'mcODM')}; "
            f"tested on its training rows with the best C and θ, {mean_of(results, 'own-rows', 'segment', 'mcODM')}.",
        )
    )
    return found


ON_OWN_ROWS = ("connect4", "letter", "satimage", "shuttle", "pendigits", "vehicle")  # printed above what ours has there
IN_MINUS_ONE = "Likely: the features were in [−1, 1] (see the reasons)."
NOT_EQ_1 = "Likely: this is not Eq. 1 with a linear kernel in [0, 1] (see the reasons)."
TRIED = {
    **{(key, data): IN_MINUS_ONE for key in ("table-2", "table-2-tried", "starts") for data in ("iris", "wine")},
    **{(key, data): NOT_EQ_1 for key in ("table-2", "starts", "symmetric") for data in ON_OWN_ROWS},
    ("equal", ""): (
        "Open: tried were one range of C for all, θ and μ at two values each, three scalings, an intercept or none, chosen "
        "inside the training rows."
    ),
    ("symmetric", ""): "Open: [−1, 1] without intercept, from the paper's values of λ on, does not lead there.",
    ("starts", ""): "Open: eight starts in place of one do not lead there.",
    (
        "table-2-tried",
        "",
    ): "Open. This is what was tried: the paper's whole grid, and λ beyond it. It does not lead there either.",
    ("table-2", ""): (
        "Open. Tried: both iterations, λ from the paper's range and beyond, θ and μ at several of its values, on small sets "
        "also an intercept; on three sets the whole grid (the table of what was tried). Our iteration ends stationary (see "
        "how the fits ended), the paper's own not always."
    ),
    ("table-2", "connect4"): (
        "Likely: this is not Eq. 1 with a linear kernel (see the reasons, and all other linear machines in the table above)."
    ),
    ("table-2", "satimage"): (f"{NOT_EQ_1} Its deviation of 8 points cannot come from 1,287 test rows."),
    ("table-2", "mnist"): "Open. A sample of 10,000 of 70,000 rows, less than in the paper; λ goes on from two values.",
    ("table-2", "news20"): "Open. Another file of the collection (see above); λ goes on from two values.",
}

PAPER = Paper(
    key="mcodm",
    title="mcODM: multi-class optimal margin distribution machine",
    source="T. Zhang, Z.-H. Zhou, ICML 2017, Table 2",
    tables=(
        Table(
            key="table-2",
            title="Table 2",
            protocol="Up to ten random 80/20 splits (stratified), features scaled to [0, 1] by the training rows, no "
            f"intercept. {chances.GOES_ON} C, μ and θ by cross-validation inside the training rows. `mcODM` descends by the "
            "concave–convex procedure; `mcODM, paper's steps` is the iteration the paper prints. ecocSVM has all 2^(k−1) − "
            "1 codes, up to seven classes.",
            cases=(
                Case("iris", 120),
                Case("wine", 120),
                Case("svmguide2", 120),
                Case("glass", 180),
                Case("svmguide4", 240),
                Case("vehicle", 240),
                Case("vowel", 300),
                Case("segment", 600, leave_out=("mcODM, intercept", "mcSVM, intercept")),
                Case("dna", 290, "coarse"),
                Case("satimage", 600, "coarse", inner=2),
                Case("usps", 1200, "coarse", inner=2),
                Case("pendigits", 600, "coarse", inner=2),
                Case("letter", 1200, "coarse", inner=2),
                Case("news20", 600, "coarsest", inner=2),
                Case("shuttle", 600, "coarsest", inner=2),
                Case("connect4", 600, "coarsest", inner=2, rows=20_000),
                Case("mnist", 1200, "coarsest", inner=2, rows=10_000),
            ),
            machines=machines,
            splits=10,
            grows=LIMITS,
            scale="unit",
            own=("mcODM", "mcODM, paper's steps"),
            printed={"accuracy": PRINTED},
            same_as={"mcODM, paper's steps": "mcODM"},
            unit=100.0,
            notes={
                "news20": "tf-idf of the by-date collection with headers, 18,846 rows; the paper's is LIBSVM's file, 19,928",
                "connect4": "a stratified sample of 20,000 of 67,557 rows",
                "mnist": "a stratified sample of 10,000 of 70,000 rows",
            },
        ),
        Table(
            key="table-2-tried",
            title="Table 2, what was tried",
            protocol="As above, from every value of the paper's grid on (176 for mcODM), with five folds inside the "
            "training rows.",
            cases=tuple(Case(name, 240, inner=5) for name in ("iris", "wine", "svmguide2")),
            machines=whole_grid,
            splits=10,
            grows=LIMITS,
            scale="unit",
            own=("mcODM",),
            printed={"accuracy": PRINTED},
            unit=100.0,
        ),
        Table(
            key="equal",
            title="Equal chances",
            protocol=f"Random 80/20 splits (stratified). {chances.STATED} mcODM may have θ of .2 or .6 and μ of .2 or .8.",
            cases=(
                Case("iris", 100),
                Case("wine", 100),
                Case("svmguide2", 150),
                Case("glass", 180),
                Case("vehicle", 220),
                *(Case(name, 1200) for name in ("svmguide4", "vowel", "segment")),
                *(Case(name, 2400, inner=2) for name in ("dna", "satimage", "usps", "pendigits", "letter")),
            ),
            machines=equal,
            splits=10,
            grows=LIMITS,
            scalings=("unit", "symmetric", "standard"),
            own=("mcODM",),
            printed={"accuracy": PRINTED},
            unit=100.0,
            only_run=True,
        ),
        Table(
            key="symmetric",
            title="Table 2 in [−1, 1]",
            protocol="As Table 2, with features scaled to [−1, 1] in place of [0, 1]; no intercept, from the paper's values "
            f"of C and λ on. {chances.GOES_ON}",
            cases=tuple(Case(name, 90) for name in ("iris", "wine", "svmguide2", "glass")),
            machines=symmetric,
            splits=10,
            grows=LIMITS,
            scale="symmetric",
            own=("mcODM",),
            printed={"accuracy": PRINTED},
            unit=100.0,
            only_run=True,
        ),
        Table(
            key="starts",
            title="More starts",
            protocol="As Table 2, with θ = μ = .2, from one start and from eight, of which the lowest end is kept. "
            f"{chances.GROWTH}",
            cases=tuple(Case(name, 150) for name in ("iris", "glass", "svmguide4", "vehicle")),
            machines=starts,
            splits=10,
            grows=LIMITS,
            scale="unit",
            own=("mcODM", "mcODM, 8 starts"),
            printed={"accuracy": PRINTED},
            same_as={"mcODM, 8 starts": "mcODM"},
            unit=100.0,
            only_run=True,
        ),
        Table(
            key="own-rows",
            title="Tested on the training rows",
            protocol="All rows for training, and the same rows for testing, in [0, 1]; the best C and θ **for these rows**. "
            f"{chances.GROWTH} A test accuracy above these is not to be expected of this machine.",
            cases=(
                Case("vehicle", 60),
                Case("segment", 60),
                Case("pendigits", 120),
                Case("satimage", 240),
                Case("shuttle", 300, leave_out=("mcODM, intercept", "mcSVM, intercept")),
                Case("connect4", 300, rows=20_000),
                Case("letter", 480),
            ),
            machines=on_own_rows,
            splits=1,
            kind="all",
            choice="test",
            grows=LIMITS,
            scale="unit",
            own=("mcODM",),
            printed={"accuracy": PRINTED},
            same_as={"mcODM, intercept": "mcODM"},
            unit=100.0,
            only_run=True,
            notes={"connect4": "a stratified sample of 20,000 of 67,557 rows"},
        ),
    ),
    reading=reading,
    tried=TRIED,
    reasons=reasons,
)
