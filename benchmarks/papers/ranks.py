"""Average ranks over data sets, Friedman's test, Nemenyi's critical difference (Demšar 2006), and its picture as SVG."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

WIDTH, MARGIN, LABEL, TOP, STEP = 860, 20, 190, 74, 24


@dataclass(frozen=True)
class Ranks:
    """Machines from best to worst."""

    names: tuple[str, ...]
    average: tuple[float, ...]
    n_data: int
    p_value: float
    critical: float

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Longest runs of machines whose ranks differ by less than the critical difference, as (first, last)."""
        last = [max(j for j, r in enumerate(self.average) if r - a < self.critical) for a in self.average]
        return [(i, j) for i, j in enumerate(last) if j > i and (i == 0 or last[i - 1] < j)]


def average_ranks(names: tuple[str, ...], scores: NDArray[np.float64]) -> Ranks:
    """`scores` has a row for each data set and a column for each machine; more is better."""
    n, k = scores.shape
    ranks = stats.rankdata(-scores, axis=1).mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    p = float(stats.friedmanchisquare(*scores.T).pvalue) if n > 1 and k > 2 else float("nan")
    critical = float(stats.studentized_range.ppf(0.95, k, np.inf)) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
    return Ranks(tuple(names[j] for j in order), tuple(float(ranks[j]) for j in order), n, p, float(critical))


def rank_biserial(differences: NDArray[np.float64]) -> float:
    """Effect size of Wilcoxon's signed ranks, from -1 (all data sets against) to 1 (all in favour); zeros count for none."""
    known = differences[differences != 0.0]
    ranks = stats.rankdata(np.abs(known))
    return float(np.sum(np.sign(known) * ranks) / ranks.sum()) if len(known) else 0.0


def picture(ranks: Ranks) -> str:
    """An axis of ranks, best on the left, machines hung below it, bars over those that cannot be told apart."""
    k = len(ranks.names)
    left, right = MARGIN + LABEL, WIDTH - MARGIN - LABEL
    half, bars = (k + 1) // 2, ranks.groups
    floor = TOP + 14 + 9 * len(bars)
    height = floor + STEP * max(half, k - half) + 16

    def x(rank: float) -> float:
        return left + (right - left) * (rank - 1) / max(k - 1, 1)

    parts = [_line(left, TOP, right, TOP, 1.2)]
    for tick in range(1, k + 1):
        parts += [_line(x(tick), TOP - 6, x(tick), TOP, 1.2), _text(x(tick), TOP - 11, str(tick), "middle")]
    end = x(1 + ranks.critical)
    parts += [_line(x(1), 28, end, 28, 1.2), _line(x(1), 24, x(1), 32, 1.2), _line(end, 24, end, 32, 1.2)]
    parts.append(_text((x(1) + end) / 2, 18, f"critical difference {ranks.critical:.2f}", "middle"))
    for place, (name, rank) in enumerate(zip(ranks.names, ranks.average, strict=True)):
        on_left = place < half
        y = floor + STEP * (place if on_left else k - 1 - place) + 10
        edge = left - 8 if on_left else right + 8
        parts += [_line(x(rank), TOP, x(rank), y, 0.8), _line(x(rank), y, edge, y, 0.8)]
        parts.append(_text(edge + (-5 if on_left else 5), y + 4, f"{name} ({rank:.2f})", "end" if on_left else "start"))
    for level, (first, last) in enumerate(bars):
        height_of_bar = TOP + 11.0 + 9 * level
        parts.append(_line(x(ranks.average[first]) - 4, height_of_bar, x(ranks.average[last]) + 4, height_of_bar, 4.0))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13">\n<rect width="{WIDTH}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def _line(x1: float, y1: float, x2: float, y2: float, width: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="black" stroke-width="{width:g}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
