"""Data files as tables (csv, tsv, svmlight, xc, parquet, arff, npz), and what goes before a machine.

table = read_table("iris.csv", target="species")
model = make_pipeline(make_preprocessor(table), CrammerSingerSVC()).fit(table.X, table.y)
new = read_table("new.csv", layout=table.layout)
"""

from polymargin.tables.preprocess import NamedColumns, make_preprocessor
from polymargin.tables.read import read_table
from polymargin.tables.source import FORMATS
from polymargin.tables.table import Layout, Table, TableError

__all__ = ["FORMATS", "Layout", "NamedColumns", "Table", "TableError", "make_preprocessor", "read_table"]
