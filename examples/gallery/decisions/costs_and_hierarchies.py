"""
Costs and hierarchies of classes
================================

Not all errors are alike. ``label_cost`` tells the machine while it is fitted: margins to a class must reach what
it costs to be taken for it.
"""

# %%
# Five grades of a disease's progression. One grade off costs less than four.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from polymargin import MarginSVC
from polymargin.label_costs import ordered_costs, tree_costs
from polymargin.metrics import expected_cost

X, progression = load_diabetes(return_X_y=True)
y = np.digitize(progression, np.quantile(progression, [0.2, 0.4, 0.6, 0.8]))
X_train, X_test, y_train, y_test = train_test_split(scale(X), y, test_size=0.5, random_state=0, stratify=y)
cost = ordered_costs(range(5))
print("a row of grade 0 costs", cost[0])

# %%
# The same loss without and with the costs.
plain = MarginSVC(C=0.03, loss="crammer_singer").fit(X_train, y_train)
aware = MarginSVC(C=0.03, loss="crammer_singer", label_cost=cost).fit(X_train, y_train)
machines = {"all errors alike": plain, "costs by distance": aware}
for name, machine in machines.items():
    predicted = machine.predict(X_test)
    print(f"{name:18s} accuracy {np.mean(predicted == y_test):.3f}, mean cost {expected_cost(y_test, predicted, cost):.3f}")

# %%
# The errors move towards the diagonal.
figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for axis, (name, machine) in zip(axes, machines.items(), strict=True):
    counts = confusion_matrix(y_test, machine.predict(X_test))
    axis.imshow(counts, cmap="Blues")
    for true, said in np.ndindex(counts.shape):
        colour = "white" if counts[true, said] > 15 else "black"
        axis.text(said, true, counts[true, said], ha="center", va="center", color=colour)
    axis.set(title=name, xlabel="predicted grade", ylabel="true grade")

# %%
# Costs of a hierarchy come from the way up the tree that two classes do not share.
animals = tree_costs({"cat": ["mammal"], "dog": ["mammal"], "trout": ["fish"], "carp": ["fish"]})
print("a cat is taken for", animals["cat"])

# %%
# Costs that come up after the fit are a matter of probabilities: `predict_min_cost` decides by the expected cost.
probable = MarginSVC(C=0.03, loss="weston_watkins", probability=True).fit(X_train, y_train)
decided = probable.predict_min_cost(X_test, [[cost[true][said] for said in range(5)] for true in range(5)])
print(f"decided afterwards: mean cost {expected_cost(y_test, decided, cost):.3f}")
