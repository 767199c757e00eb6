"""All machines on all data sets, tuned alike: no paper's table, but the question behind all of them."""

from polymargin import (
    M3SVC,
    AngularSVC,
    CrammerSingerSVC,
    LpNormSVC,
    MarginDistributionSVC,
    OneVsNoneSVC,
    WestonWatkinsSVC,
)
from polymargin.comparison import Candidate
from polymargin.comparison.candidates import LINEAR_CS
from polymargin.estimators.base import MarginClassifier

from . import machines as use
from .plan import Case, Paper, Table
from .reading import Results, against, few_splits

CS = tuple(float(C) for C in LINEAR_CS)


def machines(case: Case) -> list[Candidate]:
    """The linear candidates of `compare_machines`, with its grids; the margin distribution machine beside them."""
    Cs = CS if case.grid == "full" else CS[1:4]
    named: dict[str, type[MarginClassifier]] = {
        "Crammer-Singer": CrammerSingerSVC,
        "Weston-Watkins": WestonWatkinsSVC,
        "M3SVM": M3SVC,
        "lp norm": LpNormSVC,
        "AR-MSVM": AngularSVC,
        "One vs None": OneVsNoneSVC,
    }
    grids = {name: machine._grid for name, machine in named.items()}
    grids["M3SVM"] = {"p": (2, 4)}  # in the paper's scale, as it is printed
    found = [
        use.ours(machine, name, {**grids[name], "C": Cs}, tol=case.tol, **({"scale": "power"} if machine is M3SVC else {}))
        for name, machine in named.items()
    ]
    band = {"theta": (0.2, 0.6), "C": tuple(C / 10 for C in Cs)}
    return [
        use.one_vs_rest("one-vs-rest", Cs),
        use.one_vs_one("one-vs-one", Cs),
        use.logistic("logistic", Cs),
        *found,
        use.ours(MarginDistributionSVC, "mcODM", band, tol=case.tol),
    ]


JOINT = ("Crammer-Singer", "Weston-Watkins")
PROPOSED = ("M3SVM", "lp norm", "AR-MSVM", "One vs None", "mcODM")  # the five papers' machines


def reading(results: Results) -> list[str]:
    table, wide = results.table("alike"), results.table("wide")
    lines = [f"{name} against {against(results, table, name, ('Crammer-Singer', 'one-vs-one'))}." for name in PROPOSED]
    said = [
        "Do the five papers' machines beat the classical ones when all are solved and tuned alike? Better / not "
        "different / worse, counted over data sets by the corrected t-test:",
        *lines,
    ]
    if results.cases(wide):
        look = few_splits(results, wide, JOINT[0])
        said.append(f"Where do joint machines win? On text and embeddings{look}, the same counts (of sets with two splits):")
        binary = ("one-vs-one", "one-vs-rest", "logistic")
        said += [f"{name} against {against(results, wide, name, binary)}." for name in (*JOINT, *PROPOSED)]
    return said


PAPER = Paper(
    key="alike",
    title="All machines, tuned alike",
    source="the library's own comparison: one protocol for everybody",
    tables=(
        Table(
            key="alike",
            title="Accuracy of all machines",
            protocol="Five folds, up to two runs; columns standardised by the training folds; linear machines with an "
            "intercept; C of everybody from the same values, own parameters from two values each, chosen by folds inside "
            "the training folds.",
            cases=(
                Case("iris", 90),
                Case("wine", 90),
                Case("zoo", 90),
                Case("newthyroid", 90),
                Case("glass", 180),
                Case("dermatology", 180, scale="none"),
                Case("svmguide2", 120),
                Case("svmguide4", 180),
                Case("vehicle", 180),
                Case("vowel", 300),
                Case("yeast", 300),
                Case("winequality_red", 360),
                Case("segment", 360),
                Case("digits", 420, "coarse", inner=2),
                Case("dna", 420, "coarse", inner=2),
                Case("pageblocks", 480, "coarse", inner=2),
                Case("satimage", 540, "coarse", inner=2),
            ),
            machines=machines,
            splits=10,
            kind="folds",
            own=(),
        ),
        Table(
            key="wide",
            title="Text and embeddings",
            protocol="Five folds, of which so many have been run as the table says; rows as they are (tf-idf, sentence "
            "embeddings), linear machines with an intercept; C of everybody from the same values, own parameters from two "
            "values each, chosen by two folds inside the training folds.",
            cases=(
                Case("cornell", 240, "coarse", inner=2),
                Case("banking77_emb", 600, "coarse", inner=2, rows=2310),
                Case("news20", 480, "coarse", inner=2, rows=3000),
                Case("wordnet 60 classes", 400, "coarse", inner=2, rows=3000),
            ),
            machines=machines,
            splits=5,
            kind="folds",
            scale="none",
            own=(),
            notes={
                "banking77_emb": "77 classes, a stratified sample of 2,310 of 13,083 rows",
                "news20": "20 classes, a stratified sample of 3,000 of 18,846 rows",
                "wordnet 60 classes": "the 60 largest of 3,082 classes, a stratified sample of 3,000 rows",
                "cornell": "7 classes, 827 web pages",
            },
        ),
    ),
    reading=reading,
)
