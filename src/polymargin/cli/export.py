"""`polymargin export`: a model for other places."""

from __future__ import annotations

import argparse
import sys
from pathlib import PurePath
from typing import Any

from polymargin.cli.shared.models import open_model
from polymargin.cli.shared.output import write_bytes

HELP = "write a model as ONNX, or a linear one as JSON that any language can score"
EPILOG = "ONNX needs pip install 'polymargin[onnx]'. Example: polymargin export iris.pm iris.onnx"
_FORMATS = ("onnx", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file; - for standard input")
    parser.add_argument("output", help="file to write; its ending says the format; - for standard output")
    parser.add_argument("--to", choices=_FORMATS, help="format to write (default: the ending of OUTPUT says)")
    parser.add_argument("--float32", action="store_true", help="an ONNX model for rows of single precision")


def run(args: argparse.Namespace) -> int:
    from polymargin.cli.shared.parser import UsageError
    from polymargin.storage.files import check_output

    to = args.to or PurePath(args.output).suffix.lstrip(".").lower()
    if to not in _FORMATS:
        raise UsageError(f"the ending of {args.output} says no format: name it .onnx or .json, or give --to")
    if args.float32 and to != "onnx":
        raise UsageError("--float32 is for ONNX: numbers in JSON have no type")
    check_output(args.output, [args.model])
    content, inputs = _content(open_model(args.model).model, to, args.float32)
    write_bytes(args.output, content)
    if args.output != "-":
        print(f"saved: {args.output} ({len(content):,} bytes){inputs}", file=sys.stderr)
    return 0


def _content(model: Any, to: str, float32: bool) -> tuple[bytes, str]:
    """What is written, and what its inputs are called."""
    from polymargin.export import to_json, to_onnx

    if to == "json":
        return (to_json(model) + "\n").encode(), ""
    proto = to_onnx(model, dtype="float32" if float32 else None)
    return bytes(proto.SerializeToString()), f", inputs: {', '.join(one.name for one in proto.graph.input)}"
