"""Interior points: one central path (`central_path.py`) over blocks of slacks and systems of unknowns.

- `quadratic.py`: hinge machines with a quadratic penalty, with `certified.py` and `polish.py`; `scaled.py` ends lp-norm fits
- `pairwise.py`: the pairwise hinge with any penalty, with `pair_iterate.py`
- `labels.py`: One versus None
"""
