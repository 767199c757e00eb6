"""
Labels that nobody looked up
============================

Annotators tick what they see; what they did not look at is not a "no". In a label matrix that holds −1, these are
the labels that a row has not, and 0 is unknown: no part of the loss, of a threshold or of a measure.
"""

# %%
# Half of the entries are hidden.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

from polymargin import MultiLabelSVC
from polymargin.metrics import known_label_score

X, Y = make_multilabel_classification(1200, 40, n_classes=8, n_labels=3, random_state=0)
X = StandardScaler().fit_transform(X)
train, test = slice(0, 800), slice(800, None)
truth = np.where(Y == 1, 1, -1)
rng = np.random.default_rng(0)


def hidden(share):
    """The label matrix with a share of its entries unknown."""
    return np.where(rng.random(truth[train].shape) < share, 0, truth[train])


# %%
# Told that zeros are unknown, the machine loses little; taking them for "no" costs members.
shares = [0.0, 0.15, 0.3, 0.45, 0.6]
known, taken_for_no = [], []
for share in shares:
    labels = hidden(share)
    machine = MultiLabelSVC(C=0.01, loss="squared_relevance").fit(X[train], labels)
    known.append(f1_score(Y[test], machine.predict(X[test]) > 0, average="micro"))
    naive = MultiLabelSVC(C=0.01, loss="squared_relevance").fit(X[train], (labels > 0).astype(int))
    taken_for_no.append(f1_score(Y[test], naive.predict(X[test]), average="micro"))
figure, axis = plt.subplots(layout="constrained")
axis.plot(shares, known, marker="o", label="0 is unknown")
axis.plot(shares, taken_for_no, marker="s", linestyle="--", label="0 is taken for no")
axis.set(xlabel="share of entries that are hidden", ylabel="micro-F1 on rows not seen")
axis.legend()

# %%
# Measures that skip what is unknown are in `polymargin.metrics`; `known_label_scorer` gives them to a grid search.
print(f"Jaccard of the known entries: {known_label_score(truth[test], machine.predict(X[test]), metric='jaccard'):.3f}")
