"""The data sets of the papers by name: `load`, `names`."""

from polymargin.datasets.named import Dataset, DatasetError, file_of, load, names

__all__ = ["Dataset", "DatasetError", "file_of", "load", "names"]
