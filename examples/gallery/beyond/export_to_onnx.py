"""
ONNX and JSON
=============

A fitted machine scores rows with few numbers. ONNX takes every machine and kernel to any runtime, JSON takes
linear ones to any language.
"""

# needs: onnx, onnxruntime, skl2onnx

# %%
# A pipeline becomes one graph, its scaling included.
import json

import numpy as np
import onnxruntime
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import CrammerSingerSVC, to_json, to_onnx

X, y = load_wine(return_X_y=True)
model = make_pipeline(StandardScaler(), CrammerSingerSVC(C=1.0, kernel="rbf", probability=True)).fit(X, y)
graph = to_onnx(model, dtype=np.float64)
content = graph.SerializeToString()
print(f"{len(content):,} bytes, {len(graph.graph.node)} operations")

# %%
# The runtime gives what Python gives.
session = onnxruntime.InferenceSession(content)
label, scores, probabilities = session.run(None, {"X": X})
assert (label == model.predict(X)).all()
print(f"largest difference: scores {np.abs(scores - model.decision_function(X)).max():.0e}, "
      f"probabilities {np.abs(probabilities - model.predict_proba(X)).max():.0e}")

# %%
# A linear machine as plain JSON, with the scaling multiplied in. A row is scored by a dot product a class.
linear = make_pipeline(StandardScaler(), CrammerSingerSVC(C=1.0)).fit(X, y)
document = json.loads(to_json(linear))
print(sorted(document))
