"""What is left of a Newton step when slacks and multipliers are eliminated: linear systems in the unknowns."""

from polymargin.solvers.interior.systems.curvature import Curvature, ProductCurvature, SoftmaxCurvature, StarCurvature
from polymargin.solvers.interior.systems.stacked import NewtonSystem

__all__ = ["Curvature", "NewtonSystem", "ProductCurvature", "SoftmaxCurvature", "StarCurvature"]
