"""
A fit and its certificate
=========================

Every fit ends with two numbers: the objective of the machine, and a proven bound below which no machine can get.
"""

# %%
# Digits, scaled to [0, 1]. The machine is a scikit-learn classifier.
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import CrammerSingerSVC, WestonWatkinsSVC
from polymargin.plotting import ConvergenceDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, stratify=y)
machine = CrammerSingerSVC(C=1.0, tol=1e-6).fit(X_train, y_train)
print(f"accuracy on rows not seen: {machine.score(X_test, y_test):.3f}")

# %%
# The optimum lies between ``dual`` and ``primal``. ``tol`` bounds their relative distance.
end = machine.certificate_
print(f"{end.status}: objective {end.primal:.5f}, optimum at least {end.dual:.5f}, relative gap {end.rel_gap:.0e}")
assert end.dual <= machine.objective(X_train, y_train) and end.rel_gap <= 1e-6

# %%
# How the gap closed, for two machines. The history of a certificate holds what was proven, and when.
rival = WestonWatkinsSVC(C=1.0, tol=1e-6).fit(X_train, y_train)
ConvergenceDisplay.from_estimator({"Crammer–Singer": machine, "Weston–Watkins": rival})
