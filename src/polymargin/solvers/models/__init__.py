"""Convex models of what is not convex, one after the other: rivals that are linearised, angles, majorisation."""
