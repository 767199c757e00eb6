"""All machines on all data sets, tuned alike: no paper's table, but the question behind all of them."""

from typing import Any

from polymargin import (
    M3SVC,
    AngularSVC,
    CrammerSingerSVC,
    LpNormSVC,
    MarginDistributionSVC,
    MarginSVC,
    OneVsNoneSVC,
    TopKSVC,
    WestonWatkinsSVC,
)
from polymargin.comparison import Candidate

from . import chances
from . import machines as use
from .plan import LIMITS, Case, Paper, Table
from .reading import Results, against, few_splits

OURS: dict[str, tuple[Any, dict[str, Any], dict[str, tuple[Any, ...]]]] = {  # the machine, what is fixed, what is chosen
    "Crammer-Singer": (CrammerSingerSVC, {}, {}),
    "Weston-Watkins": (WestonWatkinsSVC, {}, {}),
    "Crammer-Singer squared": (MarginSVC, {"loss": "crammer_singer", "squared": True}, {}),
    "Weston-Watkins squared": (MarginSVC, {"loss": "weston_watkins", "squared": True}, {}),
    "top-2": (TopKSVC, {"k": 2}, {}),
    "M3SVM": (M3SVC, {}, {"p": (2, 4)}),
    "lp norm": (LpNormSVC, {}, {"p": (1.2, 1.5)}),
    "AR-MSVM": (AngularSVC, {}, {"omega": (0.1, 1.0)}),
    "One vs None": (OneVsNoneSVC, {}, {"alpha": (0.0, 0.5)}),
    "mcODM": (MarginDistributionSVC, {}, {"theta": (0.2, 0.6)}),
}


def machines(case: Case) -> list[Candidate]:
    """Linear machines of the library and of scikit-learn, each with C and at most two values of a parameter of its own."""
    Cs = chances.CS if case.grid == "full" else chances.CS[1:4]
    return [
        use.one_vs_rest("one-vs-rest", Cs),
        use.one_vs_one("one-vs-one", Cs),
        use.logistic("logistic", Cs),
        *(
            use.ours(machine, name, {**chosen, "C": Cs}, tol=case.tol, **fixed)
            for name, (machine, fixed, chosen) in OURS.items()
        ),
    ]


JOINT = ("Crammer-Singer", "Weston-Watkins")
NEW = (
    "Crammer-Singer squared",
    "Weston-Watkins squared",
    "top-2",
)  # members of the family without a paper of their own here
PROPOSED = ("M3SVM", "lp norm", "AR-MSVM", "One vs None", "mcODM")  # the five papers' machines


def reading(results: Results) -> list[str]:
    table, wide = results.table("alike"), results.table("wide")
    lines = [f"{name} against {against(results, table, name, ('Crammer-Singer', 'one-vs-one'))}." for name in PROPOSED]
    new = [f"{name} against {against(results, table, name, ('Crammer-Singer', 'one-vs-one'))}." for name in NEW]
    said = [
        "Do the five papers' machines beat the classical ones when all are solved and tuned alike? Better / not "
        "different / worse, counted over data sets by the corrected t-test:",
        *lines,
        "The same for other members of the family, squared losses and the top-2 hinge:",
        *new,
    ]
    if results.cases(wide):
        look = few_splits(results, wide, JOINT[0])
        said.append(f"Where do joint machines win? On text and embeddings{look}, the same counts:")
        binary = ("one-vs-one", "one-vs-rest", "logistic")
        said += [f"{name} against {against(results, wide, name, binary)}." for name in (*JOINT, *NEW, *PROPOSED)]
    return said


GROWTH = f"{chances.SAME_START} {chances.APART}"

PAPER = Paper(
    key="alike",
    title="All machines, tuned alike",
    source="The library's own comparison: one protocol for everybody",
    tables=(
        Table(
            key="alike",
            title="Accuracy of all machines",
            protocol="Five folds, up to two runs; columns standardised by the training folds; linear machines with an "
            f"intercept. {GROWTH} Own parameters have two values at most. All are chosen by folds inside the "
            "training folds.",
            cases=(
                Case("iris", 180),
                Case("wine", 180),
                Case("zoo", 180),
                Case("newthyroid", 180),
                Case("glass", 360),
                Case("dermatology", 360, scale="none"),
                Case("svmguide2", 240),
                Case("svmguide4", 360),
                Case("vehicle", 360),
                Case("vowel", 600),
                Case("yeast", 600),
                Case("winequality_red", 720),
                Case("segment", 720),
                Case("digits", 840, "coarse", inner=2),
                Case("dna", 840, "coarse", inner=2),
                Case("pageblocks", 960, "coarse", inner=2),
                Case("satimage", 1080, "coarse", inner=2),
            ),
            machines=machines,
            splits=10,
            kind="folds",
            grows=LIMITS,
            apart=True,
            own=(),
        ),
        Table(
            key="wide",
            title="Text and embeddings",
            protocol="Five folds, of which so many have been run as the table says; rows as they are (tf-idf, sentence "
            f"embeddings), linear machines with an intercept. {GROWTH} Own parameters have two values at most. All "
            "are chosen by two folds inside the training folds.",
            cases=(
                Case("cornell", 480, "coarse", inner=2),
                Case("banking77_emb", 1200, "coarse", inner=2, rows=2310),
                Case("news20", 960, "coarse", inner=2, rows=3000),
                Case("wordnet 60 classes", 800, "coarse", inner=2, rows=3000),
            ),
            machines=machines,
            splits=5,
            kind="folds",
            grows=LIMITS,
            apart=True,
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
