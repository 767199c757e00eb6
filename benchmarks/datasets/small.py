"""Small seeded stand-ins for `--quick`: the whole run fits into a continuous-integration job."""

from collections.abc import Callable

from . import base

MAKERS: dict[str, Callable[[], base.Data]] = {
    "digits": lambda: base.digits("digits"),
    "blobs": lambda: base.blobs("blobs", 2_000, 12, 8, spread=0.8),
    "text": lambda: base.text("text", 1_500, 5_000, 10, topical=0.15),
}
CASES = (base.Case("digits", 0.1), base.Case("blobs", 1.0), base.Case("text", 1.0))
