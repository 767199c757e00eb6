"""Predict or abstain: classifiers that know when they do not know."""

from polymargin.rejection.option import RejectOption

__all__ = ["RejectOption"]
