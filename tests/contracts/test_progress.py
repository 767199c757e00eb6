"""`verbose` says how far, how fast and how long, and is never silent for long."""

import re
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from polymargin import CrammerSingerSVC
from polymargin.problems import progress_lines
from polymargin.problems.progress_lines import Lines, forecast


def test_the_forecast_of_a_steady_fall_is_right():
    """A tenth every two seconds, from 1 to 1e-3 in six: two more for 1e-4."""
    history = [(float(t), 10.0 ** (-t / 2.0)) for t in range(7)]
    assert forecast(history, 1e-4) == ", tenfold less every 2 s, about 2 s left"
    slow = [(100.0 * seconds, gap) for seconds, gap in history]
    assert forecast(slow, 1e-4) == ", tenfold less every 3.3 min, about 3.3 min left"


NOTHING_TO_GO_BY = [[], [(1.0, np.inf)], [(1.0, 0.5)], *([(1.0, 0.5), (4.0, gap)] for gap in (0.5, 1e-5, 0.0))]


@pytest.mark.parametrize("history", NOTHING_TO_GO_BY)
def test_nothing_is_forecast_from_nothing(history):
    assert forecast(history, 1e-4) == ""


def test_a_long_silence_is_broken(capsys, monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY", 0.1)
    with Lines("machine") as lines:
        lines.say("dual ascent")
        time.sleep(0.6)
    spoken = capsys.readouterr().out.splitlines()
    assert "dual ascent" in spoken[0]
    assert len(spoken) >= 3 and all("at work; last: dual ascent" in line for line in spoken[1:])
    time.sleep(0.3)
    assert not capsys.readouterr().out  # nothing speaks after the end


def test_a_program_may_watch_a_silent_fit(capsys, monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY", 0.05)
    X, y = load_digits(return_X_y=True)
    with Lines("train", now_and_then=True):
        CrammerSingerSVC(C=100.0, tol=1e-10).fit(X / 16, y)
        time.sleep(0.2)
    spoken = capsys.readouterr().out.splitlines()
    assert spoken and all("at work; last: " in line for line in spoken)
    assert "relative gap" in spoken[-1]


def test_the_watch_ends_with_the_fit_whatever_happens(capsys):
    before = threading.active_count()
    X, y = load_digits(return_X_y=True)
    CrammerSingerSVC(C=10.0, tol=1e-8, verbose=1).fit(X / 16, y)
    spoken = capsys.readouterr().out
    assert re.search(r"relative gap .* \(tol 1e-08\), tenfold less every \S+ s, about \S+ s left", spoken)
    with pytest.raises(ValueError, match="verbose"):
        CrammerSingerSVC(verbose="loud").fit(X, y)
    assert threading.active_count() == before
