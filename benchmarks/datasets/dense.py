"""Dense data sets: columns scaled to [0, 1] by the range of the training rows, embeddings as they are."""

from functools import partial

import numpy as np

from . import base


def embeddings() -> base.Data:
    """Sentence embeddings of banking77, of length 1, in float32 as users have them."""
    X, y, n_train = base.read("banking77_emb")
    return base.split("banking77_emb", X.astype(np.float32), y, n_train)


def embeddings_like() -> base.Data:
    data = base.blobs("banking77_emb", 10_000, 384, 77, spread=4.0)
    for X in (data.X, data.X_test):
        X -= 0.5
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    data.X, data.X_test = data.X.astype(np.float32), data.X_test.astype(np.float32)
    return data


# rows (test rows included), columns, classes and spread of the stand-ins
_SCALED = {
    "letter": (20_000, 16, 26, 1.0),
    "pendigits": (9_000, 16, 10, 0.6),
    "satimage": (5_500, 36, 6, 1.5),
    "isolet": (1_560, 617, 26, 6.0),
    "shuttle": (40_000, 9, 7, 1.0),
    "segment": (2_310, 19, 7, 0.8),
    "vowel": (990, 10, 11, 0.7),
    "dna": (2_500, 180, 3, 4.0),
    "yaleb": (2_400, 1_024, 38, 6.0),
    "orl": (400, 1_024, 40, 4.0),
    "kddcup": (100_000, 41, 23, 1.0),
}

SETS: dict[str, base.Source] = {
    name: base.Source(partial(base.scaled_dense, name), partial(base.blobs, name, n, d, c, spread=spread))
    for name, (n, d, c, spread) in _SCALED.items()
}
SETS["usps"] = base.Source(partial(base.scaled_dense, "usps"), partial(base.digits, "usps"))
SETS["banking77_emb"] = base.Source(embeddings, embeddings_like)
