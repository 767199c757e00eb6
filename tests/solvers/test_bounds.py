"""Factors that balance the duals of absolute margins."""

import numpy as np
import pytest

from polymargin.solvers.bounds import reducing_factors


@pytest.mark.parametrize("sums_to_zero", [True, False])
@pytest.mark.parametrize("own", [0.0, 1.0])
def test_reduced_flows_are_balanced(sums_to_zero: bool, own: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        flows = rng.exponential(size=(5, 5)) * (rng.random((5, 5)) < 0.7)
        flows[np.diag_indices(5)] *= own
        factors = reducing_factors(flows, sums_to_zero=sums_to_zero)
        assert ((factors >= 0.0) & (factors <= 1.0)).all()
        kept = flows * factors
        balance = 2.0 * np.diag(kept) - kept.sum(axis=0)
        assert np.ptp(balance) <= 1e-14 * flows.sum()
        if not sums_to_zero:
            assert np.abs(balance).max() <= 1e-14 * flows.sum()


def test_balanced_flows_stay_as_they_are() -> None:
    flows = np.full((3, 3), 0.5) + 0.5 * np.eye(3)  # 1 up, 1 down
    np.testing.assert_allclose(reducing_factors(flows, sums_to_zero=False), 1.0)
