"""Reading and writing data files: kinds of columns, targets, layouts, preprocessing."""

import gzip
import io
import time
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from polymargin import CrammerSingerSVC
from polymargin.tables import Layout, NamedColumns, TableError, make_preprocessor, read_table
from polymargin.tables.write import table_bytes

MIXED = "size,colour,weight,kind\n1,red,0.5,a\n2,,0.25,a\n?,blue,NA,b\n9,blue,-1e3,b\n"


def table_of(text, format="csv", **options):
    return read_table(io.BytesIO(text if isinstance(text, bytes) else text.encode()), format=format, **options)


def test_kinds_names_and_missing_values():
    table = table_of(MIXED)
    assert table.feature_names == ("size", "colour", "weight") and table.text == ("colour",)
    assert table.X[:, 1].tolist() == ["red", "", "blue", "blue"]
    np.testing.assert_array_equal(table.X[:, 2].astype(float), [0.5, 0.25, np.nan, -1000])
    assert table.y.tolist() == ["a", "a", "b", "b"] and table.target_name == "kind"
    numbers = table_of(MIXED, drop=["colour"])
    assert numbers.X.dtype == np.float64 and numbers.X.shape == (4, 2)


@pytest.mark.parametrize(
    "target, expected",
    [(None, "kind"), ("colour", "colour"), ("2", "colour"), ("-1", "kind"), ("1", "size")],
)
def test_target_by_name_or_place(target, expected):
    assert table_of("size,colour,kind\n1,red,a\n2,blue,b\n", target=target).target_name == expected


