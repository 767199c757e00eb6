"""lp-norm MC-SVM, Table 2 (Lei, Dogan, Binder & Kloft, NeurIPS 2015)."""

from scipy.stats import wilcoxon

from polymargin import CrammerSingerSVC, LpNormSVC
from polymargin.comparison import Candidate

from . import alike, chances
from . import machines as use
from .plan import Case, Paper, Printed, Table
from .reading import Results, against, by_set, by_split, listed
from .records import read

# The paper's grid is C = 2^-12, 2^-11, ..., 2^12 and p = 1.1, 1.2, ..., 2; ours are parts of it, and C goes on to its ends.
# For the same C a smaller p regularises more, so that small p need room upwards: "wide".
WIDE = (-2, 0, 2, 4, 6, 8)
CS = {"full": (-8, -4, -2, 0, 4, 8), "coarse": (-4, -2, 0, 2), "faces": (-9, -6, -3, 0), "wide": WIDE, "text": WIDE}
ALONE = {"text": (-2, 0, 2)}  # where C starts for p near 1, which takes minutes there and goes on by itself
PS = {"full": (1.1, 1.3, 1.6, 2.0)}
FEW_PS = (1.1, 1.5, 2.0)  # everywhere else
NEAR_ONE, CLASSES = 1.01, 77  # the most classes of a set with this p
PRINTED: Printed = {
    "sector": {"lp-norm MC-SVM": (94.20, 0.34), "Crammer & Singer": (93.89, 0.27)},
    "news20": {"lp-norm MC-SVM": (86.19, 0.12), "Crammer & Singer": (85.12, 0.29)},
    "rcv1": {"lp-norm MC-SVM": (85.74, 0.71), "Crammer & Singer": (85.21, 0.32)},
    "birds 15": {"lp-norm MC-SVM": (13.73, 1.4), "Crammer & Singer": (12.53, 1.6)},
    "birds 50": {"lp-norm MC-SVM": (27.86, 0.2), "Crammer & Singer": (26.28, 0.3)},
    "caltech 256": {"lp-norm MC-SVM": (56.00, 1.2), "Crammer & Singer": (54.96, 1.1)},
}


def machines(case: Case) -> list[Candidate]:
    Cs, alone = (tuple(2.0**k for k in powers) for powers in (CS[case.grid], ALONE.get(case.grid, CS[case.grid])))
    return [
        use.ours(CrammerSingerSVC, "Crammer & Singer", {"C": Cs}, tol=case.tol),
        use.ours(LpNormSVC, "lp-norm MC-SVM", {"p": PS.get(case.grid, FEW_PS), "C": Cs}, tol=case.tol),
        use.ours(LpNormSVC, f"p = {NEAR_ONE:g}", {"p": (NEAR_ONE,), "C": alone}, tol=case.tol),
    ]


def reading(results: Results) -> list[str]:
    table = results.table("table-2")
    pairs = [
        [results.cell(table, case, name) for name in ("lp-norm MC-SVM", "Crammer & Singer")] for case in results.cases(table)
    ]
    gains = [lp.mean - cs.mean for lp, cs in pairs if lp and cs]
    theirs = [row["lp-norm MC-SVM"][0] - row["Crammer & Singer"][0] for row in PRINTED.values()]
    test = f"p = {wilcoxon(gains).pvalue:.2f}" if len(gains) > 4 and any(gains) else "too few data sets"
    shown = f"{min(gains):+z.2f} to {max(gains):+z.2f}" if gains else "–"
    return [
        f"The paper says that the ℓp norm gains {min(theirs):.1f} to {max(theirs):.1f} points over Crammer & Singer on "
        f"every data set (Wilcoxon, p = {wilcoxon(theirs).pvalue:.2f}). Here it gains {shown} points, more than nothing on "
        f"{sum(g > 0 for g in gains)} of {len(gains)} data sets "
        f"(Wilcoxon: {test}).",
        "Better / not different / worse on so many data sets (corrected t-test): the ℓp norm against "
        f"{against(results, table, 'lp-norm MC-SVM', ('Crammer & Singer',))}.",
        "The bounds of the paper are best for p near 1, its experiments begin at 1.1. The sum of the norms itself, p = 1, "
        f"has a kink wherever a class vector is 0; `LpNormSVC` takes it, and p = {NEAR_ONE:g} stands for it here, "
        f"whose penalty is at most {100 * (1 - CLASSES ** (2 / NEAR_ONE - 2)):.0f} % smaller for up to {CLASSES} classes: "
        "against "
        f"{against(results, table, f'p = {NEAR_ONE:g}', ('lp-norm MC-SVM', 'Crammer & Singer'))}.",
        *_why_so_little(results, table),
        *_narrower_start(results, table),
        *_without_two(results),
        "Both machines are solved to the same gap here. Five of the paper's six data sets (sector, rcv1, two sets of "
        "birds, Caltech 256) are not to be had here. The paper's gain is largest on 200 classes with 15 to 50 rows each; "
        "the sets here that come nearest to them are wordnet (200 classes, 15 rows each on average) and banking77_emb (77 "
        "classes, 30 rows each), both samples.",
    ]


