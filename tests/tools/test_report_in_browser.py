"""The report as a browser shows it: nothing wider than the window, no table cut off, pictures for dark rooms."""

import json
import re
import shutil
import subprocess

import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

from polymargin import CrammerSingerSVC, WestonWatkinsSVC, compare_machines
from polymargin.comparison import Candidate
from polymargin.comparison.report import html_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OFFLINE = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
MEASURE = """<script>
const cut = [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth);
const seen = {width: document.documentElement.scrollWidth, window: innerWidth, cut: cut.length,
              tables: document.querySelectorAll("table").length, pictures: document.querySelectorAll("svg").length,
              filter: getComputedStyle(document.querySelector("figure")).filter};
document.body.dataset.seen = JSON.stringify(seen).replaceAll('"', "'");
</script></body>"""

LONG = {"kernel": ["linear"], "fit_intercept": [True], "class_weight": ["balanced"], "on_interrupt": ["raise"]}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, for example apt-get install chromium")


@pytest.fixture(scope="module")
def page():
    pytest.importorskip("matplotlib")
    wine, grid = load_wine(as_frame=True), {"C": [0.001, 0.01, 0.1, 1.0]}
    machines = [
        Candidate("Crammer-Singer, linear", CrammerSingerSVC(), grid, ours=True),
        Candidate("Weston-Watkins, rbf", WestonWatkinsSVC(kernel="rbf"), {**grid, "gamma": ["scale", 0.1]}, ours=True),
        Candidate("MarginSVC Weston-Watkins squared, all of its own parameters", WestonWatkinsSVC(C=0.1), LONG, ours=True),
        Candidate("logistic regression", LogisticRegression(max_iter=1000), grid),
    ]
    comparison = compare_machines(wine.data, wine.target_names[wine.target], machines=machines, cv=3, inner=2)
    return html_report(comparison, command="polymargin compare wine.csv")


def seen(page, folder, width, *flags):
    """What a browser with a window of this width measures."""
    (folder / "page.html").write_text(page.replace("</body>", MEASURE), "utf-8")
    where = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", "--dump-dom"]
    command = [CHROMIUM, *OFFLINE, *where, *flags, (folder / "page.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(re.search(r'data-seen="([^"]*)"', dom)[1].replace("'", '"'))


def test_desktop(page, tmp_path):
    found = seen(page, tmp_path, 1200)
    assert found["window"] == 1200 and found["width"] <= 1200
    assert found["cut"] == 0 and found["tables"] >= 6 and found["pictures"] >= 4
    assert found["filter"] == "none"


def test_phone(page, tmp_path):
    """Wide tables scroll in their own boxes."""
    found = seen(page, tmp_path, 500)
    assert found["width"] <= 500


def test_dark_rooms(page, tmp_path):
    assert "invert" in seen(page, tmp_path, 1200, "--blink-settings=preferredColorScheme=0")["filter"]


def test_sections(page):
    for heading in ("Right and wrong, class by class", "Calibration", "What speaks for a class", "Convergence"):
        assert f"<h2>{heading}" in page
    assert "C: 0.001, 0.01, 0.1, 1; gamma: scale, 0.1" in page
