"""Files that are written completely or not at all, and checked reading of arrays from files."""

from __future__ import annotations

import ast
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dae_sdc.arguments import shown
from dae_sdc.errors import InputError, ResultFileError

try:
    import fcntl
except ImportError:  # on Windows, where a file that another process has open cannot be deleted
    fcntl = None  # type: ignore[assignment]

_PARTIAL = ".partial"
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
_MAGIC = b"\x93NUMPY"
_LENGTHS = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}
_LONGEST_HEADER = 100_000
# Endings of forms in which no results are written; any other ending is a part of a name.
OF_OTHERS = frozenset(".txt .dat .tsv .npz .json .mat .h5 .hdf5 .nc .parquet .xlsx .pkl".split())


def check_place(path: str | os.PathLike[str], suffix: str) -> Path:
    """Refuse a path to which no file can be written, and remove temporary files of killed processes."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a result is written to a file; got {path!r} for its name")
    target = Path(path)
    if not target.name:
        raise InputError(f"cannot write '{path}': it names no file; give a name that ends in {suffix}")
    if target.suffix != suffix:
        if target.suffix.lower() in OF_OTHERS:
            raise InputError(f"cannot write {path}: the file is {suffix}; choose that, or .csv for text")
        target = target.with_name(f"{target.name}{suffix}")
    _check_place(target)
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {target}: no permission in {target.parent}; choose another place")
    remove_leftovers(target)
    return target


def _check_place(target: Path) -> None:
    if "\0" in str(target):
        raise InputError(f"cannot write {str(target)!r}: no name has a zero byte in it; choose another")
    try:
        directory, taken = target.parent.is_dir(), target.is_dir()
    except OSError as why:
        raise InputError(f"cannot write {shown(str(target))}: {why.strerror}; choose another name") from None
    if not directory:
        raise InputError(
            f"cannot write {target}: directory {target.parent} does not exist; make it or choose another"
        )
    if taken:
        raise InputError(f"cannot write {target}: it is a directory; choose another name")


def partial_name(target: Path) -> Path:
    """The name, next to ``target``, of the partial result of a run that has not ended or has failed."""
    return target.with_name(f"{target.stem}{_PARTIAL}{target.suffix}")


def remove_leftovers(target: Path) -> None:
    """Delete temporary files of killed processes beside ``target``; those of living ones are locked."""
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if _UNFINISHED.fullmatch(name):
                with suppress(OSError), open(target.with_name(name), "rb") as file:
                    _lock(file, wait=False)
                    os.unlink(file.name)


def _lock(file: BinaryIO, wait: bool) -> None:
    """Lock a temporary file against deletion by others; raises OSError if it is locked already."""
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _begin(target: Path, stack: ExitStack) -> tuple[Path, BinaryIO]:
    """A temporary file for a target, locked as long as the stack is open."""
    while True:
        name = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
        # For reading too: NumPy does not take it for a file of C then, which loses what a full disk refuses.
        file = open(name, "x+b")
        stack.callback(_try, partial(name.unlink, missing_ok=True))
        with suppress(OSError):  # some file systems of networks have no locks
            _lock(file, wait=True)
        # Another process may have deleted the file between its creation and its lock.
        if name.exists():
            if fcntl is not None:
                stack.callback(os.close, os.dup(file.fileno()))
            stack.callback(_try, file.close)
            return name, file
        file.close()


def _try(action: Callable[[], object]) -> None:
    with suppress(OSError):  # a failure to write was reported before
        action()


@contextmanager
def replacing(*targets: Path, without: Sequence[Path] = ()) -> Iterator[tuple[BinaryIO, ...]]:
    """Temporary files that are renamed to ``targets``, in that order, when all of them are complete."""
    for target in reversed(targets):
        _check_place(target)
        remove_leftovers(target)
    try:
        with ExitStack() as stack:
            begun = [_begin(target, stack) for target in targets]
            files = tuple(file for _, file in begun)
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
                file.close()
            for path in without:
                path.unlink(missing_ok=True)
            for (name, _), target in zip(begun, targets, strict=True):
                os.replace(name, target)
    except OSError as error:
        why = error.strerror or f"the file is cut short ({error})"  # as NumPy tells it
        where = targets[:2][-1]
        raise InputError(f"cannot write {where}: {why}; free space or choose another place") from error


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """An ordinary file to read; pipes and devices, which may never end, are refused."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "a directory" if path.is_dir() else "no ordinary file"
            raise ResultFileError(f"{path} is {kind}; give a file that dae_sdc wrote")
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ResultFileError(
            f"cannot read {path}: {error.strerror or error}; check the file and its permissions"
        ) from None
    except ValueError as error:
        if isinstance(error, ResultFileError) or "null" not in str(error):
            raise
        raise ResultFileError(f"{str(path)!r} cannot be the name of a file; give another") from None


@contextmanager
def damaged(message: str) -> Iterator[None]:
    """Raise ResultFileError with a message for whatever the content of a damaged file leads to."""
    try:
        yield
    except ResultFileError:  # is a ValueError too
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ResultFileError(message) from None


def is_texts(value: Any, count: int | None = None) -> bool:
    """Whether a value from a file is a list of texts, of as many as there should be."""
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return is_list and count in (None, len(value))


def read_array(file: Any, size: int) -> NDArray[Any]:
    """An array in the format of NumPy, from a file of ``size`` bytes."""
    shape, fortran, dtype = _header(file)
    count = math.prod(shape)
    length = count * dtype.itemsize
    if dtype.hasobject:
        raise ValueError("holds Python objects")
    if not 0 <= length <= size or (count and not dtype.itemsize):
        raise ValueError(f"declares {count} entries, more than the file holds")
    content = file.read(length)
    if len(content) != length:
        raise ValueError("is cut short")
    array: NDArray[Any] = np.frombuffer(bytearray(content), dtype=dtype, count=count)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    start = file.read(len(_MAGIC) + 2)
    version = start[len(_MAGIC) :]
    if not start.startswith(_MAGIC) or version not in _LENGTHS:
        raise ValueError("is no array")
    size = int.from_bytes(file.read(_LENGTHS[version]), "little")
    try:
        if size > _LONGEST_HEADER:
            raise ValueError("too long")
        about = ast.literal_eval(file.read(size).decode("utf-8" if version[0] == 3 else "latin-1").strip())
        shape, fortran, dtype = about["shape"], about["fortran_order"], about["descr"]
        if type(shape) is not tuple or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError("no shape")
        # For an invalid description NumPy raises various exceptions.
        return shape, bool(fortran), np.lib.format.descr_to_dtype(dtype)
    except OSError:
        raise
    except Exception as error:
        raise ValueError("has a damaged header") from error


def read_archive(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """The arrays of an archive written by :func:`numpy.savez`, by name."""
    size = os.fstat(file.fileno()).st_size
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("is compressed, which dae_sdc writes no file")
            if sum(entry.file_size for entry in entries) > size:
                raise ValueError("declares more than the file holds")
            arrays = {}
            for entry in entries:
                with archive.open(entry) as member:
                    arrays[entry.filename.removesuffix(".npy")] = read_array(member, entry.file_size)
                    member.read()  # reading to the end compares the checksum
            return arrays
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OverflowError) as error:
        raise ValueError("is no whole archive") from error
