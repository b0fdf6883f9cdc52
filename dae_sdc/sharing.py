"""What threads, processes and users of one machine share: results, filters of warnings, files, Python."""

from __future__ import annotations

import functools
import gc
import hashlib
import inspect
import os
import signal
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar

from tqdm import tqdm

from dae_sdc.deadline import check, within
from dae_sdc.errors import DAEWarning

K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

REMEMBERED: Final = 256  # Most results that a function decorated with :func:`once` keeps.
# Bytes that the files in one directory may take; those unused for longest are removed.
CACHE_BYTES: Final = 256 * 2**20
# Seconds after which a process compiles what another has begun to compile, which may have been stopped.
LONGEST_WAIT: Final = 120.0

_MAGIC: Final = b"dae_sdc kept 1\n"
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_START: Final = len(_MAGIC) + hashlib.sha256().digest_size

# --- threads ------------------------------------------------------------------------------------------------


class Lock:
    """A lock that the thread which holds it may take again, and that a forked process finds free."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class OneThread:
    """Lets the linear algebra of NumPy and SciPy use one thread while calls are under way.

    Several threads wait for each other: where other processes use the cores, the singular values of 130
    unknowns took a second in place of three milliseconds. They also round in another order.
    """

    def __init__(self) -> None:
        self._lock, self._calls = Lock(), 0
        self._libraries: list[Any] | None = None
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            self._calls += 1
            if self._calls > 1:
                return
            if self._libraries is None:
                import scipy.linalg  # noqa: F401  # it has a library of its own
                from threadpoolctl import ThreadpoolController

                self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            self._before = [library.num_threads for library in self._libraries]
            self._set([1] * len(self._before))

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._calls -= 1
            if not self._calls:
                self._set(self._before)

    def _set(self, counts: list[int]) -> None:
        for library, count in zip(self._libraries or (), counts, strict=True):
            library.set_num_threads(count)


ONE_THREAD: Final = OneThread()

# To be held while equations of models are read or extended; reading them adds to them, too.
EQUATIONS: Final = Lock()
OFTEN: Final = (100_000, 50, 100)  # Objects made between two looks for cycles, where most of them stay.

_STATE: Final = Lock()


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for functions that read or extend equations: one thread at a time, see :data:`EQUATIONS`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with EQUATIONS:
            before = gc.get_threshold()
            gc.set_threshold(*(OFTEN if 0 < before[0] < OFTEN[0] else before))
            try:
                return function(*args, **kwargs)
            finally:
                gc.set_threshold(*before)

    return call


def once(function: Callable[P, R]) -> Callable[P, R]:
    """As :func:`functools.lru_cache`, and threads that ask at the same time all get the one result."""
    lock = Lock()
    remembered = functools.lru_cache(maxsize=REMEMBERED)(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with lock:
            return remembered(*args, **kwargs)  # type: ignore[arg-type]

    call.cache_clear = remembered.cache_clear  # type: ignore[attr-defined]
    return call


class Recent(dict[K, R]):
    """Results by what they depend on, those used last, whose sizes together are ``most`` at most."""

    def __init__(self, most: int, size: Callable[[R], int] | None = None) -> None:
        super().__init__()
        self.most, self.size = most, size

    def of(self, key: K, calculate: Callable[[], R]) -> R:
        """The result for a key, calculated where it is not kept."""
        result = self.pop(key, None)
        return self.keep(key, calculate() if result is None else result)

    def keep(self, key: K, result: R) -> R:
        """Let a result be the one used last, which is kept whatever its size."""
        self.pop(key, None)
        self[key] = result
        size_of = self.size
        over = (len(self) if size_of is None else sum(map(size_of, list(self.values())))) - self.most
        for oldest, other in list(self.items())[:-1] if over > 0 else ():
            self.pop(oldest, None)  # another thread may have let go of it
            over -= 1 if size_of is None else size_of(other)
            if over <= 0:
                break
        return result


LATER: Final = 0.05  # Seconds after which a signal that is dropped or held comes again.
HELD: Final = ("SIGINT", "SIGTERM", "SIGHUP")
_sent: list[threading.Timer] = []


@contextmanager
def handling(handler: Callable[[int, Any], object], *names: str) -> Iterator[None]:
    """Let a function handle signals by their names, but for those that the caller lets the process ignore."""
    before: dict[int, Any] = {}
    try:
        # Signals are the business of the main thread.
        for name in names if threading.current_thread() is threading.main_thread() else ():
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, other in before.items():
            signal.signal(number, other)


def _send_again(number: int) -> None:
    came = [number]
    with handling(lambda early, _: came.append(early), *HELD):  # A thread may take long to start.
        while came:
            _sent.append(threading.Timer(LATER, signal.raise_signal, [came.pop()]))
            _sent[-1].start()
    if came:
        _send_again(came[0])


@contextmanager
def interrupted_again() -> Iterator[None]:
    """Send interrupts again that Python drops: in callbacks from C, and where an object is deleted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            return _send_again(signal.SIGINT)
        before(dropped)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        while _sent:
            _sent.pop().join()  # A signal that comes again comes here at the latest.


