"""Helpers for the sentences on top of a page."""

from typing import Any

Results = Any
