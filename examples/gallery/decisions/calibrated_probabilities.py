"""
Calibrated probabilities
========================

Scores order the classes. With ``probability=True`` a temperature, and what else pays, is fitted to scores of rows
that the machine has not seen; then 0.8 means right in four of five cases.
"""

# %%
# The machine is the same with and without.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from polymargin import CrammerSingerSVC
from polymargin.metrics import brier_score, expected_calibration_error
from polymargin.plotting import ReliabilityDisplay

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
X = X / 16 + 0.25 * rng.normal(size=X.shape)  # harder than it is
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
machine = CrammerSingerSVC(C=0.1, probability=True).fit(X_train, y_train)
print(f"temperature {machine.temperature_:.2f}")

# %%
# Against the softmax of the bare scores.
scores = machine.decision_function(X_test)
bare = np.exp(scores - scores.max(axis=1, keepdims=True))
bare /= bare.sum(axis=1, keepdims=True)
for name, P in (("softmax of the scores", bare), ("calibrated", machine.predict_proba(X_test))):
    loss, brier, error = log_loss(y_test, P), brier_score(y_test, P), expected_calibration_error(y_test, P)
    print(f"{name:22s} log loss {loss:.3f}, Brier {brier:.3f}, calibration error {error:.3f}")

# %%
# On the diagonal a probability is what it says.
ReliabilityDisplay.from_estimator(machine, X_test, y_test)
