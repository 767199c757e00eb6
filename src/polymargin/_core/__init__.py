"""The native loops, in the build that suits this processor.

On x86-64 the same sources are compiled twice: for any processor, and for those with AVX2 and FMA (x86-64-v3). In the
second long dense rows are read in the widest registers that the processor has (AVX-512), which changes no bit. The
environment variable ``POLYMARGIN_CPU`` asks for less: ``baseline`` for the first build, ``v3`` for no wider registers
than those of AVX2.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING

import polymargin._core._baseline as _baseline


def _best_build() -> ModuleType:
    if os.environ.get("POLYMARGIN_CPU") == "baseline" or not _baseline.supports_v3():
        return _baseline
    try:
        import polymargin._core._v3 as _v3
    except ImportError:  # built for another processor family
        return _baseline
    return _v3


if TYPE_CHECKING:
    import polymargin._core._baseline as native  # both builds have the same names
else:
    native = _best_build()

WIDE = os.environ.get("POLYMARGIN_CPU") != "v3"

__all__ = ["WIDE", "native"]
