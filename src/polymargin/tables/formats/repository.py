"""The Extreme Classification Repository: ``rows features labels``, then a line ``label,label index:value ...`` for each row.

Labels and indices count from 0; a row may have no label. The lines are read as svmlight; both matrices stay sparse.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy import sparse

from polymargin.storage.unpacking import Allowance
from polymargin.tables.formats.svmlight import read_svmlight
from polymargin.tables.table import TableError, shown

_HEAD = re.compile(rb"\s*([0-9]{1,10})\s+([0-9]{1,10})\s+([0-9]{1,10})\s*")
_LARGEST = 2**31 - 2


def read_repository(name: str, data: bytes, *, allowance: Allowance | None = None) -> tuple[Any, sparse.csr_array]:
    """X (CSR) and the label matrix Y (CSR of 0 and 1)."""
    head, _, body = data.partition(b"\n")
    found = _HEAD.fullmatch(head)
    if found is None:
        said = shown(head[:80].decode("utf-8", "replace"))
        raise TableError(name, f"the first line must be 'rows features labels', not {said}", 1)
    n_rows, n_features, n_labels = map(int, found.groups())
    if not 1 <= n_features <= _LARGEST or not 1 <= n_labels <= _LARGEST:
        raise TableError(name, f"{n_features} features and {n_labels} labels: both must be from 1 to {_LARGEST}", 1)
    # a comment in the place of the first line, so that errors name the right one
    settings: dict[str, Any] = {"multilabel": True, "index_base": 0, "n_features": n_features, "allowance": allowance}
    X, rows = read_svmlight(name, b"#\n" + body, **settings)
    if X.shape[0] != n_rows:
        found_rows = f"{X.shape[0]} follow (a row has a label or a feature)"
        raise TableError(name, f"the first line promises {n_rows} rows, but {found_rows}", 1)
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    labels = np.array([label for row in rows for label in row], dtype=np.float64)
    wrong = (labels != np.rint(labels)) | (labels < 0) | (labels >= n_labels)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        row = int(np.searchsorted(np.cumsum(counts), place, side="right"))
        raise TableError(name, f"the label {labels[place]:g} of row {row + 1} is not a whole number below {n_labels}")
    starts = np.append(0, np.cumsum(counts))
    Y = sparse.csr_array((np.ones(len(labels), dtype=np.int64), labels.astype(np.int32), starts), shape=(n_rows, n_labels))
    Y.sum_duplicates()
    Y.data[:] = 1  # a label that is said twice
    return X, Y
