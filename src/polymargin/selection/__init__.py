"""Paths over C, and folds."""
