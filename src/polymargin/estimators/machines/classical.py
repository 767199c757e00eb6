"""The two classical joint machines, against which the others are compared."""

from __future__ import annotations

from polymargin.estimators.cost_sensitive import CostSensitiveClassifier
from polymargin.estimators.parts.docs import documented
from polymargin.losses import CrammerSingerHinge, ScoreLoss, WestonWatkinsHinge
from polymargin.penalties import Penalty, SquaredNorm


@documented()
class CrammerSingerSVC(CostSensitiveClassifier):
    r"""Multi-class SVM of Crammer and Singer (2001), solved to a certified duality gap.

    .. math:: \min_{W, b} \tfrac12 \|W\|_F^2 + C \sum_i v_i \, [1 - s_{i y_i} + \max_{k \neq y_i} s_{ik}]_+,
              \qquad s_{ik} = w_k \cdot x_i + b_k

    with sample weights v and an unpenalised intercept b: each row pays for its closest rival class only.

    Parameters
    ----------
    [parameters]
    [label_cost]

    Attributes
    ----------
    [attributes]

    See Also
    --------
    WestonWatkinsSVC : pays for every rival class; does not collapse on heavily overlapping classes.

    References
    ----------
    K. Crammer and Y. Singer. On the algorithmic implementation of multiclass kernel-based vector machines. JMLR 2, 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import CrammerSingerSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CrammerSingerSVC(C=1.0, random_state=0).fit(scale(X), y)
    >>> machine.certificate_.status
    'optimal'
    >>> print(f"{machine.objective_:.2f}")
    16.92
    """

    _has_kernel_dual = _compares_kernel = True

    def _loss(self) -> ScoreLoss:
        return CrammerSingerHinge()

    def _penalty(self) -> Penalty:
        return SquaredNorm()

    def _advice_if_trivial(self) -> str:
        return "a larger C, or WestonWatkinsSVC, whose loss does not collapse when no class has half of the weight"


@documented()
class WestonWatkinsSVC(CostSensitiveClassifier):
    r"""Multi-class SVM of Weston and Watkins (1999), solved to a certified duality gap.

    .. math:: \min_{W, b} \tfrac12 \|W\|_F^2 + C \sum_i v_i \sum_{k \neq y_i} [1 - (s_{i y_i} - s_{ik})]_+,
              \qquad s_{ik} = w_k \cdot x_i + b_k

    with sample weights v and an unpenalised intercept b: each row pays for all rival classes within the margin.

    Parameters
    ----------
    [parameters]
    [label_cost]

    Attributes
    ----------
    [attributes]

    See Also
    --------
    CrammerSingerSVC : pays for the closest rival class only.

    References
    ----------
    J. Weston and C. Watkins. Support vector machines for multi-class pattern recognition. ESANN 1999.

    Y. Wang and C. Scott. Weston-Watkins hinge loss and ordered partitions; An exact solver for the Weston-Watkins SVM
    subproblem. NeurIPS 2020; ICML 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import WestonWatkinsSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = WestonWatkinsSVC(C=1.0, random_state=0).fit(scale(X), y)
    >>> machine.certificate_.rel_gap <= machine.tol
    True
    """

    _has_kernel_dual = _compares_kernel = True

    def _loss(self) -> ScoreLoss:
        return WestonWatkinsHinge()

    def _penalty(self) -> Penalty:
        return SquaredNorm()

    def _advice_if_trivial(self) -> str:
        return "a larger C"
