"""Plain text tables."""

from collections.abc import Sequence


def number(seconds: float) -> str:
    """Three significant digits, never an exponent."""
    return f"{seconds:.4f}" if seconds < 0.1 else f"{seconds:.3f}" if seconds < 10 else f"{seconds:.1f}"


def short(target: float) -> str:
    """1e-3 rather than 0.001 or 1e-03."""
    mantissa, power = f"{target:e}".split("e")
    return f"{float(mantissa):g}e{int(power)}"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns as wide as their widest cell; the first `left` flush left, numbers flush right."""
    widths = [max(len(r[j]) for r in (header, *rows)) for j in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = (
            c.ljust(w) if j < left else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return "\n".join([line(header), line(["-" * w for w in widths]), *map(line, rows)])
