"""
Model files without pickle
==========================

`save` writes arrays and JSON, and `load` never runs code from a file. A pipeline with scikit-learn's usual steps
is saved whole.
"""

# %%
# A model, its file, and the model again.
import tempfile
from pathlib import Path

from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import CrammerSingerSVC, load, save

X, y = load_wine(return_X_y=True)
model = make_pipeline(StandardScaler(), CrammerSingerSVC(C=1.0)).fit(X, y)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "wine.pm"
    save(model, path)
    print(f"{path.name}: {path.stat().st_size:,} bytes")
    again = load(path)
assert (again.decision_function(X) == model.decision_function(X)).all()

# %%
# The certificate travels along: whoever loads the model knows how good its fit was.
print(again[-1].certificate_.status, f"{again[-1].certificate_.rel_gap:.0e}")
