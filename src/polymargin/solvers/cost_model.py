"""What every method costs and up to which size it is used: all limits, with how they were chosen.

Work is counted in operations, memory in numbers of eight bytes. Limits were chosen on the developers' machines (two cores,
8 MB of cache a core) on the data of `benchmarks hard` and `benchmarks linear`; they bound time and memory, never accuracy.
"""

from __future__ import annotations

# ---- ascent -----------------------------------------------------------------------------------------------------------

SMALL_MARGIN_STEP = 20_000  # rows times classes of a margin distribution machine up to which time does not matter
KERNEL_WORKING_SET = 8192  # rows of one: its block of K is 268 MB

# ---- interior points --------------------------------------------------------------------------------------------------

# ---- Newton's method --------------------------------------------------------------------------------------------------

# ---- convex models of what is not convex ------------------------------------------------------------------------------