def _why_so_little(results: Results, table: Table) -> list[str]:
    """How often the same p, and how often the same accuracy, is behind a gain of nothing."""
    gaps = by_split(results, table, "lp-norm MC-SVM", "Crammer & Singer")
    plain = same = other = 0
    for case in results.cases(table):
        for record in results.records(table, case):
            gap = gaps.get(case.data, {}).get(record["split"])
            if record["machine"] == "lp-norm MC-SVM" and gap is not None:
                two, equal = record["params"]["p"] == 2.0, abs(gap) < 1e-9
                plain, same, other = plain + two, same + (equal and not two), other + (not equal and not two)
    if not plain + same + other:
        return []
    return [
        f"Where the small gains come from: of {plain + same + other} searches {plain} chose p = 2, which is Crammer & "
        f"Singer's machine once more, {same} a smaller p with the same accuracy to the last test row, and {other} a smaller "
        "p with another accuracy. Of equal scores the one with C nearest to the middle is taken, and among these the "
        "smallest p: a tie goes to p = 2 only where its C is the nearer one."
    ]


def _narrower_start(results: Results, table: Table) -> list[str]:
    """What the searches chose before C was given more room: their records are still in the file."""
    cases = {case.data: case for case in table.cases if CS[case.grid] == WIDE}
    now = {data: {record["settings"] for record in results.records(table, case)} for data, case in cases.items()}
    before = [
        record["params"]["p"]
        for record in read(results.directory / f"{results.paper.key}.jsonl")
        if record["data"] in cases and record["machine"] == "lp-norm MC-SVM" and "params" in record
        if "goes on by tens" in record["settings"] and record["settings"] not in now[record["data"]]
    ]
    if not before:
        return []
    return [
        f"The range of C was widened after a first look: on {listed(list(cases))} it started no higher than 4 before, and "
        f"{sum(p == 2.0 for p in before)} of {len(before)} searches chose p = 2 (their records are in the file, and in no "
        "table). At the same C a smaller p regularises more, so that range had favoured p = 2."
    ]


def _without_two(results: Results) -> list[str]:
    """The comparison of all machines, where p = 2 is not on offer."""
    common = Results(alike.PAPER, results.directory)
    said = []
    for key, where in (("alike", "small sets"), ("wide", "text and embeddings")):
        table = common.table(key)
        gaps = by_set(common, table, "lp norm", "Crammer-Singer")
        if gaps:
            most = max(gaps, key=lambda name: gaps[name])
            tests = against(common, table, "lp norm", ("Crammer-Singer",))
            said.append(f"on {where} against {tests}, the most, {gaps[most]:+z.1f}, on {most}")
    if not said:
        return []
    return [
        f"Where p is 1.2 or 1.5 and never 2 ([all machines, tuned alike](alike.md)): {'; '.join(said)}. C goes by tens "
        "there, so that a second parameter may also serve as a finer choice of the regularisation."
    ]


TRIED = {
    ("table-2", "news20"): (
        "Likely: another file of the collection, tf-idf of the by-date messages, fewer words. Tried: a C that grows, and "
        "three values of p; the Crammer–Singer machine on the same rows is as far from its printed number."
    ),
}

PAPER = Paper(
    key="lp_norm",
    title="ℓp-norm MC-SVM: from tighter data-dependent generalization bounds to novel algorithms",
    source="Y. Lei, Ü. Dogan, A. Binder, M. Kloft, NeurIPS 2015, Table 2",
    tables=(
        Table(
            key="table-2",
            title="Table 2",
            protocol="Up to ten random 80/20 splits (stratified; the paper's share on news20), C and p by cross-validation "
            "inside the training rows; p = 2, which is Crammer & Singer's machine, is one of the values. Dense columns "
            "standardised by the training rows. Of the paper's six sets only news20 is to be had here, as another file; the "
            f"others are sets with more than ten classes. {chances.GROWTH} At one C a smaller p regularises more, for c "
            "classes by up to c^(2/p − 1) times: C of all starts up to 256 on the sets where small p would not have room "
            "otherwise.",
            cases=(
                Case("orl", 450),
                Case("isolet", 450, "coarse"),
                Case("letter", 900, "wide", inner=2, rows=4000, leave_out=(f"p = {NEAR_ONE:g}",)),
                Case("yaleb", 1200, "faces", inner=2),
                Case("news20", 900, "text"),
                Case("banking77_emb", 600, "wide", inner=2, rows=2310, scale="none"),
                Case("wordnet 200 classes", 850, "wide", inner=2, rows=3000, leave_out=(f"p = {NEAR_ONE:g}",)),
            ),
            machines=machines,
            splits=10,
            grows=(2.0**-12, 2.0**12),
            own=("lp-norm MC-SVM",),
            printed={"accuracy": PRINTED},
            unit=100.0,
            notes={
                "banking77_emb": "sentence embeddings as they are, a stratified sample of 2,310 of 13,083 rows",
                "wordnet 200 classes": "the 200 largest of 3,082 classes, a stratified sample of 3,000 rows; "
                f"p = {NEAR_ONE:g} is left out",
                "letter": f"a stratified sample of 4,000 of 20,000 rows; p = {NEAR_ONE:g} is left out, a fit takes minutes",
                "news20": "tf-idf of the by-date collection with headers, 18,846 rows; the paper's is LIBSVM's file, "
                f"19,928; C of p = {NEAR_ONE:g} starts from fewer values, 0.25 to 4",
            },
        ),
    ),
    reading=reading,
    tried=TRIED,
)
