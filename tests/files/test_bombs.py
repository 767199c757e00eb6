"""Small files that stand for gigabytes are refused with a sentence before they are unpacked (reliability case 32)."""

import io
import json
import sys

import numpy as np
import pytest
from bombs import archive, bombs, iris_model, npy_header
from interpreters import run_python

from polymargin import CrammerSingerSVC, load, save
from polymargin.cli import main
from polymargin.storage.models import ModelFileError
from polymargin.tables import TableError, read_table

# the memory that all readers together may add to what Python has taken before, and what they have taken at the most
UNDER_A_CEILING = """
    import json, os, resource, sys
    from pathlib import Path
    import numpy, sklearn.metrics, sklearn.datasets, sklearn.pipeline
    from polymargin import load
    from polymargin.tables import read_table
    try:
        import pyarrow.parquet
    except ImportError:
        pass

    folder, ceiling = Path(sys.argv[1]), int(sys.argv[2])
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ceiling, taken + ceiling))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = {}
    for number, options in enumerate(json.loads((folder / "options.json").read_text())):
        path = folder / str(number)
        try:
            load(path) if options is None else read_table(path, **options)
            said[number] = ""
        except ValueError as error:
            said[number] = str(error)
        except MemoryError as error:
            said[number] = f"MemoryError {error}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([list(said.values()), grown]), flush=True)
    os._exit(0)  # at the ceiling threads of pyarrow cannot be ended in an orderly way
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS and /proc")
def test_bombs_are_refused_before_they_are_unpacked(tmp_path):
    corpus = list(bombs())
    for number, bomb in enumerate(corpus):
        (tmp_path / str(number)).write_bytes(bomb.content)
        assert len(bomb.content) < 5 << 20, bomb.name
    (tmp_path / "options.json").write_text(json.dumps([bomb.options for bomb in corpus]))
    said, grown = json.loads(run_python(UNDER_A_CEILING, str(tmp_path), str(700 << 20)))
    for bomb, message in zip(corpus, said, strict=True):
        assert (bomb.message in message) if bomb.message else message == "", (bomb.name, message)
    assert grown < 500 << 10  # in kilobytes


def zipped(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_the_limit_is_the_callers(monkeypatch):
    content = zipped(X=np.zeros((100, 100)), y=np.arange(100) % 2)
    with pytest.raises(TableError, match=r"81\.1 kB of memory, more than 50\.0 kB \(max_bytes\); .*POLYMARGIN_MAX_BYTES"):
        read_table(io.BytesIO(content), format="npz", max_bytes=5e4)
    assert read_table(io.BytesIO(content), format="npz", max_bytes=1e6).n_rows == 100
    monkeypatch.setenv("POLYMARGIN_MAX_BYTES", "50000")
    with pytest.raises(TableError, match="POLYMARGIN_MAX_BYTES"):
        read_table(io.BytesIO(content), format="npz")
    assert read_table(io.BytesIO(content), format="npz", max_bytes=1e6).n_rows == 100
    monkeypatch.setenv("POLYMARGIN_MAX_BYTES", "a lot")
    with pytest.raises(ValueError, match="POLYMARGIN_MAX_BYTES='a lot' is not valid"):
        read_table(io.BytesIO(content), format="npz")
    with pytest.raises(ValueError, match="max_bytes=-1 is not valid"):
        read_table(io.BytesIO(content), format="npz", max_bytes=-1)


def test_models_have_the_limit_too(tmp_path, monkeypatch):
    save(CrammerSingerSVC(C=2.0), tmp_path / "m.pm")
    with pytest.raises(ModelFileError, match=r"m\.pm: .* more than 100 bytes \(max_bytes\)"):
        load(tmp_path / "m.pm", max_bytes=100)
    assert load(tmp_path / "m.pm", max_bytes=1e6).C == 2.0


def test_the_free_memory_limits_files_that_are_not_packed(tmp_path, monkeypatch):
    monkeypatch.setattr("polymargin.features.kernel_map.available_memory", lambda: 1e6)
    content = zipped(X=np.zeros((2000, 2000)), y=np.arange(2000) % 2)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(TableError, match=r"32\.0 MB of memory, more than 500\.0 kB \(half of the free memory\)"):
        read_table(tmp_path / "x.npz")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/zero")
def test_a_device_that_never_ends_is_refused():
    with pytest.raises(TableError, match="endless"):
        read_table("/dev/zero", format="csv", max_bytes=2e7)
    with pytest.raises(ModelFileError, match="endless"):
        load("/dev/zero", max_bytes=2e7)


def test_empty_strings_can_be_saved_and_loaded():
    """An array of strings of no width is written with a width of one."""
    file = io.BytesIO()
    machine = CrammerSingerSVC()
    machine.names_ = np.array(["", ""]).astype("U0") if np.array([""]).astype("U0").itemsize == 0 else np.zeros(2, "U0")
    save(machine, file)
    file.seek(0)
    assert load(file).names_.tolist() == ["", ""]


@pytest.mark.parametrize("shape", [(-3, -1), (3, 2), (10**30,), (2**62, 4)])
def test_arrays_must_be_as_long_as_they_say(shape):
    content = iris_model(**{"0.npy": npy_header(shape, "<f8") + bytes(24)})
    with pytest.raises(ModelFileError, match=r"not as long as its shape|damaged"):
        load(io.BytesIO(content))
    whole = archive({"X.npy": npy_header(shape, "<f8") + bytes(24)})
    with pytest.raises(TableError, match=r"not as long as its shape|cannot be read"):
        read_table(io.BytesIO(whole), format="npz")


def test_a_column_number_that_no_memory_holds(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("polymargin.features.kernel_map.available_memory", lambda: 1e9)
    (tmp_path / "wide.svm").write_text("1 1:1\n2 1000000000:1\n")
    assert main(["train", str(tmp_path / "wide.svm"), "-o", str(tmp_path / "m.pm")]) == 1
    err = capsys.readouterr().err
    assert "1000000000 columns" in err and "32.0 GB" in err and err.count("\n") == 1
    with pytest.raises(TableError, match="line 2: the index 1000000000000 is too large"):
        read_table(io.BytesIO(b"1 1:1\n2 1000000000000:1\n"), format="svmlight")
