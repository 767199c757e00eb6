"""
77 intents, and leave the rest to someone
=========================================

A customer writes; the machine knows 77 intents. Where it is not sure, a person should answer. `RejectOption`
chooses the threshold on rows held out, with a guarantee: of the rows it accepts, at most ``risk`` are wrong, with
probability 0.95.
"""

# %%
# 77 classes in 96 dimensions, some of them close to each other: what embeddings of bank customers' sentences look
# like.
import numpy as np
from sklearn.model_selection import train_test_split

from polymargin import RejectOption, WestonWatkinsSVC
from polymargin.plotting import RiskCoverageDisplay

rng = np.random.default_rng(1)
topics = rng.normal(size=(25, 96))
centres = topics[rng.integers(25, size=77)] + 0.7 * rng.normal(size=(77, 96))
y = rng.integers(77, size=4000)
X = (centres[y] + 1.9 * rng.normal(size=(4000, 96))).astype(np.float32) / 10
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

# %%
# Without the option, and with it.
head = WestonWatkinsSVC(C=0.1, probability=True)
plain = head.fit(X_train, y_train)
careful = RejectOption(WestonWatkinsSVC(C=0.1, probability=True), risk=0.02, random_state=0).fit(X_train, y_train)
accepted = careful.accepts(X_test)
print(f"answers everything:   {1 - plain.score(X_test, y_test):.1%} wrong")
print(f"answers {accepted.mean():.0%} of them:  {1 - careful.score(X_test, y_test):.1%} wrong")

# %%
# Errors among the accepted rows over how many are accepted, and the chosen point.
RiskCoverageDisplay.from_estimator(careful, X_test, y_test)

# %%
# Or offer the customer a short list: sets that hold the right intent with probability 0.95.
sets = careful.predict_set(X_test, alpha=0.05)
right = sets[np.arange(len(y_test)), np.searchsorted(careful.classes_, y_test)]
print(f"{sets.sum(axis=1).mean():.2f} intents on average, the right one among them in {right.mean():.1%} of the rows")
