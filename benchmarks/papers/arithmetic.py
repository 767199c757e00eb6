"""What printed numbers say by themselves: of how many test rows a share can be, and what another metric would have shown."""

from collections.abc import Sequence

DECIMALS = 2  # of the printed percentages


def is_share(percent: float, rows: int) -> bool:
    """Whether a number of right rows among `rows` gives this percentage, as it is rounded."""
    right = round(percent * rows / 100)
    return abs(100 * right / rows - percent) <= 0.5 * 10.0**-DECIMALS + 1e-9


def shares(percents: Sequence[float], rows: int) -> int:
    return sum(is_share(percent, rows) for percent in percents)


def by_chance(rows: int) -> float:
    """The part of all rounded percentages that are a share of so many rows."""
    return min(1.0, (rows + 1) / (100 * 10**DECIMALS + 1))


def neighbours(percent: float, rows: int) -> tuple[float, float]:
    """The shares of so many rows around a percentage."""
    below = int(percent * rows / 100)
    return 100 * below / rows, 100 * (below + 1) / rows


def deviation(percent: float, rows: int) -> float:
    """By how many points chance moves a share of so many rows, drawn anew each time."""
    return (percent * (100 - percent) / rows) ** 0.5


def entries_right(accuracy: float, n_classes: int) -> float:
    """Share of right entries of a label matrix with one label a row, if so many rows are right: an error is two entries."""
    return 100 - 2 * (100 - accuracy) / n_classes
