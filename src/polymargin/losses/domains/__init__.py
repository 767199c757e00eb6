"""Where the duals of a row may lie, and what margins they belong to."""
