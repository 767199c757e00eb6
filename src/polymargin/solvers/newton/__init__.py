"""Newton's method where ascent crawls: augmented Lagrangians, active sets, smooth losses."""
