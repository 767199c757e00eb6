"""Dual ascent over rows with several labels."""
