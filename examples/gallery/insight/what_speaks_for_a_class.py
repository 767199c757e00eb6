"""
What speaks for a class
=======================

A linear machine can be read. `top_features` lists what speaks for each class, and what tells two classes apart.
"""

# %%
# Columns are scaled, so that weights can be compared.
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from polymargin import WestonWatkinsSVC

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)
machine = WestonWatkinsSVC(C=0.1).fit(X, wine.target_names[wine.target])
for name, features in machine.top_features(wine.feature_names, k=3).items():
    print(name, ", ".join(f"{feature} {weight:+.2f}" for feature, weight in features))

# %%
# Two classes side by side.
pair = ("class_0", "class_1")
apart = machine.top_features(wine.feature_names, k=6, pair=pair)[pair][::-1]
figure, axis = plt.subplots(layout="constrained")
axis.barh([feature.name for feature in apart], [feature.weight for feature in apart])
axis.set(xlabel="weight: to the right it speaks for class_0, to the left for class_1")

# %%
# One page about the whole fit.
machine.explain(X, wine.target_names[wine.target])
