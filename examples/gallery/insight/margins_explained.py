"""
Margins explained
=================

The margin of a row is the score of its own class minus the best of the others: below 0 it is wrong, below 1 a
hinge pays for it.
"""

# %%
# Two machines with different ideas of a good margin: at least 1, or near 1.
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import CrammerSingerSVC, MarginDistributionSVC
from polymargin.diagnostics import confusable_pairs, margin_summary
from polymargin.plotting import MarginDistributionDisplay, PairwiseMarginDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, stratify=y)
machines = {
    "Crammer–Singer": CrammerSingerSVC(C=0.1).fit(X_train, y_train),
    "margin distribution": MarginDistributionSVC(C=0.1).fit(X_train, y_train),
}
MarginDistributionDisplay.from_estimator(machines, X_test, y_test)

# %%
# In numbers, for each class.
print(margin_summary(machines["Crammer–Singer"], X_test, y_test))

# %%
# The width of the band between two classes, ``2 / |w_k − w_l|``, similar classes side by side.
PairwiseMarginDisplay.from_estimator(machines["Crammer–Singer"])

# %%
# The pairs whose rows lie closest to their border.
for pair in confusable_pairs(machines["Crammer–Singer"], X_test, y_test)[:3]:
    print(f"{pair.first} and {pair.second}: rows {pair.distance:.2f} from the border, {pair.error_rate:.1%} wrong")
