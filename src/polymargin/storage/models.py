"""Model files without pickle: loading reads numbers and strings, and never runs code from the file.

A file is a zip archive, not compressed, of ``model.json`` and one ``.npy`` file per array. `model.json` holds the protocol
number, the versions of the libraries that wrote it, and the model as a tree of nodes (`nodes.py`). Classes are looked
up by name in a fixed list, never imported by name.

Models with parts outside that list are written by skops, if it is installed.
"""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from polymargin import __version__
from polymargin.storage.files import written_whole
from polymargin.storage.unpacking import Allowance, check_archive, check_array, read_all, read_array
from polymargin.tables.table import few, shown

PROTOCOL = 1
_FORMAT = "polymargin model"
_TREE = "model.json"
_SKOPS, _NOTES = "schema.json", "notes.json"  # files of skops, and what we add to them
_TREE_GROWTH = 32  # bytes of Python objects for a byte of JSON, at most


class ModelFileError(ValueError):
    """A file that is no model, is damaged, or holds what this version cannot read."""


class UnsavableError(TypeError):
    """A model with a part that cannot be written without pickle."""


def save(model: Any, path: str | os.PathLike[str] | IO[bytes], *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a machine, or a pipeline that ends with one, to a file.

    The file is written beside its place, forced to disk and renamed: a kill at any moment leaves the old file or the new
    one. Pipes and devices are written into. The same model gives the same bytes (skops aside).

    Parameters
    ----------
    model : estimator
        Any machine of polymargin, fitted or not, and pipelines of these with scikit-learn's usual preprocessing
        (`StandardScaler`, `MaxAbsScaler`, `MinMaxScaler`, `SimpleImputer`, `OneHotEncoder`, `ColumnTransformer`); also
        scikit-learn's `SVC`, `LinearSVC` and `LogisticRegression`, alone or inside its one-vs-rest and like classifiers.
        Anything else goes through skops, if it is installed. Duals kept for a warm start are not written: the first fit
        after loading starts cold.
    path : path or binary file
    notes : mapping, default=None
        What else to remember, as JSON; :func:`read_notes` returns it.

    Raises
    ------
    UnsavableError
        The model has a part, a callable kernel for example, that only pickle could write.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC, load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CrammerSingerSVC(random_state=0).fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "iris.pm")
    >>> save(machine, path)
    >>> bool((load(path).predict(X) == machine.predict(X)).all())
    True
    """
    try:
        content = _packed(model, dict(notes or {}))
    except UnsavableError as error:
        if not hasattr(model, "best_estimator_"):
            raise
        raise UnsavableError(f"{error}; of a search, save its best_estimator_") from error
    if hasattr(path, "write"):
        _write(path, content)
        return
    with written_whole(path) as file:
        file.write(content)


def load(path: str | os.PathLike[str] | IO[bytes], *, max_bytes: float | None = None) -> Any:
    """Read a model that :func:`save` wrote.

    No code from the file is run, whoever wrote it, and it is known before anything is unpacked how much memory it takes.

    Parameters
    ----------
    path : path or binary file
    max_bytes : float, default=None
        The most that the model may take in memory. None: the environment variable ``POLYMARGIN_MAX_BYTES``, else half of the
        free memory, or less for a small file.

    Raises
    ------
    ModelFileError
        The file is no model, is damaged or cut off, was written by a later version, holds an unknown class, or is too large.
    """
    return load_with_notes(path, max_bytes=max_bytes)[0]


def read_notes(path: str | os.PathLike[str] | IO[bytes], *, max_bytes: float | None = None) -> dict[str, Any]:
    """What was given to :func:`save` as `notes`."""
    return load_with_notes(path, max_bytes=max_bytes)[1]


def load_with_notes(
    path: str | os.PathLike[str] | IO[bytes], *, max_bytes: float | None = None
) -> tuple[Any, dict[str, Any]]:
    """Model and notes from one reading."""
    content, name = _content(path, max_bytes)
    allowance = Allowance(len(content), max_bytes, lambda message: ModelFileError(f"{name}: {message}"))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_archive(archive, allowance)
            if _SKOPS in archive.namelist() and _TREE not in archive.namelist():
                _check_skops(archive, allowance)
                return _from_skops(content, name), json.loads(archive.read(_NOTES)) if _NOTES in archive.namelist() else {}
            return _unpacked(archive, name, allowance)
    except ModelFileError:
        raise
    except zipfile.BadZipFile as error:
        why = shown(error, 100)
        raise ModelFileError(f"{name}: this is not a model file, or it is damaged or cut off ({why})") from error
    except MemoryError as error:
        raise ModelFileError(f"{name}: the model does not fit into memory") from error
    except Exception as error:  # whatever a hostile file provokes in the readers is the file's fault
        raise ModelFileError(f"{name}: the model file is damaged ({type(error).__name__}: {shown(error, 100)})") from error


# ---- writing ------------------------------------------------------------------------------------------------------------


def _write(file: Any, content: bytes) -> None:
    """All of it, also to a file without a buffer, which may take a part at a time."""
    rest = memoryview(content)
    while rest:
        taken = file.write(bytes(rest) if len(rest) < len(content) else content)
        rest = rest[taken:] if isinstance(taken, int) else rest[:0]


def _packed(model: Any, notes: dict[str, Any]) -> bytes:
    from polymargin.storage import nodes

    arrays: list[NDArray[Any]] = []
    try:
        tree = nodes.encode(model, arrays, type(model).__name__)
    except UnsavableError as error:
        return _to_skops(model, notes, error)
    import sklearn

    head = {
        "format": _FORMAT,
        "protocol": PROTOCOL,
        "polymargin": __version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "notes": notes,
        "model": tree,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(_TREE), json.dumps(head, indent=1, allow_nan=False))
        for number, array in enumerate(arrays):
            with archive.open(_entry(f"{number}.npy"), "w", force_zip64=array.nbytes > 1 << 31) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    """With a fixed date: the same model gives the same bytes."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


