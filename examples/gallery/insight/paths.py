"""
A path over C
=============

Neighbouring values of C have neighbouring optima: each fit starts from the last one's duals, and every machine on
the path has its own certificate. `PathCV` is the search that uses this.
"""

# %%
# Nine values over four decades.
import numpy as np
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from polymargin import PathCV, WestonWatkinsSVC, regularization_path
from polymargin.plotting import RegularizationPathDisplay

X, y = load_wine(return_X_y=True)
values = np.logspace(-4, 0, 9)
path = regularization_path(WestonWatkinsSVC(), scale(X), y, values)
for C, machine in path:
    print(f"C = {C:8.4f}: objective {machine.objective_:8.4f}, {machine.certificate_.status}, {machine.n_iter_} iterations")

# %%
# Scores on the training rows and lengths of the class vectors.
RegularizationPathDisplay.from_path(path, scale(X), y)

# %%
# Which C? The scaler is fitted once a fold, not once a value.
search = PathCV(make_pipeline(StandardScaler(), WestonWatkinsSVC()), {"westonwatkinssvc__C": values}, cv=5).fit(X, y)
print(search.best_params_, f"{search.best_score_:.3f}")
RegularizationPathDisplay.from_search(search)