@contextmanager
def signals_held() -> Iterator[None]:
    """Let signals wait for the end of what cannot end halfway, such as imports and archives."""
    came: list[int] = []
    try:
        with handling(lambda number, _: came.append(number), *HELD):
            yield
    finally:
        if came:
            _send_again(came[0])


# --- warnings -----------------------------------------------------------------------------------------------

_filters: ContextVar[tuple[tuple[str, type[Warning]], ...]] = ContextVar("_filters", default=())
_silent: ContextVar[bool] = ContextVar("_silent", default=False)


class _InThisThread(type):
    """Metaclass of categories to which warnings belong by the filters of the thread that warns."""

    action: str

    def __subclasscheck__(cls, category: type) -> bool:
        return any(action == cls.action and issubclass(category, kind) for action, kind in _filters.get())


class _Raised(Warning, metaclass=_InThisThread):
    action = "error"


class _Ignored(Warning, metaclass=_InThisThread):
    action = "ignore"


@contextmanager
def filtering(action: Literal["ignore", "error"], category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings for a while, or raise them, in this thread."""
    # warnings.catch_warnings changes the filters of all threads, and where two are inside one, the last to
    # leave restores filters that the other has changed. Here two filters, installed once, look up the actions
    # that are set in the thread that warns.
    with _STATE:
        first = [entry[2] for entry in warnings.filters[:2]]
        if not (len(first) == 2 and first[0] is _Raised and first[1] is _Ignored):
            for kind in (_Ignored, _Raised):
                warnings.simplefilter(kind.action, kind)  # type: ignore[arg-type]
    with within(_filters, (*_filters.get(), (action, category))):
        yield


def tell(message: str) -> None:
    """Show a :class:`DAEWarning`, but not within :func:`told_before`."""
    if not _silent.get():
        files = [frame.filename for frame in inspect.stack(0)]
        outermost = max(i for i, name in enumerate(files) if name.startswith(os.path.dirname(__file__)))
        warnings.warn(message, DAEWarning, stacklevel=outermost + 2)  # the line of the user


def told_before() -> AbstractContextManager[None]:
    """Silence :func:`tell` in this thread, for work that is repeated and has shown its warnings."""
    return within(_silent, True)


# --- progress -----------------------------------------------------------------------------------------------


class Meter(Protocol):
    """What counts pieces of work that are done, such as a progress bar of tqdm."""

    def update(self, n: float = 1) -> Any:
        """Count ``n`` pieces."""


_meters: ContextVar[Callable[[int, str], AbstractContextManager[Meter]]] = ContextVar(
    "_meters", default=lambda total, unit: tqdm(total=total, unit=unit, disable=True)
)


def meter(total: int, unit: str) -> AbstractContextManager[Meter]:
    """A context of a meter for so many pieces of work, which is seen within :func:`metering`."""
    return _meters.get()(total, unit)


def metering(make: Callable[[int, str], AbstractContextManager[Meter]]) -> AbstractContextManager[None]:
    """Let :func:`meter` give what ``make`` makes, in this thread."""
    return within(_meters, make)


# --- files that are kept for later runs ---------------------------------------------------------------------

_refused: set[str] = set()


def is_safe(directory: str | os.PathLike[str], file: int | None = None) -> bool:
    """Whether nobody else can write to a directory, or to an open file in it; if not, a warning says so."""
    try:
        status = os.stat(directory if file is None else file)
    except OSError:  # it is not there, and whoever makes it owns it
        return True
    if os.name != "posix":
        return True
    if status.st_uid not in (os.geteuid(), 0):
        reason = f"it belongs to another user (number {status.st_uid})"
    elif status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid)):
        reason = "other users can write there"
    else:
        return True
    place = os.fspath(directory)
    with _STATE:
        new = place not in _refused
        _refused.add(place)
    if new:
        advice = (
            "let it be yours and run chmod -R go-w on it, or set NUMBA_CACHE_DIR to a directory of your own"
        )
        tell(f"compiled code kept in {place} is not used: {reason}; {advice}")
    return False


def _is_private(group: int) -> bool:
    """Whether a group is that of this user alone, as many systems make one for each user."""
    import grp
    import pwd

    try:
        known, own = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return own.pw_gid == group and known.gr_name == own.pw_name and set(known.gr_mem) <= {own.pw_name}


def cache_directory(kind: str) -> Path:
    """Where files of a kind are kept: in the place of ``NUMBA_CACHE_DIR`` if that is set, else the user's."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen) / f"dae_sdc_{kind}"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or tempfile.gettempdir()
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "dae_sdc" / kind


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold off other processes that would write the same file, for :data:`LONGEST_WAIT` at most."""
    # The lock is one of the operating system, which takes it back from a process that ends in any way.
    lock = None
    if os.name == "posix":
        with suppress(OSError):  # there is no place for files either
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = open(f"{path}.lock", "ab") if is_safe(path.parent) else None
    if lock is None:
        yield
        return
    with lock:
        _acquire(lock.fileno())
        try:
            yield
        finally:
            Path(lock.name).unlink(missing_ok=True)  # a process that waits finds the file that was written


def _acquire(descriptor: int) -> None:
    import fcntl

    until = monotonic() + LONGEST_WAIT
    while monotonic() < until:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):  # another process has it
            check()
            sleep(0.02)
        except OSError:  # a file system without locks
            return


def read_kept(path: Path) -> bytes | None:
    """What :func:`write_kept` has written to a file."""
    if not is_safe(path.parent):
        return None
    try:
        with open(path, "rb") as file:
            if not is_safe(path.parent, file.fileno()):
                return None
            content = file.read()
    except OSError:
        return None
    with suppress(OSError):  # only the order in which files are removed suffers
        os.utime(path)
    if content[:_START] == _MAGIC + hashlib.sha256(content[_START:]).digest():
        return content[_START:]
    with suppress(OSError):  # it is damaged for this process all the same
        path.unlink()
    tell(f"{path} was damaged; it is removed, and what it held is compiled anew")
    return None


def write_kept(path: Path, content: bytes) -> bool:
    """Keep something in a file, of which readers see all or nothing."""
    new = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not is_safe(path.parent):
            return False
        name = path.parent / f"{os.getpid()}-{threading.get_ident()}.tmp"
        with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o644), "wb") as file:
            new = name
            file.write(_MAGIC + hashlib.sha256(content).digest() + content)
        os.replace(new, path)
    except OSError:
        if new is not None:
            new.unlink(missing_ok=True)
        return False
    _make_room(path.parent)
    return True


def _make_room(directory: Path) -> None:
    """Remove the files that were not used for longest."""
    files = []
    with suppress(OSError):
        for path in directory.iterdir():
            with suppress(OSError):  # removed by another process
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= CACHE_BYTES:
            return
        with suppress(OSError):
            path.unlink(missing_ok=True)
        total -= size


# --- processes ----------------------------------------------------------------------------------------------


def python(*arguments: str) -> list[str]:
    """The command that starts another Python, which does not import from the current directory."""
    return [sys.executable, "-P", *arguments]


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the current directory is gone
        return path


def surroundings() -> dict[str, str]:
    """Variables by which another Python finds our modules; the current directory only if it was named."""
    here, home = _absolute(os.curdir), str(Path(__file__).resolve().parents[1])
    asked = {_absolute(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    paths = [path for path in sys.path if path and (_absolute(path) != here or here in asked)]
    if home not in map(_absolute, paths):
        paths.append(home)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


_OF_THE_INTERVAL = "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"


def bar_of(total: int, unit: str, progress: bool | None, done: int = 0, **form: Any) -> Any:
    """A bar of so many runs, steps or other pieces of work."""
    disable = None if progress is None else not progress  # tqdm looks for a terminal itself where it is None
    return tqdm(total=total, initial=done, unit=unit, disable=disable, leave=False, **form)


class TimeBar:
    """A bar of the part of an interval that a run has covered, where the number of steps is not known."""

    # ``watched``: unknowns that are shown beside the time and the step, and their places.
    def __init__(
        self, t0: float, t_end: float, progress: bool | None, watched: Mapping[str, int] | None = None
    ) -> None:
        self.t0, self.length, self.time, self.steps, self.watched = t0, t_end - t0, t0, 0, watched or {}
        self._bar: Any = None if progress is False else bar_of(1, "", progress, bar_format=_OF_THE_INTERVAL)
        self.shown = self._bar is not None and not self._bar.disable

    def __enter__(self) -> TimeBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def reach(self, time: float, steps: int, u: Sequence[float]) -> None:
        """The last of so many more steps has ended at ``time`` with these values."""
        self.steps += steps
        values = [f"{name}={u[place]:.4g}" for name, place in self.watched.items()]
        values = [f"dt={(time - self.time) / max(1, steps):.2g}", *values] if values else []
        self._bar.postfix, self.time = ", ".join([f"t={time:.4g}", f"{self.steps} steps", *values]), time
        self._bar.update(min(1.0, (time - self.t0) / self.length) - self._bar.n)


def each(pieces: Sequence[T], unit: str, progress: bool | None) -> Iterator[T]:
    """The pieces one after the other, with a bar as of :func:`bar_of`."""
    with bar_of(len(pieces), unit, progress) as bar:
        for piece in pieces:
            yield piece
            bar.update(1)
