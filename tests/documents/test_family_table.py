"""The table of losses x penalties in docs/family.md is what fits of all products end with."""

import warnings
from pathlib import Path

from benchmarks.family import products

PAGE = Path(__file__).parents[2] / "docs" / "family.md"


def test_the_page_has_the_table_that_fits_make() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # machines that ignore X
        made = products()
    there = PAGE.read_text(encoding="utf-8").split("<!-- products:begin -->\n")[1].split("\n<!-- products:end -->")[0]
    assert there == made, "docs/family.md: put in what `python -m benchmarks family --part table` prints"
    assert "max_iter" not in made and "stalled" not in made
