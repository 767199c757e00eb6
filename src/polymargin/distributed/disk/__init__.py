"""Rows on disk: their blocks, where they come from, and the engine that visits them one at a time."""
