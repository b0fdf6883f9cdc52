"""Arguments of public functions, checked against their signatures: one decorator, errors of one line."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from dae_sdc.errors import InputError, require_count
from dae_sdc.registry import unknown
from dae_sdc.sharing import interrupted_again
from dae_sdc.text import names_in

# Largest counts that public functions take, by name of the argument; options have bounds of their own.
MOST: Mapping[str, int] = {"ranks": 10_000, "repetitions": 100_000, "sizes": 10_000_000, "workers": 10_000}

P = ParamSpec("P")
R = TypeVar("R")


def _is_of_numpy(value: Any, name: str) -> bool:
    """Whether a value is of a class of NumPy, which is not imported for that: then nothing is."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy, name))


MOST_SHOWN = 60  # Characters of a value that a message shows.


@dataclass(frozen=True)
class Kind:
    """What an annotation wants of a value."""

    # wanted, several: what is wanted in words, one and several: "a number", "numbers".
    wanted: str
    several: str
    takes: Callable[[Any], bool]  # Whether a value is of this kind.


def is_integer(value: Any) -> bool:
    """Whether a value is an integer and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


# Kinds of the types that messages have words for.
PLAIN: Mapping[Any, Kind] = {
    float: Kind(  # NaN is none
        *("a number", "numbers"), lambda x: not isinstance(x, bool) and isinstance(x, Real) and bool(x == x)
    ),
    int: Kind("an integer", "integers", is_integer),
    str: Kind("a text", "texts", lambda value: isinstance(value, str)),
    bool: Kind(
        "True or False", "truth values", lambda value: isinstance(value, bool) or _is_of_numpy(value, "bool_")
    ),
    types.NoneType: Kind("None", "None", lambda value: value is None),
    **dict.fromkeys(
        (Path, os.PathLike), Kind("a path", "paths", lambda value: isinstance(value, os.PathLike))
    ),
    type: Kind("a class", "classes", lambda value: isinstance(value, type)),
    Callable: Kind("a function", "functions", callable),
}


OF_SEVERAL: Final = (Sequence, list, tuple, Iterable)  # Types of collections.


def _is_several(kind: type, value: Any) -> bool:
    """Whether a value is a collection of a type; its entries are checked separately."""
    if _is_of_numpy(value, "ndarray"):
        return kind in (Sequence, Iterable) and bool(value.ndim == 1)
    return isinstance(value, kind) and not isinstance(value, str | bytes)


def shown(value: object) -> str:
    """A value for a message, in one line that is not long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a class of the user
        text = f"an object of {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 4]} ..."


class _Names(dict[str, Any]):
    """The names of a module; those that only type checkers see there stand for anything."""

    def __missing__(self, name: str) -> Any:
        return next((kind for kind in (*PLAIN, *OF_SEVERAL, Mapping) if kind.__name__ == name), Any)


@functools.lru_cache(maxsize=512)
def kind_of(annotation: str, module: str) -> Kind | None:
    """What an annotation wants, or None where it says nothing that can be checked."""
    names = _Names(vars(sys.modules[module]) if module in sys.modules else {})
    try:
        return _kind(eval(annotation, {"__builtins__": {}}, names))
    except (AttributeError, TypeError):  # a part of a name that only type checkers see
        return None


def _kind(wanted: Any) -> Kind | None:
    wanted = types.NoneType if wanted is None else wanted
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        words = f"one of {', '.join(map(str, parts))}"
        return Kind(words, words, lambda value: isinstance(value, str) and value in parts)
    if (origin or wanted) in PLAIN:
        return PLAIN[origin or wanted]
    kinds = [_kind(part) for part in parts]
    if origin in (types.UnionType, Union):
        return None if None in kinds else _any_of([kind for kind in kinds if kind is not None])
    if origin is Mapping:
        return _mapping(kinds)
    if origin in OF_SEVERAL:
        return _collection(origin, kinds[0])
    if not isinstance(wanted, type) or wanted in (Any, object) or getattr(wanted, "_is_protocol", False):
        return None
    article = "an" if wanted.__name__[0] in "AEIOU" else "a"
    return Kind(
        f"{article} {wanted.__name__}", f"{wanted.__name__}s", lambda value: isinstance(value, wanted)
    )


def _any_of(kinds: Sequence[Kind]) -> Kind:
    named = [kind for kind in kinds if kind is not PLAIN[types.NoneType]]
    return Kind(
        " or ".join(dict.fromkeys(kind.wanted for kind in named)),
        " or ".join(dict.fromkeys(kind.several for kind in named)),
        lambda value: any(kind.takes(value) for kind in kinds),
    )


def _collection(kind: type, item: Kind | None) -> Kind | None:
    takes = functools.partial(_is_several, kind)
    if item is None:
        return Kind("a sequence", "sequences", takes) if kind in (Sequence, Iterable) else None
    wanted = f"{'a sequence' if kind in (Sequence, Iterable) else kind.__name__} of {item.several}"
    return Kind(
        wanted, f"sequences of {item.several}", lambda value: takes(value) and all(map(item.takes, value))
    )


