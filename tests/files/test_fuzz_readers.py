"""The fuzzer's seeds: sound files are read, what once broke a reader is answered with a sentence."""

import importlib.util
import random
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "fuzz" / "readers.py"
pytestmark = pytest.mark.skipif(not PATH.exists(), reason="the fuzzer is part of the repository, not of the package")


@pytest.fixture(scope="module")
def readers():
    pytest.importorskip("resource")  # not on Windows
    spec = importlib.util.spec_from_file_location("fuzz_readers", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sound_inputs_are_read_in_every_way(readers):
    sound = readers._sound()
    assert set(sound) >= set(readers.WAYS) - {"parquet", "parquet-layout"}
    for way, contents in sound.items():
        said = [readers.check(readers._input(way, content)) for content in contents]
        assert "" in said, (way, said)


def test_what_was_found_is_answered_with_a_sentence(readers):
    found = sorted(readers.CORPUS.iterdir())
    assert len(found) >= 5
    for path in found:
        assert isinstance(readers.check(path.read_bytes()), str), path.name


def test_some_changed_inputs(readers):
    """A short run of the fuzzer, the same every time."""
    rng, pool = random.Random(0), list(readers.seeds())
    for _ in range(400):
        readers.check(readers.mutated(rng, rng.choice(pool), rng.choice(pool)))


def test_the_fuzzer_sees_defects(readers, monkeypatch):
    def broken(content):
        raise IndexError("list index out of range")

    monkeypatch.setitem(readers.WAYS, "csv", broken)
    with pytest.raises(IndexError):
        readers.check(readers._input("csv", b"a,b\n1,2\n"))
    monkeypatch.setattr(readers, "LONGEST_MESSAGE", 5)
    with pytest.raises(readers.Defect, match="characters"):
        readers.check(readers._input("arff", b"nothing"))
