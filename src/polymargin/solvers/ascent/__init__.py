"""Dual ascent: the native loops, what moves between their epochs, and when to look at the true gap."""
