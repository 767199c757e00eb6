"""Damaged and hostile files for all readers and `load`, under a ceiling of memory and time.

    python -m fuzz.readers --seconds 60          # new inputs; with Atheris if it is installed (pip install -e ".[fuzz]")
    python -m fuzz.readers --replay FILE ...     # what an input does

An input is a byte that says how it is read (`WAYS`), then the content. Archives are put together here from the parts of the
input, so that a changed byte meets the reader and not the archive's checksum. A reader may return a table or a model, or
say in a sentence what is wrong. Anything else is a defect: another exception, memory or time without measure, a sentence
without end. Inputs that found one are kept in ``fuzz/corpus/readers``, and the tests read them all.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import io
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus" / "readers"
FINDINGS = Path(__file__).parent / "findings"
MAX_BYTES = 1 << 28  # what readers are told that they may take
CEILING = 1 << 30  # what they get beyond what Python has at the start
LONGEST_SECONDS = 20  # for one input
LONGEST_MESSAGE = 1000


class Defect(AssertionError):
    """A reader did something else than return or say what is wrong."""


# ---- what is done with an input ------------------------------------------------------------------------------------------


def check(data: bytes) -> str:
    """Read one input; returns "" or what the reader said; raises what is a defect."""
    from polymargin.storage.models import ModelFileError
    from polymargin.tables import TableError

    if not data:
        return ""
    ways = list(WAYS.values())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ways[data[0] % len(ways)](data[1:])
    except (TableError, ModelFileError) as error:
        message = str(error)
        if not message.strip() or len(message) > LONGEST_MESSAGE or "\x1b" in message:
            raise Defect(f"a message of {len(message)} characters: {message[:200]!r}") from error
        return message
    return ""


def _table(content: bytes, **options: Any) -> None:
    import numpy as np

    from polymargin.tables import read_table

    table = read_table(io.BytesIO(content), max_bytes=MAX_BYTES, **options)
    if table.y is not None and len(table.y) != table.n_rows:
        raise Defect(f"{table.n_rows} rows, but {len(table.y)} labels")
    numbers = table.X.data if table.sparse else table.X if not table.text else np.zeros(0)
    if not table.n_rows or not table.n_features or np.isinf(numbers).any():
        raise Defect(f"a table of shape {table.X.shape} with infinite numbers or without any")
    if table.feature_names is not None and len(table.feature_names) != table.n_features:
        raise Defect("names that are not those of the columns")
    table.describe()


def _model(content: bytes) -> None:
    from polymargin.storage.models import load_with_notes

    model, _ = load_with_notes(io.BytesIO(content), max_bytes=MAX_BYTES)
    if not hasattr(model, "get_params"):
        raise Defect("something that is no estimator")


def parts_of(content: bytes) -> dict[str, bytes]:
    """Entries of an archive: length and text of the name, length and bytes of the content, one after the other."""
    entries: dict[str, bytes] = {}
    place = 0
    while place < len(content):
        name = content[place + 1 : place + 1 + content[place]].decode("latin-1")
        place += 1 + content[place]
        size = int.from_bytes(content[place : place + 4], "little")
        entries[name] = content[place + 4 : place + 4 + size]
        place += 4 + size
    return entries


def joined(entries: dict[str, bytes]) -> bytes:
    """What `parts_of` takes apart."""
    pieces = []
    for name, content in entries.items():
        pieces += [bytes([len(name)]), name.encode("latin-1"), struct.pack("<I", len(content)), content]
    return b"".join(pieces)


def _archive(entries: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in entries.items():
            packed.writestr(name.replace("/", "_").replace("\0", "_") or "_", content)
    return out.getvalue()


def _model_with_tree(tree: bytes) -> None:
    _model(_archive({**_good_model(), "model.json": tree}))


@functools.cache
def _good_model() -> dict[str, bytes]:
    """Entries of a model file."""
    from sklearn.datasets import load_iris
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from polymargin import CrammerSingerSVC, save

    X, y = load_iris(return_X_y=True)
    out = io.BytesIO()
    save(make_pipeline(StandardScaler(), CrammerSingerSVC(random_state=0)).fit(X[::15], y[::15]), out)
    with zipfile.ZipFile(out) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


@functools.cache
def _layout(format: str) -> Any:
    from polymargin.tables import read_table

    texts = {"csv": _CSV, "sparse": _SPARSE_ARFF}
    return read_table(io.BytesIO(texts[format]), format="csv" if format == "csv" else "arff").layout


_CSV = b"size,colour,kind\n1,red,a\n2.5,,a\n?,blue,b\n9,blue,b\n"
_LABELS = b"a,u,v\n1,1,0\n2,0,-1\n3,1,1\n"
_TAGS = b"a,tags\n1,u;v\n2,\n3, v \n"
_ARFF = (
    b"% c\n@RELATION 'r s'\n@ATTRIBUTE 'a b' NUMERIC\n@attribute c {red, 'light blue'}\n@attribute k {p,q}\n"
    b"@DATA\n1,red,p\n?,'light blue',q\n"
)
_SPARSE_ARFF = b"@relation r\n@attribute a numeric\n@attribute b {0,1}\n@attribute k {p,q}\n@data\n{0 2, 2 q}\n{1 1}\n"
_SVMLIGHT = b"1 1:2 3:-4e-1 # c\n2 qid:1 2:1\n"

WAYS: dict[str, Callable[[bytes], None]] = {
    "csv": lambda data: _table(data, format="csv"),
    "csv-labels": lambda data: _table(data, format="csv", target="-2:", multilabel=True),
    "csv-tags": lambda data: _table(data, format="csv", target="-1", multilabel=True),
    "csv-comma": lambda data: _table(data, format="csv", decimal=",", header=True),
    "csv-latin": lambda data: _table(data, format="csv", encoding="latin-1", header=False),
    "csv-utf16": lambda data: _table(data, format="csv", encoding="utf-16"),
    "csv-layout": lambda data: _table(data, format="csv", layout=_layout("csv")),
    "tsv": lambda data: _table(data, format="tsv", categorical=["a"]),
    "arff": lambda data: _table(data, format="arff"),
    "arff-labels": lambda data: _table(data, format="arff", target="-2:", multilabel=True),
    "arff-layout": lambda data: _table(data, format="arff", layout=_layout("sparse")),
    "svmlight": lambda data: _table(data, format="svmlight"),
    "svmlight-labels": lambda data: _table(data, format="svmlight", multilabel=True, index_base=0),
    "svmlight-width": lambda data: _table(data, format="svmlight", n_features=5),
    "npz": lambda data: _table(data, format="npz"),
    "npz-parts": lambda data: _table(_archive(parts_of(data)), format="npz"),
    "npz-labels": lambda data: _table(_archive(parts_of(data)), format="npz", multilabel=True),
    "parquet": lambda data: _table(data, format="parquet"),
    "parquet-layout": lambda data: _table(data, format="parquet", layout=_layout("csv")),
    "model": _model,
    "model-parts": lambda data: _model(_archive(parts_of(data))),
    "model-tree": _model_with_tree,
}


# ---- seeds ---------------------------------------------------------------------------------------------------------------


def seeds() -> Iterator[bytes]:
    """Sound inputs for every way, and all that are kept."""
    for way, contents in _sound().items():
        yield from (_input(way, content) for content in contents)
    yield from (path.read_bytes() for path in sorted(CORPUS.iterdir()))


def _input(way: str, content: bytes) -> bytes:
    return bytes([list(WAYS).index(way)]) + content


def _sound() -> dict[str, list[bytes]]:
    import gzip

    import numpy as np

    def npy(array: Any) -> bytes:
        out = io.BytesIO()
        np.lib.format.write_array(out, np.asarray(array))
        return out.getvalue()

    dense = {"X.npy": npy(np.eye(3)), "y.npy": npy(np.arange(3)), "feature_names.npy": npy(["a", "b", "c"])}
    table = {"data.npy": npy(np.ones(2)), "indices.npy": npy([0, 1]), "indptr.npy": npy([0, 1, 2]), "shape.npy": npy([2, 2])}
    labels = {"X.npy": npy(np.eye(2, dtype=np.uint8)), "y.npy": npy([[1, 0], [-1, 1]]), "target_names.npy": npy(["u", "v"])}
    model = _good_model()
    sound = {
        "csv": [_CSV, gzip.compress(_CSV), b"1;2\n3;4\n", b'"a","b"\n"1,5","x\ny"\n'],
        "csv-labels": [_LABELS],
        "csv-tags": [_TAGS],
        "csv-comma": [b"a;b\n1,5;p\n2,5;q\n"],
        "csv-latin": [b"1,\xe9\n2,q\n"],
        "csv-utf16": [_CSV.decode().encode("utf-16")],
        "csv-layout": [_CSV, b"colour,size\nred,7\n"],
        "tsv": [b"a\tb\n1\tp\n2\tq\n"],
        "arff": [_ARFF, _SPARSE_ARFF],
        "arff-labels": [_SPARSE_ARFF.replace(b"{p,q}", b"{-1,0,1}").replace(b"2 q", b"2 1")],
        "arff-layout": [_SPARSE_ARFF],
        "svmlight": [_SVMLIGHT],
        "svmlight-labels": [b"10,2 1:1\n2 2:1\n 1:3\n"],
        "svmlight-width": [_SVMLIGHT],
        "npz": [_archive(dense)],
        "npz-parts": [joined(dense), joined({**table, "y.npy": npy([0, 1]), "format.npy": npy("csc")}), joined(table)],
        "npz-labels": [joined(labels)],
        "model": [_archive(model)],
        "model-parts": [joined(model)],
        "model-tree": [model["model.json"], json.dumps(json.loads(model["model.json"])).encode()],
    }
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow
        import pyarrow.parquet as parquet

        columns = {"size": [1.0, None, 3.0], "colour": ["red", None, "x"], "flag": [True, False, None], "kind": [1, 2, 1]}
        for compression in ("none", "zstd"):
            out = io.BytesIO()
            parquet.write_table(pyarrow.table(columns), out, compression=compression, store_schema=compression == "none")
            sound.setdefault("parquet", []).append(out.getvalue())
        sound["parquet-layout"] = sound["parquet"][:1]
    return sound


# ---- running -------------------------------------------------------------------------------------------------------------


def run(seconds: float) -> int:
    """Look for defects for so long, in a process of its own; 0 if there are none."""
    FINDINGS.mkdir(exist_ok=True)
    way = "atheris" if importlib.util.find_spec("atheris") is not None else "plain"
    command = [sys.executable, __file__, "--child", way, "--seconds", str(seconds)]
    code = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}).returncode
    print(f"fuzz readers: {way}, {seconds:.0f} s: {'no defect' if code == 0 else f'a defect, see {FINDINGS}'}", flush=True)
    return int(code != 0)


def _limited() -> None:
    """The ceiling of memory, after everything is imported that readers import."""
    for data in seeds():
        check(data)
    if Path("/proc/self/statm").exists():
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + CEILING, taken + CEILING))


def _with_atheris(seconds: float) -> None:
    import atheris

    with atheris.instrument_imports(include=["polymargin", "numpy.lib.format", "zipfile"]):
        import polymargin.storage.models
        import polymargin.tables  # noqa: F401
    _limited()
    with tempfile.TemporaryDirectory() as folder:
        start, words = Path(folder, "seeds"), Path(folder, "words")
        start.mkdir()
        for number, data in enumerate(seeds()):
            (start / str(number)).write_bytes(data)
        escaped = ("".join(rf"\x{byte:02x}" for byte in word) for word in _WORDS)
        words.write_text("".join(f'"{word}"\n' for word in escaped))
        options = [
            f"-max_total_time={int(seconds)}", f"-timeout={LONGEST_SECONDS}", "-rss_limit_mb=0", "-max_len=20000",
            f"-dict={words}", f"-artifact_prefix={FINDINGS}/", "-print_final_stats=1", "-verbosity=0",
        ]  # fmt: skip
        atheris.Setup([sys.argv[0], *options, str(start)], lambda data: check(data) and None)
        atheris.Fuzz()


def _plain(seconds: float) -> None:
    """Random changes of the seeds; without Atheris nothing tells which of them reach something new."""
    _limited()
    rng = random.Random(time.time_ns())
    pool, tried, end = list(seeds()), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(rng, rng.choice(pool), rng.choice(pool))
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, _too_long)
            signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS)
        try:
            check(data)
        except BaseException:
            path = FINDINGS / f"crash-{time.time_ns():x}"
            path.write_bytes(data)
            print(f"fuzz readers: {path}", file=sys.stderr)
            raise
        finally:
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, 0)
        tried += 1
    print(f"fuzz readers: {tried} inputs")


def _too_long(*_: Any) -> None:
    raise Defect(f"more than {LONGEST_SECONDS} seconds")


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A few changes: bytes, lengths, words, pieces of another input."""
    body = bytearray(data[1:])
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        place, length = rng.randrange(len(body) + 1), rng.choice((1, 1, 2, 4, 16))
        kind = rng.randrange(6)
        if kind == 0 and place < len(body):
            body[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del body[place : place + length]
        elif kind == 2:
            body[place:place] = rng.choice(_WORDS)
        elif kind == 3:
            body[place : place + length] = rng.choice(_WORDS)
        elif kind == 4:
            body[place:place] = body[place : place + length] * rng.choice((1, 2, 100))
        else:
            start = rng.randrange(len(other) + 1)
            body[place : place + length] = other[start : start + length]
    first = data[0] if rng.random() < 0.97 else rng.randrange(256)
    return bytes([first]) + bytes(body)


_WORDS = [
    b",", b";", b"\t", b"\n", b"\r", b'"', b"'", b"\\", b"{", b"}", b"%", b"?", b"nan", b"inf", b"-1", b"1e400", b"1_0",
    b"@data", b"@attribute a numeric\n", b"@attribute b {x}\n", b"string", b"{}", b"{0 1}", b"\xc2\xb2", b"\xd9\xa3",
    b"1:1", b"qid:1", b"99999999999", b"-", b"|S0", b"|O", b"<U0", b"|V8", b"<f8", b">i2", b"(9999999999,)", b"()",
    b"(-1,)", b"X.npy", b"y.npy", b"\xff\xff\xff\xff", b"\x80\x80\x01", b"PK\x01\x02", b"\x1f\x8b\x08", b"null", b"[]",
    b'{"array": 0}', b'{"class": ', b'"state": ', b'{"tuple": ', b'{"csr": ', b'{"objects": ', b'{"float": "inf"}', b"\x00",
    b"\xef\xbb\xbf", b"9" * 60,
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.readers", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--replay", type=Path, nargs="+", help="inputs to read once")
    parser.add_argument("--child", choices=("atheris", "plain"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.replay:
        for path in args.replay:
            print(f"{path}: {check(path.read_bytes()) or 'read'}")
        return 0
    if args.child is None:
        return run(args.seconds)
    _with_atheris(args.seconds) if args.child == "atheris" else _plain(args.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
