"""
Which machine suits this data
=============================

`compare_machines` tunes every candidate inside, measures it outside, and says which differences are real. On a
terminal the same is ``polymargin compare table.csv --target column --report page.html``.
"""

# %%
# Three candidates on wine, to keep this short. Without ``machines=`` all of them take part, with the usual rivals.
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

from polymargin import CrammerSingerSVC, MarginDistributionSVC, compare_machines
from polymargin.comparison import Candidate

X, y = load_wine(return_X_y=True)
grid = {"C": [0.01, 0.1, 1.0]}
machines = [
    Candidate("Crammer–Singer", CrammerSingerSVC(), grid, ours=True),
    Candidate("margin distribution", MarginDistributionSVC(), grid, ours=True),
    Candidate("logistic regression", LogisticRegression(max_iter=1000), grid),
]
comparison = compare_machines(X, y, machines=machines)
print(comparison)

# %%
# Means and intervals over the splits, and the winner, tuned and fitted on all rows.
comparison.plot()
model = comparison.fit_winner()
print(model)