def _mapping(kinds: Sequence[Kind | None]) -> Kind:
    key, entry = kinds

    def takes(value: Any) -> bool:
        if not isinstance(value, Mapping):
            return False
        names = key is None or all(map(key.takes, value))
        return names and (entry is None or all(map(entry.takes, value.values())))

    left = "names" if key is None or key is PLAIN[str] else key.several
    right = "values" if entry is None else entry.several
    return Kind(f"a mapping of {left} to {right}", "mappings", takes)


@functools.lru_cache(maxsize=256)
class _Arguments:
    """What a function takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        every = self.signature.parameters.items()
        # Those that can be given by name, those of them that stand in order, and those without a default.
        self.named = {
            name: one for name, one in every if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        }
        self.in_order = [name for name, one in self.named.items() if one.kind is not one.KEYWORD_ONLY]
        self.needed = {name for name, one in self.named.items() if one.default is one.empty}
        self.has_any_name = any(one.kind is one.VAR_KEYWORD for _, one in every)

    def bind(self, args: Sequence[Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of a call by name, as those of :meth:`inspect.Signature.bind`, in less time."""
        arguments = {**dict(zip(self.in_order, args, strict=False)), **given}
        if len(arguments) < len(args) + len(given) or not self.needed <= arguments.keys():
            return self.signature.bind(*args, **given).arguments
        return arguments


def _check_types(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """Refuse arguments of other types than annotations want; lists in place of texts and arrays of them."""
    named, lists = _Arguments(function).named, dict[str, list[str]]()
    for name in [name for name in named if name in arguments]:
        parameter, value = named[name], arguments[name]
        if not isinstance(parameter.annotation, str) or value is parameter.default:
            continue
        for part in value if isinstance(value, list | tuple) else (value,):
            if _is_of_numpy(part, "ndarray") and hasattr(part, "filled"):
                raise InputError(
                    f"{name} is a masked array, or has masked entries; give numbers, as by its method filled"
                )
        kind = kind_of(parameter.annotation, function.__module__)
        if kind is not None and not kind.takes(value):
            if isinstance(value, str) and kind.takes([value]):
                lists[name] = [value] if kind.takes([Path()]) else names_in(value) or [value]
                continue
            raise InputError(f"{name} must be {kind.wanted}; got {shown(value)}")
        of_texts = _is_of_numpy(value, "ndarray") and (value.dtype.kind in "UO" or not value.size)
        if of_texts and kind is not None:
            lists[name] = value.tolist()
        several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        for count in (value if several else (value,)) if name in MOST else ():
            if is_integer(count) and count > MOST[name]:
                require_count(name, int(count), MOST[name])
        if name == "seed" and is_integer(value) and value < 0:
            raise InputError(f"seed must be an integer, at least 0; got {shown(value)}")
        if name == "comm" and not hasattr(value, "Get_size"):
            raise InputError(f"comm must be a communicator of mpi4py; got {shown(value)}")
    return lists


# Options by the words that other libraries have for them.
OTHERS: Final[Mapping[str, str]] = {
    "sweeper": "method alg algorithm integrator solver",
    "t_end": "t_span tspan t_range tstop tfinal t_final t_bound tout_end stop_time",
    "u0": "y0 x0 z0 initial_state start_values",
    "rtol": "reltol rel_tol relative_tolerance tol tolerance",
    "atol": "abstol abs_tol absolute_tolerance",
    "dt": "first_step h0 dt0 hinit initial_step step step_size stepsize h",
    "dt_max": "max_step maxstep hmax dtmax max_step_size",
    "time_limit": "mxstep max_steps maxsteps nsteps max_num_steps maxiters timeout",
    "dense": "dense_output",
    "t_eval": "saveat tout t_out tlist teval t_points times",
    "params": "args p parameters constants",
    "guesses": "u0 y0 x0 guess initial_guess",
    "at": "u0 y0 x0 z0 operating_point",
    "start": "calc_initcond initializealg",
    "fixed": "du0 yp0 ydot0 dy0 dydt0",
    "trace": "jac jacobian jacfn jac_sparsity",  # exact Jacobians follow from the equations that it reads
}


def own_word(given: str, options: Container[str]) -> str:
    """That of the options which other libraries have another word for; empty for a word that none has."""
    return next((own for own, others in OTHERS.items() if own in options and given in others.split()), "")


def checked() -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator for public functions: what cannot be used is an InputError of one line with what fits."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            name, taken = function.__name__, _Arguments(function)
            for given in () if taken.has_any_name else kwargs:
                if given not in taken.named:
                    if own := own_word(given, taken.named):
                        raise InputError(f"{name} has no option '{given}'; {own} is what it takes for that")
                    raise InputError(unknown(f"option of {name}", given, taken.named))
            try:
                arguments = taken.bind(args, kwargs)
            except TypeError as error:
                raise InputError(f"{name}: {error}; it takes {', '.join(taken.named)}") from None
            if lists := _check_types(function, arguments):
                bound: Any = taken.signature.bind(*args, **kwargs)
                bound.arguments |= lists
                return call(*bound.args, **bound.kwargs)
            with interrupted_again():
                return function(*args, **kwargs)

        return call

    return decorate
