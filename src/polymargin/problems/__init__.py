"""The objective of a machine and its dual, for each kind of target; duals and certificates."""
