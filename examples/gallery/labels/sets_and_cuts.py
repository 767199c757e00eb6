"""
Label sets and where to cut
===========================

`MultiLabelSVC` gives every label a score. Where the cut lies decides between precision and recall; it can be
chosen on rows left out for the measure you care about, one cut for all labels or one for each.
"""

# %%
# Twelve labels, from frequent to rare.
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score, jaccard_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from polymargin import MultiLabelSVC
from polymargin.plotting import LabelErrorsDisplay, LabelScoresDisplay

X, Y = make_multilabel_classification(1500, 40, n_classes=12, n_labels=3, random_state=0)
X = StandardScaler().fit_transform(X)
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, random_state=0)
print("members of each label:", Y_train.sum(axis=0))

# %%
# Three ways to cut.
for threshold in (0.0, "auto", "per_label"):
    machine = MultiLabelSVC(C=0.1, threshold=threshold, metric="micro_f1").fit(X_train, Y_train)
    predicted = machine.predict(X_test)
    micro = f1_score(Y_test, predicted, average="micro")
    jaccard = jaccard_score(Y_test, predicted, average="samples", zero_division=1)
    size = predicted.sum(axis=1).mean()
    print(f"threshold={threshold!r:12} micro-F1 {micro:.3f}, Jaccard {jaccard:.3f}, {size:.2f} labels a row")

# %%
# Precision, recall and F1 of each label, the most frequent first.
LabelScoresDisplay.from_estimator(machine, X_test, Y_test)

# %%
# Which labels are wrong on the same rows.
LabelErrorsDisplay.from_estimator(machine, X_test, Y_test)