def test_a_usual_name_is_the_target_wherever_it_is():
    assert table_of("Class,a,b\np,1,2\nq,3,4\n").target_name == "Class"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"target": "knd"}, r"no column 'knd' \(--target\); did you mean 'kind'\?"),
        ({"target": "9"}, r"no column 9 .*1 to 4"),
        ({"target": "size,kind"}, "2 target columns: say --multilabel"),
        ({"target": "kind,4"}, "twice"),
        ({"target": "3:2"}, "empty"),
        ({"multilabel": True}, "say which columns are the labels"),
        ({"drop": ["color"]}, r"no column 'color' \(--drop\); did you mean 'colour'"),
        ({"drop": ["size", "colour", "weight"]}, "no column is left"),
        ({"target": "weight", "drop": ["size"]}, "line 4, column 'weight': the target is missing"),
        ({"format": "cvs"}, "did you mean 'csv'"),
        ({"encoding": "klingon"}, "klingon"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        table_of(MIXED, **options)


def test_labels_are_integers_only_if_written_so():
    assert table_of("a,k\n1,1\n2,-2\n").y.dtype == np.int64
    assert table_of("a,k\n1,01\n2,2\n").y.tolist() == ["01", "2"]
    assert table_of("a,k\n1,1.0\n2,2.0\n").y.tolist() == ["1.0", "2.0"]


def test_a_word_among_numbers_is_an_error_with_line_and_column():
    text = "a,b,k\n" + "1,2,p\n" * 5 + '\n"1","abc",q\n'
    with pytest.raises(TableError, match=r"line 8, column 'b': 'abc' is not a number") as caught:
        table_of(text)
    assert caught.value.line == 8 and caught.value.column == "b"
    assert table_of(text, missing=["abc"]).X[-1, 1] != table_of(text, missing=["abc"]).X[-1, 1]
    assert table_of(text, categorical=["b"]).text == ("b",)


def test_a_word_after_many_rows_is_found_too():
    with pytest.raises(TableError, match=r"line 25003, column 'b'"):
        table_of("a,b,k\n" + "1,2,p\n" * 25001 + "1,z,q\n")


def test_headers():
    assert table_of("1,2,1\n3,4,2\n").feature_names == ("column 1", "column 2")
    assert table_of("1,b,2\n3,4,2\n", header=True).feature_names == ("1", "b")
    assert table_of("5,x\n6,y\n", header=False).y.tolist() == ["x", "y"]
    with pytest.raises(TableError, match="header or the first row"):
        table_of("5,x\n6,y\n")


def test_delimiters_decimals_encodings_and_archives():
    assert table_of("a;b;k\n1,5;2;p\n2,5;3;q\n", decimal=",").X[0, 0] == 1.5
    with pytest.raises(TableError, match="decimal comma"):
        table_of("a;b;k\n1,5;2;p\n2,5;3;q\n")
    assert table_of("a|k\n1|p\n2|q\n", delimiter="|").X.shape == (2, 1)
    assert table_of("a,k\n1,é\n2,q\n".encode("latin-1"), encoding="latin-1").y[0] == "é"
    assert table_of("\ufeffa,k\n1,p\n2,q\n").feature_names == ("a",)
    assert table_of(gzip.compress(MIXED.encode())).n_rows == 4
    assert table_of("a,k\r\n1,p\r\n2,q\r\n").y.tolist() == ["p", "q"]


def test_names_of_rows_are_warned_about():
    text = "id,a,k\n" + "".join(f"r{i},{i},{'pq'[i % 2]}\n" for i in range(60))
    with pytest.warns(UserWarning, match="column 'id': 60 different texts in 60 rows"):
        table_of(text)


def test_several_labels():
    columns = table_of("a,u,v\n1,1,0\n2,0,1\n", target="u,v", multilabel=True)
    assert columns.y.tolist() == [[1, 0], [0, 1]] and columns.target_names == ("u", "v")
    one = table_of("a,tags\n1,u;v\n2,\n3, v \n", target="tags", multilabel=True)
    assert one.y.tolist() == [[1, 1], [0, 0], [0, 1]] and one.target_names == ("u", "v")
    svm = table_of("10,2 1:1\n2 2:1\n 1:3\n", "svmlight", multilabel=True)
    assert svm.y.tolist() == [[1, 1], [1, 0], [0, 0]] and svm.target_names == ("2", "10")
    with pytest.raises(TableError, match=r"line 3, column 'v': a label column holds 1, 0 and -1 .*, not '2'"):
        table_of("a,u,v\n1,1,0\n2,0,2\n", target="-2:", multilabel=True)


def test_labels_that_are_known_not_to_be_there():
    assert table_of("a,u,v\n1,1,-1\n2,0,1.0\n", target="u,v", multilabel=True).y.tolist() == [[1, -1], [0, 1]]
    head = "@relation r\n@attribute a numeric\n@attribute u {-1,0,1}\n@attribute v numeric\n@data\n"
    assert table_of(head + "1,-1,1\n2,1,-1\n", "arff", target="-2:", multilabel=True).y.tolist() == [[-1, 1], [1, -1]]
    file = io.BytesIO()
    np.savez(file, X=np.eye(2), y=np.array([[1.0, -1.0], [0.0, 1.0]]))
    assert table_of(file.getvalue(), "npz", multilabel=True).y.tolist() == [[1, -1], [0, 1]]


def test_large_numbers_of_labels_stay_apart():
    """'%g' would make one label of 1000001 and 1000002."""
    table = table_of("1000001 1:1\n1000002,0.5 1:2\n", "svmlight", multilabel=True)
    assert table.target_names == ("0.5", "1000001", "1000002") and table.y.tolist() == [[0, 1, 0], [1, 0, 1]]


# ---- many columns, long cells ---------------------------------------------------------------------------------------------


def seconds_for(n_columns, cell="1.5"):
    names = ",".join(f"c{k}" for k in range(n_columns))
    text = (names + ",y\n" + (f"{cell}," * n_columns + "p\n") + ("2.25," * n_columns + "q\n") * 2).encode()
    began = time.process_time()
    table = table_of(text)
    seconds = time.process_time() - began
    assert table.X.shape == (3, n_columns) and table.y.tolist() == ["p", "q", "q"] and table.X[1, -1] == 2.25
    began = time.process_time()
    again = table_of(text, layout=table.layout)
    np.testing.assert_array_equal(again.X, table.X)
    return seconds, time.process_time() - began


@pytest.mark.parametrize("cell", ["1.5", "?"])
def test_reading_is_linear_in_the_columns(cell):
    """40,000 columns took 10 s, 10^6 never ended (reliability case 33): now 0.15 s and 4 s."""
    seconds_for(10, cell)  # imports
    few, many = seconds_for(20_000, cell), seconds_for(160_000, cell)
    assert max(few) < 1.0, few  # 0.1 s on an idle processor
    for one, eight in zip(few, many, strict=True):
        assert eight < 16 * max(one, 0.05), (few, many)


def test_a_column_that_begins_with_missing_values_is_decided_later(monkeypatch):
    monkeypatch.setattr("polymargin.tables.formats.delimited.CHUNK", 2)
    table = table_of("a,b,c,k\n1,?,,p\n2,?,,q\n3,red,,p\n4,,,q\n5,blue,7,p\n")
    assert table.text == ("b",) and table.X[:, 1].tolist() == ["", "", "red", "", "blue"]
    np.testing.assert_array_equal(table.X[:, 2].astype(float), [np.nan] * 4 + [7])
    np.testing.assert_array_equal(table.X[:, 0].astype(float), [1, 2, 3, 4, 5])


LONG = "x" * 100_000
ECHOED = {
    "csv": f"a,k\n1,p\n2,p\n3,p\n{LONG},q\n",
    "arff": f"@relation r\n@attribute a {{u,v}}\n@attribute k {{p,q}}\n@data\n{LONG},p\n",
    "arff header": f"@relation r\n@attribute {LONG}\n@data\n",
    "svmlight": f"{LONG} 1:1\n",
    "svmlight pair": f"1 1:{LONG}\n",
    "tsv": "\t".join([LONG, LONG]),
}


@pytest.mark.parametrize("name", ECHOED)
def test_cells_are_cut_in_messages(name):
    with pytest.raises(TableError) as caught:
        table_of(ECHOED[name], name.split()[0])
    assert len(str(caught.value)) < 400 and "x" * 30 in str(caught.value)
    assert "x" * 50 not in str(caught.value)


def test_control_characters_are_written_out_in_messages():
    with pytest.raises(TableError) as caught:
        table_of("a,k\n1,p\n2,p\n3,p\n\x1b[31mred,q\n")
    assert "\x1b" not in str(caught.value) and r"\x1b[31mred" in str(caught.value)


# ---- svmlight -------------------------------------------------------------------------------------------------------------


def test_the_base_of_svmlight_indices_is_not_guessed():
    """A zero-based file without index 0 would silently lose a column (reliability case 8)."""
    text = "1 2:5\n2 3:1\n"
    assert table_of(text, "svmlight").X.shape == (2, 3)
    assert table_of(text, "svmlight", index_base=0).X.shape == (2, 4)
    assert table_of(text, "svmlight").X[0, 1] == 5 and table_of(text, "svmlight", index_base=0).X[0, 2] == 5
    with pytest.raises(TableError, match="line 1: the index 0 is below 1"):
        table_of("1 0:5\n2 3:1\n", "svmlight")


def test_svmlight_columns_are_those_of_the_model():
    layout = table_of("1 1:1 5:2\n2 2:1\n", "svmlight").layout
    assert table_of("1 1:1\n", "svmlight", layout=layout).X.shape == (1, 5)
    with pytest.raises(TableError, match="line 1: the index 6 is too large for 5 features"):
        table_of("1 6:1\n", "svmlight", layout=layout)
    assert table_of("1 1:1\n2 2:2\n", "svmlight", n_features=7).X.shape == (2, 7)


def test_named_columns_do_not_exist_in_svmlight():
    with pytest.raises(TableError, match="target"):
        table_of("1 1:1\n", "svmlight", target="a")


# ---- other formats --------------------------------------------------------------------------------------------------------

ARFF = """% a comment
@RELATION 'some thing'
@ATTRIBUTE 'a b' NUMERIC
@attribute colour {red, 'light blue'}
@attribute flag {0,1}
@attribute kind {p,q}
@DATA
1.5,'light blue',1,p
% another
?,red,0,q
"""


def test_arff():
    table = table_of(ARFF, "arff")
    assert table.feature_names == ("a b", "colour", "flag") and table.text == ("colour",)
    assert table.X[0].tolist() == [1.5, "light blue", 1.0] and table.y.tolist() == ["p", "q"]


def test_sparse_arff_is_sparse():
    text = "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@attribute k {p,q}\n@data\n{0 2, 2 q}\n{1 1}\n"
    table = table_of(text, "arff")
    assert sparse.issparse(table.X) and table.X.toarray().tolist() == [[2, 0], [0, 1]] and table.y.tolist() == ["q", "p"]


SPARSE = "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@attribute c {u,v}\n@attribute k {p,q}\n@data\n"


def test_an_index_that_comes_twice_in_a_sparse_row_is_an_error():
    """The last one used to win silently (reliability case 34)."""
    with pytest.raises(TableError, match=r"line 8, column 'a': the index 0 comes twice"):
        table_of(SPARSE + "{0 1, 3 q}\n{0 1, 1 1, 0 2}\n", "arff")
    with pytest.raises(TableError, match=r"line 7, column 'c': 'w' is not one of the declared 'u', 'v'"):
        table_of(SPARSE + "{0 1, 2 w}\n", "arff")


def test_sparse_arff_with_texts_missing_values_and_layouts():
    mixed = table_of(SPARSE + "{0 2, 2 v, 3 q}\n{1 1}\n", "arff")
    assert mixed.text == ("c",) and mixed.X.tolist() == [[2, 0, "v"], [0, 1, "u"]] and mixed.y.tolist() == ["q", "p"]
    numbers = table_of(SPARSE + "{0 2, 3 q}\n{1 1, 0 ?}\n", "arff", drop=["c"])
    np.testing.assert_array_equal(numbers.X.toarray(), [[2, 0], [np.nan, 1]])
    again = table_of(SPARSE + "{0 3}\n", "arff", layout=table_of(SPARSE + "{0 2, 3 q}\n{1 1}\n", "arff").layout)
    assert again.X.tolist() == [[3, 0, "u"]]
    plain = SPARSE.replace("@attribute c {u,v}\n", "")
    layout = table_of(plain + "{0 2, 2 q}\n{1 1}\n", "arff").layout
    new = table_of(plain + "{1 1, 0 4}\n", "arff", layout=layout)
    assert sparse.issparse(new.X) and new.X.toarray().tolist() == [[4, 1]] and new.y.tolist() == ["p"]


@pytest.mark.parametrize("format", ["csv", "tsv", "npz", "parquet", "svmlight"])
def test_what_is_written_is_read_again(format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{a!r},{b!r},{k}\n" for (a, b), k in zip(rng.standard_normal((20, 2)).tolist(), [1, 2] * 10, strict=True)
    )
    table = table_of("a,b,k\n" + rows)
    content, remark = table_bytes(table, format)
    again = table_of(content, format)
    X = again.X.toarray() if again.sparse else again.X
    np.testing.assert_allclose(X, table.X, rtol=1e-15 if format == "svmlight" else 0)
    assert again.y.tolist() == table.y.tolist() and remark == ""


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet"])
def test_texts_and_missing_values_are_written_too(format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    table = table_of(MIXED)
    again = table_of(table_bytes(table, format)[0], format)
    assert again.X[:, 1].tolist() == table.X[:, 1].tolist() and again.text == table.text
    np.testing.assert_array_equal(again.X[:, [0, 2]].astype(float), table.X[:, [0, 2]].astype(float))


def test_texts_cannot_be_written_as_numbers():
    for format in ("npz", "svmlight"):
        with pytest.raises(TableError, match="column 'colour'"):
            table_bytes(table_of(MIXED), format)
    content, remark = table_bytes(table_of("a,k\n1,p\n2,q\n"), "svmlight")
    assert remark == "labels: 0 = p, 1 = q" and content.startswith(b"0 1:1")


def test_float32_stays_float32():
    file = io.BytesIO()
    np.savez(file, X=np.eye(2, dtype=np.float32), y=np.arange(2))
    assert table_of(file.getvalue(), "npz").X.dtype == np.float32


# ---- layouts and preprocessing --------------------------------------------------------------------------------------------


def test_columns_are_found_by_name():
    layout = table_of(MIXED).layout
    assert Layout.from_json(layout.to_json()) == layout
    new = table_of("extra,weight,colour,size\n7,1,green,3\n", layout=layout)
    assert new.X.tolist() == [[3.0, "green", 1.0]] and new.y is None
    assert table_of(MIXED, layout=layout).y.tolist() == ["a", "a", "b", "b"]
    with pytest.raises(TableError, match=r"no column 'size'.*did you mean 'sise'"):
        table_of("sise,colour,weight\n1,red,1\n", layout=layout)
    with pytest.raises(TableError, match="line 2, column 'size': 'big' is not a number; the model was trained with numbers"):
        table_of("size,colour,weight\nbig,red,1\n", layout=layout)


def test_without_a_header_columns_are_found_by_place():
    layout = table_of("a,b,k\n1,2,p\n3,4,q\n").layout
    assert table_of("5,6\n", layout=layout).X.tolist() == [[5, 6]]
    with pytest.raises(TableError, match="3 columns without names, but the model was trained with 2"):
        table_of("5,6,7\n", layout=layout)


def test_other_formats_fit_a_layout_of_numbers():
    layout = table_of("a,b,k\n1,2,1\n3,4,2\n").layout
    rows = table_of("1 2:7\n", "svmlight", layout=layout).X
    assert not sparse.issparse(rows) and rows.tolist() == [[0, 7]]
    with pytest.raises(TableError, match="trained with texts in the column 'colour'"):
        table_of("1 2:7 3:1\n", "svmlight", layout=table_of(MIXED).layout)


def test_the_preprocessor_fills_encodes_and_scales():
    table = table_of(MIXED)
    prepared = make_preprocessor(table).fit(table.X)
    X = prepared.transform(table.X)
    X = X.toarray() if sparse.issparse(X) else X
    assert X.shape == (4, 2 + 3)  # two numbers; red, blue and missing
    np.testing.assert_allclose(X[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[:, :2].std(axis=0), 1)
    np.testing.assert_array_equal(X[:, 2:].sum(axis=1), 1)
    unseen = prepared.transform(np.array([[1.0, "green", 2.0]], dtype=object))
    unseen = unseen.toarray() if sparse.issparse(unseen) else unseen
    assert not unseen[0, 2:].any()
    raw = make_preprocessor(table_of(MIXED, drop=["colour"]), scale=False).fit_transform([[1, 2], [3, np.nan]])
    assert raw.tolist() == [[1, 2], [3, 2]]
    clone(prepared).fit(table.X)


def test_the_preprocessor_keeps_sparse_rows_sparse():
    table = table_of("1 1:2 3:-4\n2 2:1\n", "svmlight")
    X = make_preprocessor(table).fit_transform(table.X)
    assert sparse.issparse(X) and X.toarray().tolist() == [[1, 0, -1], [0, 1, 0]]
    same = make_preprocessor(table, scale=False).fit_transform(table.X)
    assert sparse.issparse(same) and (same != table.X).nnz == 0


def test_an_empty_column_is_no_obstacle():
    table = table_of("a,b,k\n1,?,p\n2,?,q\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(make_preprocessor(table).fit_transform(table.X)).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_in_any_order_of_columns(library):
    module = pytest.importorskip(library)
    table = table_of(MIXED)
    model = make_pipeline(make_preprocessor(table), CrammerSingerSVC(random_state=0)).fit(table.X, table.y)
    columns = {"weight": [0.5, None], "extra": [1, 2], "colour": [None, "blue"], "size": [2.0, 9.0]}
    frame = module.DataFrame(columns)
    rows = np.array([[2.0, "", 0.5], [9.0, "blue", np.nan]], dtype=object)
    np.testing.assert_array_equal(model.decision_function(frame), model.decision_function(rows))
    with pytest.raises(ValueError, match="no column 'size'"):
        model.predict(module.DataFrame({"weight": [1.0], "colour": ["red"]}))
    with pytest.raises(ValueError, match="3 columns are needed"):
        model.predict(np.zeros((1, 2)))


def test_named_columns_checks_numbers():
    columns = NamedColumns(("a", "b")).fit([[1, 2]])
    assert columns.get_feature_names_out().tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="column 'b' must hold numbers"):
        columns.transform(np.array([[1, "x"]], dtype=object))


def test_the_list_of_labels_of_mulan_names_the_target(tmp_path):
    place = tmp_path / "labels.xml"
    place.write_text(
        '<?xml version="1.0"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n<!-- <label name="a"/> -->\n'
        "<label name='k &amp; l'><label name=\"m\"></label></label>\n</labels>\n"
    )
    head = "@relation r\n@attribute a numeric\n@attribute 'k & l' {0,1}\n@attribute m {0,1}\n@data\n"
    table = table_of(head + "1,0,1\n2,1,0\n", "arff", target=str(place), multilabel=True)
    assert table.target_names == ("k & l", "m") and table.y.tolist() == [[0, 1], [1, 0]]
    place.write_text("<labels></labels>")
    with pytest.raises(TableError, match="no <label name"):
        table_of(head + "1,0,1\n", "arff", target=str(place), multilabel=True)
