"""Max-margin classification with many classes, certified optimal."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polymargin.comparison import compare_machines
    from polymargin.estimators import (
        M3SVC,
        AngularSVC,
        CrammerSingerSVC,
        LpNormSVC,
        MarginDistributionSVC,
        MarginSVC,
        MultiLabelSVC,
        OneVsNoneSVC,
        TopKSVC,
        WestonWatkinsSVC,
    )
    from polymargin.estimators.family import machines
    from polymargin.export import to_json, to_onnx
    from polymargin.problems.certificate import Certificate
    from polymargin.rejection import RejectOption
    from polymargin.selection.path_cv import PathCV
    from polymargin.selection.paths import regularization_path
    from polymargin.storage.models import load, save
    from polymargin.trees import LabelTree

__version__ = "0.1.0"

__all__ = [
    "M3SVC",
    "AngularSVC",
    "Certificate",
    "CrammerSingerSVC",
    "LabelTree",
    "LpNormSVC",
    "MarginDistributionSVC",
    "MarginSVC",
    "MultiLabelSVC",
    "OneVsNoneSVC",
    "PathCV",
    "RejectOption",
    "TopKSVC",
    "WestonWatkinsSVC",
    "__version__",
    "compare_machines",
    "load",
    "machines",
    "regularization_path",
    "save",
    "to_json",
    "to_onnx",
]

# Names load on use, so that the command line can answer --help without scikit-learn. Machines live in `estimators`.
_HOMES = {
    "Certificate": "problems.certificate",
    "LabelTree": "trees",
    "PathCV": "selection.path_cv",
    "RejectOption": "rejection",
    "compare_machines": "comparison",
    "load": "storage.models",
    "machines": "estimators.family",
    "regularization_path": "selection.paths",
    "save": "storage.models",
    "to_json": "export",
    "to_onnx": "export",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'polymargin' has no attribute {name!r}")
    value = getattr(import_module(f"polymargin.{_HOMES.get(name, 'estimators')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
