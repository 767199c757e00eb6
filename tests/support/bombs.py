"""Small files that stand for gigabytes: name, how it is read, content. Used by the tests and as seeds of the fuzzer."""

import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_iris

from polymargin import CrammerSingerSVC, save


class Bomb(NamedTuple):
    """`options` are those of `read_table`, None for a model; `message` is what the error says, "" if it can be read."""

    name: str
    content: bytes
    options: dict | None
    message: str


def npy_header(shape, dtype):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": shape})
    return out.getvalue()


def archive(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in entries.items():
            packed.writestr(name, content)
    return out.getvalue()


def deflated_zeros(head, megabytes):
    """A raw deflate stream of `head` and so many megabytes of zeros, made without unpacked zeros anywhere."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * megabytes + packer.flush()


def npz_of_zeros(megabytes):
    head = npy_header((megabytes << 7, 1 << 10), "<f8")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("X.npy", deflated_zeros(head, megabytes))
        info = packed.filelist[0]  # the directory at the end says how it is packed
        info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, len(head) + (megabytes << 20)
    return out.getvalue()


def iris_model(change=None, **entries):
    """A model file with another tree or other entries."""
    file = io.BytesIO()
    save(CrammerSingerSVC(random_state=0).fit(*load_iris(return_X_y=True)), file)
    with zipfile.ZipFile(file) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    if change is not None:
        head = json.loads(parts["model.json"])
        change(head)
        parts["model.json"] = json.dumps(head)
    return archive({**parts, **entries})


def parquet_of_zeros():
    import pyarrow
    import pyarrow.parquet as parquet

    group = pyarrow.table({name: np.zeros(2_000_000, dtype=np.int8) for name in "abcy"})
    out = io.BytesIO()
    with parquet.ParquetWriter(out, group.schema) as writer:
        for _ in range(20):
            writer.write_table(group)
    return out.getvalue()


def parquet_of_one_long_text():
    import pyarrow
    import pyarrow.parquet as parquet

    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array(np.arange(1000) % 2, pyarrow.int32()), ["x" * 3_000_000, "y"])
    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": np.arange(1000.0), "b": texts}), out)
    return out.getvalue()


def bombs() -> Iterator[Bomb]:
    many = 1 << 33
    for dtype in ("|S0", "<U0", "|V0"):
        content = iris_model(**{"0.npy": npy_header((many,), dtype)})
        yield Bomb(f"model of {dtype}", content, None, f"holds {dtype}")
    again = iris_model(lambda head: head["model"]["state"].update(gamma=[{"array": 99}] * 20_000), **{
        "99.npy": npy_header((1 << 17,), "<f8") + bytes(1 << 20)})  # fmt: skip
    yield Bomb("model that names an array 20,000 times", again, None, "")
    yield Bomb("skops file of |S0", archive({"schema.json": "{}", "1.npy": npy_header((many,), "|S0")}), None, "holds |S0")
    inside = archive({"schema.json": "{}", "1.npz": npz_of_zeros(4096)})
    yield Bomb("skops file with an archive inside", inside, None, "max_bytes")
    tree = b'{"x": [' + b"[]," * 5_000_000 + b"[]]}"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("schema.json", tree)
    yield Bomb("skops file with a huge tree", out.getvalue(), None, "max_bytes")
    yield Bomb("zeros.npz", npz_of_zeros(4096), {"format": "npz"}, "max_bytes")
    empty = {"X.npy": npy_header((many, 1), "|S0"), "y.npy": npy_header((3,), "<i8") + bytes(24)}
    yield Bomb("S0.npz", archive(empty), {"format": "npz"}, "holds |S0")
    rows = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1]), "shape": np.array([2**31 - 2, 1])}
    out = io.BytesIO()
    np.savez(out, format=np.array("csc"), y=np.zeros(3), **rows)
    yield Bomb("csc of endless rows.npz", out.getvalue(), {"format": "npz"}, "max_bytes")
    member = gzip.compress(b"0,0,0,0,0,0,0,0\n" * (1 << 19))
    yield Bomb("rows.csv.gz", member * 200, {"format": "csv"}, "max_bytes")
    yield Bomb("columns.csv.gz", gzip.compress(b"a," * 20_000_000 + b"y\n"), {"format": "csv"}, "max_bytes")
    text = "a,tags\n" + "".join(f"1,label{k}\n" for k in range(40_000))
    yield Bomb("labels.csv", text.encode(), {"format": "csv", "target": "tags", "multilabel": True}, "40000 labels")
    text = "a,k\n1," + "p" * 100_000 + "\n" + "1,q\n" * 50_000
    yield Bomb("long label.csv", text.encode(), {"format": "csv"}, "labels as long as 'pppp")
    head = "@relation r\n" + "".join(f"@attribute a{k} numeric\n" for k in range(20_000)) + "@attribute k {p,q}\n@data\n"
    rows_of_none = "{0 1}\n{1 2, 20000 q}\n" + "{}\n" * 20_000
    yield Bomb("sparse.arff", (head + rows_of_none).encode(), {"format": "arff"}, "")
    texts = head.replace("a0 numeric", "a0 string") + rows_of_none
    yield Bomb("dense.arff", texts.encode(), {"format": "arff"}, "20001 dense columns")
    try:
        yield Bomb("zeros.parquet", parquet_of_zeros(), {"format": "parquet"}, "max_bytes")
        yield Bomb("text.parquet", parquet_of_one_long_text(), {"format": "parquet", "target": "b"}, "labels as long as")
        yield Bomb("category.parquet", parquet_of_one_long_text(), {"format": "parquet", "target": "a"}, "")
    except ImportError:
        pass
