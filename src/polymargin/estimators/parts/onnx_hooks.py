"""What skl2onnx asks an estimator for: machines convert themselves, alone and inside pipelines."""

from __future__ import annotations

from typing import Any


class OnnxHooks:
    """The three methods of skl2onnx's protocol; see :func:`polymargin.to_onnx`."""

    def onnx_parser(self) -> Any:
        """The function that declares the outputs: labels, scores, and probabilities if there are any."""
        from polymargin.export.onnx import parser_of

        return parser_of(self)

    def onnx_shape_calculator(self) -> Any:
        """The function that sets their types and shapes."""
        from polymargin.export.onnx import shape_calculator_of

        return shape_calculator_of(self)

    def onnx_converter(self) -> Any:
        """The function that adds the machine to an ONNX model in the making."""
        from polymargin.export.onnx import converter_of

        return converter_of(self)