# ---- reading ------------------------------------------------------------------------------------------------------------


def _content(path: Any, max_bytes: float | None) -> tuple[bytes, str]:
    name = str(getattr(path, "name", "<stream>")) if hasattr(path, "read") else os.fspath(path)

    def error(message: str) -> ModelFileError:
        return ModelFileError(f"{name}: {message}")

    if hasattr(path, "read"):
        return read_all(path, max_bytes, error), name
    try:
        with open(path, "rb") as file:
            return read_all(file, max_bytes, error), name
    except FileNotFoundError as problem:
        raise error("there is no such file") from problem
    except OSError as problem:
        raise error(f"cannot be read: {problem.strerror or problem}") from problem


def _unpacked(archive: zipfile.ZipFile, name: str, allowance: Allowance) -> tuple[Any, dict[str, Any]]:
    from polymargin.storage import nodes

    if _TREE not in archive.namelist():
        raise ModelFileError(f"{name}: this zip archive is not a model file: it has no {_TREE}")
    allowance.check(_TREE_GROWTH * archive.getinfo(_TREE).file_size)
    _check_stored(archive, _TREE, name)
    head = json.loads(archive.read(_TREE))
    if not isinstance(head, dict) or head.get("format") != _FORMAT or not isinstance(head.get("notes"), dict):
        raise ModelFileError(f"{name}: this is not a model file of polymargin")
    if head.get("protocol") != PROTOCOL:
        raise ModelFileError(
            f"{name}: the file has protocol {_short(head.get('protocol'))}, this version of polymargin ({__version__}) "
            f"reads {PROTOCOL}; it was written by polymargin {_short(head.get('polymargin'))}: install that version or a "
            "later one"
        )
    arrays: dict[int, NDArray[Any]] = {}  # each is read once, however often the tree names it

    def array(number: Any) -> NDArray[Any]:
        if type(number) is not int:
            raise ModelFileError(f"{name}: {shown(number)} is not the number of an array")
        if number not in arrays:
            arrays[number] = _array(archive, number, name)
        return arrays[number]

    model = nodes.decode(head["model"], array)
    if not hasattr(model, "get_params"):
        raise ModelFileError(f"{name}: the file holds no estimator")
    _warn_about_versions(head, name)
    return model, head["notes"]


def _short(value: Any) -> str:
    """A value of a file in a message."""
    return repr(value) if isinstance(value, int) and abs(value) < 1e18 else shown(value)


