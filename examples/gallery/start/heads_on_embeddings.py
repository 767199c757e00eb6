"""
A head on embeddings
====================

A sentence encoder turns each text into a row of a few hundred numbers. What is left is a linear classifier on many
classes, a *head*. Here the encoder is played by 40 noisy directions on a sphere, so that nothing has to be
downloaded: replace ``embeddings`` by yours.
"""

# %%
# float32 rows stay float32; the loops read them where they lie.
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from polymargin import CrammerSingerSVC, MarginDistributionSVC, WestonWatkinsSVC
from polymargin.plotting import ClassAccuracyDisplay

rng = np.random.default_rng(0)
centres = rng.normal(size=(40, 128))
y = rng.integers(40, size=2400)
embeddings = centres[y] + 2.8 * rng.normal(size=(2400, 128))
embeddings = (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype(np.float32)
X_train, X_test, y_train, y_test = train_test_split(embeddings, y, random_state=0, stratify=y)

# %%
# Four heads. The margin machines say how far from their optimum they are at most.
heads = {
    "Weston–Watkins": WestonWatkinsSVC(C=0.1),
    "Crammer–Singer": CrammerSingerSVC(C=1.0),
    "margin distribution": MarginDistributionSVC(C=0.1),
    "logistic regression": LogisticRegression(C=10.0, max_iter=1000),
}
for name, head in heads.items():
    head.fit(X_train, y_train)
    proof = f", {head.certificate_.status}" if hasattr(head, "certificate_") else ""
    print(f"{name:20s} accuracy {head.score(X_test, y_test):.3f}{proof}")

# %%
# Which classes suffer? The intervals say how much of a difference the rows can show.
ClassAccuracyDisplay.from_estimator(heads["Weston–Watkins"], X_test, y_test)
