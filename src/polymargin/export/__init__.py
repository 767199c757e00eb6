"""Fitted machines for other places: ONNX graphs, and plain JSON that any language can score."""

from polymargin.export.onnx import to_onnx
from polymargin.export.plain import to_json

__all__ = ["to_json", "to_onnx"]
