"""Our machines side by side: margins of held-out rows, classes that sit closest, how the fits converged."""

from __future__ import annotations

import html
from typing import Any

from polymargin.comparison.report.parts import picture, table


def inside(comparison: Any, ours: list[str]) -> list[str]:
    """Margins, closest classes and convergence, on the first split's held-out rows."""
    from polymargin.diagnostics import confusable_pairs
    from polymargin.plotting import ConvergenceDisplay, MarginDistributionDisplay

    fits = {name: comparison.fitted_on_split(name) for name in ours}
    first = fits[ours[0]]
    machines = {name: fit.model for name, fit in fits.items()}
    rows = [
        [
            f"{pair.first} – {pair.second}", f"{pair.distance:.3g}", f"{pair.margin:.3g}", f"{pair.angle:.0f}°",
            f"{pair.first_as_second} + {pair.second_as_first}", f"{pair.error_rate:.1%}",
        ]
        for pair in confusable_pairs(first.model, first.X_test, first.y_test, n_pairs=8)
    ]
    certificates = {name: fit.model[-1].certificate_ for name, fit in fits.items()}
    return [
        picture(
            "Margins of held-out rows",
            lambda: MarginDistributionDisplay.from_estimator(machines, first.X_test, first.y_test).figure_,
            "Left of 0 are errors. The first split's test rows.",
        ),
        f"<h2>Classes that sit closest ({html.escape(ours[0])})</h2>"
        + table(["pair", "distance of rows", "margin", "angle", "errors", "share of rows"], rows)
        + "<p class='small'>Distance of rows: mean distance of held-out rows from the border of the pair, the closest pair "
        "first. Margin: 2/|w_k − w_l|, how steeply the machine tells them apart.</p>",
        picture(
            "Convergence",
            lambda: ConvergenceDisplay.from_certificates(certificates).figure_,
            "Relative duality gap over the time of the last fit, the best so far: how far it can be from the optimum.",
        ),
    ]