def _check_stored(archive: zipfile.ZipFile, entry: str, name: str) -> None:
    """An entry that is not compressed cannot be larger in memory than in the file."""
    info = archive.getinfo(entry)
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise ModelFileError(f"{name}: the entry {entry!r} is compressed or encrypted, which model files never are")


def _array(archive: zipfile.ZipFile, number: int, name: str) -> NDArray[Any]:
    entry = f"{number}.npy"
    _check_stored(archive, entry, name)
    return read_array(archive, entry, f"the array {number}", lambda message: ModelFileError(f"{name}: {message}"))


def _warn_about_versions(head: Mapping[str, Any], name: str) -> None:
    """Machines of polymargin do not depend on scikit-learn's version; scikit-learn's own parts may."""
    import sklearn

    written = str(head.get("scikit-learn"))[:40]
    if '"sklearn.' in json.dumps(head["model"]) and written.split(".")[:2] != sklearn.__version__.split(".")[:2]:
        warnings.warn(
            f"{name}: the pipeline was written with scikit-learn {written}, this is {sklearn.__version__}; check some "
            "predictions, or train it again.",
            UserWarning,
            stacklevel=5,
        )


# ---- skops --------------------------------------------------------------------------------------------------------------


def _skops() -> Any:
    try:
        import skops
        import skops.io
    except ImportError:
        return None
    version = tuple(int(part) for part in skops.__version__.split(".")[:2])
    return skops.io if version >= (0, 13) else None  # earlier ones could be made to run code


def _to_skops(model: Any, notes: dict[str, Any], reason: UnsavableError) -> bytes:
    io_ = _skops()
    if io_ is None:
        raise UnsavableError(f"{reason}; pip install 'skops>=0.13' for pipelines of other parts") from reason
    if _has_cache(model):
        raise UnsavableError(str(reason)) from reason
    from polymargin.storage import nodes

    warm = nodes.take_warm_starts(model)
    try:
        content = io_.dumps(model)
    except Exception as error:
        raise UnsavableError(f"{reason}; skops cannot write it either: {error}") from error
    finally:
        for where, what in warm:
            where.update(what)
    refused = [name for name in io_.get_untrusted_types(data=content) if name not in _trusted()]
    if refused:
        raise UnsavableError(f"{reason}; loading would have to trust {', '.join(refused)}")
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(_NOTES, json.dumps(notes, allow_nan=False))
    return buffer.getvalue()


def _check_skops(archive: zipfile.ZipFile, allowance: Allowance) -> None:
    """Arrays are as long as they say, and all archives inside the archive (sparse matrices) together not too large."""
    allowance.check(_TREE_GROWTH * archive.getinfo(_SKOPS).file_size)
    total = 0
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            with archive.open(info) as file:
                check_array(file, info.file_size, info.filename[:40], allowance.error)
        elif info.filename.endswith(".npz"):
            with zipfile.ZipFile(io.BytesIO(archive.read(info))) as matrix:
                total += check_archive(matrix, allowance)
                allowance.check(total)
                for part in matrix.infolist():
                    with matrix.open(part) as file:
                        check_array(file, part.file_size, part.filename[:40], allowance.error)


def _from_skops(content: bytes, name: str) -> Any:
    io_ = _skops()
    if io_ is None:
        raise ModelFileError(f"{name}: this file was written by skops: pip install 'skops>=0.13' to read it")
    refused = [found for found in io_.get_untrusted_types(data=content) if found not in _trusted()]
    if refused:
        raise ModelFileError(f"{name}: the file asks for {few(refused)}, which is not trusted")
    model = io_.loads(content, trusted=_trusted())
    if _has_cache(model):
        raise ModelFileError(f"{name}: the pipeline has a cache (memory), a folder of pickles, which is not trusted")
    from polymargin.storage import nodes

    nodes.take_warm_starts(model)
    return model


def _has_cache(model: Any) -> bool:
    """Whether a later fit would open pickles."""
    return any(name.split("__")[-1] == "memory" and value is not None for name, value in model.get_params().items())


def _trusted() -> list[str]:
    """What skops may build beside its own list: the classes that our own files may hold."""
    from polymargin.storage import nodes

    return [f"{cls.__module__}.{cls.__qualname__}" for cls in nodes.classes().values()]
