"""Trees over very many labels, whose nodes are machines."""

from polymargin.trees.label_tree import LabelTree

__all__ = ["LabelTree"]
