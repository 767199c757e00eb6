"""Where results go: pipes and devices are written into, inputs are never overwritten, what cannot be written is said."""

import csv
import os
import stat
import subprocess
import sys
import threading

import pytest
from interpreters import run_warm
from sklearn.datasets import load_iris

from polymargin import CrammerSingerSVC, load, save
from polymargin.cli import main
from polymargin.storage.files import check_output, written_whole

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX files")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with iris.csv and a model of it."""
    folder = tmp_path_factory.mktemp("made")
    data = load_iris()
    with (folder / "iris.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "d", "species"])
        writer.writerows([*row, f"kind {k}"] for row, k in zip(data.data.tolist(), data.target, strict=True))
    assert main(["train", str(folder / "iris.csv"), "-o", str(folder / "m.pm")]) == 0
    assert main(["predict", str(folder / "m.pm"), str(folder / "iris.csv"), "-o", str(folder / "labels.txt")]) == 0
    return folder


@pytest.fixture
def work(made, tmp_path, monkeypatch):
    """Fresh copies."""
    for name in ("iris.csv", "m.pm", "labels.txt"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


# each writes to the file named last
WRITERS = {
    "predict": ["predict", "m.pm", "iris.csv", "-o"],
    "train": ["train", "iris.csv", "-o"],
    "convert": ["convert", "iris.csv", "--to", "npz"],
}
each_writer = pytest.mark.parametrize("writer", WRITERS)


def same_machine(*paths):
    """All but the time of the fit."""
    X = load_iris().data
    first, second = (load(path).decision_function(X) for path in paths)
    return bool((first == second).all())


def node(path, major, minor):
    """A device of our own: the system's are not put at risk."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        with open(path, "wb"):
            pass
    except OSError as error:
        pytest.skip(f"device nodes cannot be made here (needs root): {error}")


@each_writer
def test_a_device_stays_a_device(writer, work):
    node(work / "null", 1, 3)
    os.symlink("null", work / "link")
    for name in ("null", "link"):
        assert main([*WRITERS[writer], name]) == 0
        assert stat.S_ISCHR(os.stat(work / name).st_mode) and (work / "link").is_symlink()
    save(CrammerSingerSVC(), work / "null")
    assert stat.S_ISCHR(os.stat(work / "null").st_mode)
    assert sorted(os.listdir(work)) == ["iris.csv", "labels.txt", "link", "m.pm", "null"]


@each_writer
def test_a_full_device_is_an_error(writer, work, capsys):
    node(work / "full", 1, 7)
    assert main([*WRITERS[writer], "full"]) == 1
    assert capsys.readouterr().err == "polymargin: full: No space left on device\n"


def read_fifo(path):
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    return reader, got


def test_fifos_are_written_into(work):
    for writer in WRITERS:
        reader, got = read_fifo(work / writer)
        assert main([*WRITERS[writer], writer]) == 0
        reader.join(10)
        assert stat.S_ISFIFO(os.stat(work / writer).st_mode)
        (work / f"{writer}.out").write_bytes(got[0])
    assert (work / "predict.out").read_bytes() == (work / "labels.txt").read_bytes()
    assert same_machine(work / "train.out", work / "m.pm")
    reader, got = read_fifo(work / "saved")
    save(CrammerSingerSVC(C=3.0), work / "saved")
    reader.join(10)
    (work / "saved.pm").write_bytes(got[0])
    assert load(work / "saved.pm").C == 3.0


def test_a_fifo_whose_reader_goes_is_named(work, capsys):
    os.mkfifo(work / "pipe")

    def look_and_go():
        with (work / "pipe").open("rb"):
            pass

    reader = threading.Thread(target=look_and_go, daemon=True)
    reader.start()
    with pytest.raises(BrokenPipeError) as caught, written_whole(work / "pipe") as file:  # noqa: PT012
        reader.join(10)
        for _ in range(100):
            file.write(bytes(1 << 16))
    assert caught.value.filename == str(work / "pipe")


def shell(command, folder, **options):
    """A line of a shell, in which polymargin is the command itself."""
    line = f'polymargin() {{ "{sys.executable}" -m polymargin "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=120, **options)


def test_standard_output_by_its_device_name(work):
    """What a shell has put into the file before stays there."""
    done = shell("{ echo first; polymargin predict m.pm iris.csv -o /dev/stdout; echo last; } > out.txt", work)
    assert done.returncode == 0, done.stderr
    assert (work / "out.txt").read_text() == f"first\n{(work / 'labels.txt').read_text()}last\n"


def test_open_files_by_number(work):
    """What a shell makes of ``-o >(wc -l)``."""
    out, into = os.pipe()
    assert main(["predict", "m.pm", "iris.csv", "-o", f"/dev/fd/{into}"]) == 0
    os.close(into)
    with os.fdopen(out, "rb") as file:
        assert file.read() == (work / "labels.txt").read_bytes()


def test_closed_and_broken_standard_output(work):
    """One line or none, never a traceback; a file that is opened does not become standard output by accident."""
    tests = """
        polymargin predict m.pm iris.csv > /dev/full; echo $?
        polymargin inspect m.pm 2>&- >&- <&-; echo $?
        polymargin train iris.csv -o again.pm >&-; echo $?
        set -o pipefail; polymargin predict m.pm long.csv | true; echo $?
    """
    (work / "long.csv").write_text("5.1,3.5,1.4,0.2\n" * 30_000)
    done = shell(tests, work)
    assert done.stdout.split() == ["1", "1", "1", "141"], done
    assert done.stderr.splitlines() == [
        "polymargin: No space left on device",
        "polymargin: standard output is closed",
    ]
    assert same_machine(work / "again.pm", work / "m.pm")


FULL_DISK = """
    import resource, sys
    from pathlib import Path
    from polymargin.storage.files import written_whole

    path = Path(sys.argv[1]) / "m.pm"
    with written_whole(path) as file:
        file.write(b"old")
    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        with written_whole(path) as file:
            file.write(bytes(100_000))
    except OSError as error:
        print(error.strerror, error.filename == str(path), path.read_text())
"""


def test_a_full_disk_leaves_the_old_file(tmp_path):
    assert run_warm(FULL_DISK, str(tmp_path), "limited") == "File too large True old\n"
    assert os.listdir(tmp_path) == ["m.pm"]


def test_a_full_tmpfs_leaves_the_old_file(tmp_path):
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", tmp_path], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here (needs root): {done.stderr.strip()}")
    try:
        assert run_warm(FULL_DISK, str(tmp_path)) == "No space left on device True old\n"
        assert os.listdir(tmp_path) == ["m.pm"]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@each_writer
@pytest.mark.parametrize("how", ["itself", "symbolic link", "hard link", "another way"])
def test_an_input_is_never_the_output(writer, how, work, capsys):
    goal = {"itself": "iris.csv", "another way": f"../{work.name}/iris.csv"}.get(how, "link.csv")
    if how == "symbolic link":
        os.symlink("iris.csv", work / goal)
    elif how == "hard link":
        os.link(work / "iris.csv", work / goal)
    before = (work / "iris.csv").read_bytes()
    assert main([*WRITERS[writer], goal]) == 1
    err = capsys.readouterr().err
    assert err == f"polymargin: {goal} is the input iris.csv itself, which would be lost: name another file\n"
    assert (work / "iris.csv").read_bytes() == before


def test_other_inputs_are_safe_too(work, capsys, monkeypatch):
    before = (work / "m.pm").read_bytes()
    assert main(["predict", "m.pm", "iris.csv", "-o", "m.pm"]) == 1
    assert main(["train", "iris.csv", "--test", "labels.txt", "-o", "labels.txt"]) == 1
    monkeypatch.setenv("POLYMARGIN_DATA", str(work))
    assert main(["train", "dataset:iris_of_mine", "-o", "iris_of_mine.csv"]) == 1  # there is none yet
    (work / "iris_of_mine.csv").write_bytes((work / "iris.csv").read_bytes())
    capsys.readouterr()
    assert main(["train", "dataset:iris_of_mine", "-o", "iris_of_mine.csv"]) == 1
    assert "would be lost" in capsys.readouterr().err
    assert (work / "m.pm").read_bytes() == before
    for line in ("check_output('iris.csv', ['-'])", "check_output('-', ['iris.csv'])", "check_output(None, ['-'])"):
        code = f"from polymargin.storage.files import check_output; {line}"
        with open("iris.csv") as source, open("iris.csv", "a") as goal:
            done = subprocess.run([sys.executable, "-c", code], stdin=source, stdout=goal, stderr=subprocess.PIPE, text=True)
        assert "would be lost" in done.stderr, line


def test_a_model_may_be_saved_where_it_came_from(work):
    """The library's save has no inputs: it replaces whole files."""
    model = load(work / "m.pm")
    save(model, work / "m.pm")
    assert load(work / "m.pm").predict([[5.1, 3.5, 1.4, 0.2]])[0] == "kind 0"


def test_outputs_are_checked_before_the_fit(work, capsys, monkeypatch):
    monkeypatch.setattr("polymargin.tables.read_table", lambda *_, **__: pytest.fail("read before the output was checked"))
    for goal, message in (("no/m.pm", "No such file or directory"), (".", "Is a directory")):
        assert main(["train", "iris.csv", "-o", goal]) == 1
        assert capsys.readouterr().err == f"polymargin: {goal}: {message}\n"
    with pytest.raises(IsADirectoryError), written_whole(work):
        pass
    check_output(work / "new.pm", ["iris.csv", None, "-", "no such file"])


def test_names_as_long_as_a_name_may_be(work):
    name = "n" * 250 + ".pm"
    save(CrammerSingerSVC(C=5.0), work / name)
    assert load(work / name).C == 5.0


def test_files_without_a_buffer_get_all_of_it(work):
    class Slow:
        """Takes a part at a time, as raw files may."""

        def __init__(self):
            self.got = b""

        def write(self, content):
            self.got += bytes(content[:100])
            return min(100, len(content))

    file = Slow()
    save(CrammerSingerSVC(C=7.0), file)
    (work / "slow.pm").write_bytes(file.got)
    assert load(work / "slow.pm").C == 7.0
