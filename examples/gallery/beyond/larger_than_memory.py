"""
More rows than memory
=====================

The rows lie in files, and a fit holds a block of them at a time. The certificate is that of all rows all the same.
"""

# %%
# Files as a nightly job might leave them. Each is small; there may be thousands.
import tempfile
from pathlib import Path

import numpy as np

from polymargin import CrammerSingerSVC
from polymargin.distributed import Parts
from polymargin.plotting import ConvergenceDisplay

rng = np.random.default_rng(0)
centres = rng.standard_normal((4, 30))


def rows(n):
    y = rng.integers(4, size=n)
    return 0.5 * centres[y] + rng.standard_normal((n, 30)), y


folder = tempfile.TemporaryDirectory()
for day in range(6):
    X, y = rows(1500)
    np.savez(Path(folder.name) / f"day{day}.npz", X=X, y=y)

# %%
# `Parts` takes the place of X and y. `memory` is what the process may take in all; blocks go to disk, dealt at random,
# so that files sorted by class do no harm.
machine = CrammerSingerSVC(C=0.1, tol=1e-3).fit(Parts(folder.name, memory="1GB"))
end = machine.certificate_
print(f"{end.status}: objective {end.primal:.4f}, optimum at least {end.dual:.4f}, relative gap {end.rel_gap:.0e}")

# %%
# In memory, to compare: the same objective, to what both certificates leave open.
pieces = [np.load(path) for path in sorted(Path(folder.name).glob("*.npz"))]
X, y = (np.concatenate([piece[name] for piece in pieces]) for name in "Xy")
ordinary = CrammerSingerSVC(C=0.1, tol=1e-3).fit(X, y)
print(f"objective in memory {ordinary.objective_:.4f}, accuracy {ordinary.score(X, y):.3f} and {machine.score(X, y):.3f}")
assert abs(machine.objective_ - ordinary.objective_) <= end.gap + ordinary.certificate_.gap

# %%
# Every look over all parts is a line of the history. While the rows fit into memory, the ordinary fit is the faster one.
ConvergenceDisplay.from_estimator({"blocks on disk": machine, "in memory": ordinary})
folder.cleanup()
