"""
One machine on many workers: Dask
=================================

Every block of a Dask collection is a part of one problem. What comes back is an ordinary machine, with a certificate
of all rows.
"""

# needs: dask, distributed

# %%
# A collection as it lies on a cluster. Without a client the work is done in this process, to the same bits; with
# ``Client("scheduler:8786")`` nothing else changes.
import dask.array as da
import numpy as np

from polymargin.dask import WestonWatkinsSVC
from polymargin.plotting import ConvergenceDisplay

rng = np.random.default_rng(0)
labels = rng.integers(5, size=4000)
points = 0.6 * rng.standard_normal((5, 20))[labels] + rng.standard_normal((4000, 20))
X, y = da.from_array(points, chunks=(500, 20)), da.from_array(labels, chunks=500)

machine = WestonWatkinsSVC(C=0.1, tol=1e-3).fit(X, y, client=False)
end = machine.certificate_
print(f"{X.numblocks[0]} blocks, {end.status}: relative gap {end.rel_gap:.0e}, accuracy {machine.score(X, y):.3f}")

# %%
# Predictions of collections are lazy: nothing is computed before it is asked for.
predicted = machine.predict(X)
print(predicted)
print("first labels:", predicted[:10].compute(scheduler="synchronous"))

# %%
# The ordinary machine goes into a file, a pipeline or a web service, none of which know Dask.
ordinary = machine.ordinary()
print(type(ordinary).__module__.split(".")[0], type(ordinary).__name__, ordinary.coef_.shape)
assert (ordinary.predict(points[:100]) == predicted[:100].compute(scheduler="synchronous")).all()

# %%
# Every round over the blocks is a line of the history.
ConvergenceDisplay.from_estimator({"eight blocks": ordinary})
