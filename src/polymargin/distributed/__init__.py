"""Fits of rows that come in parts: out of core, or on several machines, with one certificate of all rows."""

from polymargin.distributed.parts import Parts

__all__ = ["Parts"]
