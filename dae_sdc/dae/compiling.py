"""Compilation by numba, kept on disk, and what compiled code calls. Importing this imports numba.

Code on disk is known by a digest of a function and of all that its machine code holds.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from types import FunctionType
from typing import Any, ClassVar, Final

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import _dynfunc, from_dtype, njit, types
from numba.core import cgutils, config, event
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler import Compiler, CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import NumbaError, NumbaWarning
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from numba.core.typed_passes import NativeLowering
from numba.core.untyped_passes import IRProcessing
from numba.extending import intrinsic, models, overload, overload_method, register_jitable, register_model
from tqdm import tqdm

from dae_sdc.dae.code_digest import IMPLEMENTATIONS, kept_digest, versioned
from dae_sdc.dae.machine_code import CFunction, function_in
from dae_sdc.dae.memory import INLINED
from dae_sdc.deadline import check
from dae_sdc.errors import InputError
from dae_sdc.sharing import alone, cache_directory, filtering, interrupted_again, read_kept, write_kept

LONGEST_SILENCE = 2.0  # Seconds of compiling after which a process tells a terminal of it.
CompilationError: Final = NumbaError  # What a function raises that cannot be compiled.


@cache
def files_digest(classes: tuple[type, ...]) -> str:
    """A digest of the files in which these classes and those above them stand, but for those of numba."""
    modules = {kind.__module__ for one in classes for kind in one.__mro__}
    paths = sorted(str(sys.modules[name].__file__) for name in modules if not versioned(name))
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


class _BetweenPasses(event.Listener):  # type: ignore[misc]
    """Looks at the time before each pass of numba's compiler, and tells a terminal if all take long."""

    _depth, _began, _seconds, _told = 0, 0.0, 0.0, False

    def on_start(self, event: Any) -> None:
        check()
        self._began = self._began if self._depth else perf_counter()
        self._depth += 1
        if not self._told and self._seconds + perf_counter() - self._began > LONGEST_SILENCE:
            self._told = True
            with suppress(AttributeError, OSError, ValueError):  # of standard error that is not there
                if sys.stderr.isatty():
                    tqdm.write("functions are compiled, once: they are kept for later runs", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if not self._depth:
            self._seconds += perf_counter() - self._began


event.register("numba:run_pass", _BetweenPasses())


def _is_open(module: Any) -> bool:
    """Whether functions call each other: they find their addresses when all are machine code of a process."""
    return any(variable.name.startswith(RuntimeLinker.PREFIX) for variable in module.global_variables)


class _Disk(NullCache):  # type: ignore[misc]
    """Compiled forms of one function on disk, a file for each."""

    # numba itself keeps an index and numbers its files, so that processes which compile at the same time, or
    # versions that share a directory, write over files that another's index names. Here the name of a file
    # has a digest of all that it depends on, and of nothing else.

    def __init__(self, name: str, about: tuple[Any, ...]) -> None:
        self._directory, self._name = cache_directory("functions"), name
        self._about = (numba.__version__, llvmlite.__version__, np.__version__, sys.version_info[:2], about)

    def path(self, sig: Any, codegen: Any, kind: str = "nbc") -> Path:
        """Where a form is kept."""
        about = repr((self._about, sig, codegen.magic_tuple(), int(config.OPT)))
        return self._directory / f"{self._name}-{hashlib.sha256(about.encode()).hexdigest()[:32]}.{kind}"

    def alone(self, sig: Any, context: Any) -> AbstractContextManager[None]:
        """Hold off other processes that would compile the same, unless it is there."""
        path = self.path(sig, context.codegen())
        return nullcontext() if path.exists() else alone(path)

    def load_overload(self, sig: Any, context: Any) -> Any:
        context.refresh()
        content = read_kept(self.path(sig, context.codegen()))
        if content is None:
            return None
        try:
            return CompileResult._rebuild(context, *pickle.loads(content))
        except (ImportError, AttributeError, pickle.UnpicklingError):  # of a module that is not found here
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not data.library.has_dynamic_globals and not _is_open(data.library._final_module):
            write_kept(self.path(sig, data.codegen), dumps(data._reduce()))


@contextmanager
def _switched_on() -> Iterator[None]:
    """Compile even where NUMBA_DISABLE_JIT says not to: no sweep of compiled code could go without."""
    with global_compiler_lock:
        before, config.DISABLE_JIT = config.DISABLE_JIT, 0
        try:
            with interrupted_again():  # also of those who use classes without a public function
                yield
        except FileNotFoundError as error:  # numba makes paths relative
            raise InputError(
                "the current directory is gone, where numba compiles; go to another one"
            ) from error
        finally:
            config.DISABLE_JIT = before


class _KeptDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A dispatcher of numba, of which two processes do not compile the same form at the same time."""

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock:
            known = not isinstance(self._cache, _Disk) or normalize_signature(sig)[0] in self.overloads
            with nullcontext() if known else self._cache.alone(sig, self.targetctx), _switched_on():
                return super().compile(sig)


def _place(function: Any, options: dict[str, Any]) -> tuple[FunctionType, NullCache]:
    """A function with its digest in its name, by which code is linked, and where its forms are kept."""
    digest = kept_digest(function)
    if digest is None:
        return function, NullCache()
    parts = function.__code__, function.__globals__, function.__name__
    named = FunctionType(*parts, function.__defaults__, function.__closure__)
    named.__kwdefaults__ = function.__kwdefaults__
    named.__qualname__ = f"{function.__qualname__}-{digest[:8]}"
    compiler = options.get("pipeline_class", Compiler)
    about = digest, function.__module__, compiler.__qualname__, files_digest((compiler,))
    plain = sorted((name, value) for name, value in options.items() if name != "pipeline_class")
    return named, _Disk(function.__name__.strip("<>"), (about, plain))


def kept(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and keep its forms on disk if there is a place for them."""
    options = {"nopython": True, "error_model": "numpy"}
    named, cache = _place(function, options)
    compiled = _KeptDispatcher(named, {}, options)
    compiled._cache = cache
    return compiled


def c_function(
    function: Callable[..., Any], signature: Any, pipeline_class: Any = Compiler, **options: Any
) -> CFunction:
    """Compile a C function, and keep the result on disk if there is a place for it."""
    options = {"error_model": "numpy", **options}
    named, cache = _place(function, options | {"pipeline_class": pipeline_class})
    compiled: Any = CFunc(named, normalize_signature(signature), {}, options, pipeline_class)
    with filtering("ignore", NumbaWarning), global_compiler_lock:
        if not isinstance(cache, _Disk):
            return _compiled(compiled)
        path = cache.path(compiled._sig, compiled._targetdescr.target_context.codegen(), "o")
        with nullcontext() if path.exists() else alone(path):
            on_disk = function_in(path.name)
            if on_disk is not None:
                return on_disk
            made = _compiled(compiled)
            content = _object_file(compiled)
            written = content is not None and write_kept(path, content)
            return made._replace(file=path.name) if written else made


def c_functions(
    functions: dict[str, tuple[Callable[..., Any], Any]], **options: Any
) -> dict[str, Callable[[], CFunction]]:
    """What compiles C functions by their names, from functions and their signatures."""
    return {name: partial(c_function, *pair, **options) for name, pair in functions.items()}


def _compiled(function: Any) -> CFunction:
    with _switched_on():
        function.compile()
    return CFunction(function.address, function)


def _object_file(compiled: Any) -> bytes | None:
    """What ``function_in`` of machine_code.py reads; None for code that serves this process alone."""
    library = compiled._library
    module = library._final_module
    if library.has_dynamic_globals or _is_open(module):
        return None
    parts = (*module.functions, *module.global_variables)
    called = [part.name for part in parts if part.is_declaration and not part.name.startswith("llvm.")]
    code: bytes = library._get_compiled_object()
    return "\t".join([compiled.native_name, *called]).encode() + b"\n" + code


class _LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of a function that only compiled functions call: LLVM optimises and translates it with theirs."""

    def finalize(self) -> None:
        """Link what the function calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        if _is_open(self._final_module):
            self._optimize_final_module()
            self._finalize_final_module()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LinkedLowering(NativeLowering):  # type: ignore[misc]
    """Lowers a function to a :class:`_LinkedLibrary`, which callers know by an object without an address."""

    _name = "dae_sdc_linked_lowering"

    def run_pass(self, state: Any) -> bool:
        """See numba."""
        state.library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()
        place, name, owners = state.cr.fndesc, state.func_id.func_name, (state.library,)
        entry = _dynfunc.make_function(place.lookup_module(), name, "", 0, state.cr.env, owners)
        state.targetctx.insert_user_function(entry, place, owners)
        state.cr = state.cr._replace(cfunc=entry)
        return True


# Names of the passes of numba's compiler that functions need which make no arrays, functions or exceptions.
_NEEDED = {
    *("translate_bytecode", "fixup_args", "ir_processing", "reconstruct_ssa", "nopython_type_inference"),
    *("strip_phis", "ir_legalization", "annotate_types", "native_lowering", "nopython_backend"),
}


class LinkedCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler, with :class:`_LinkedLowering` of what is not called from outside of compiled code."""

    step: ClassVar[type[FunctionPass] | None] = None  # What changes numba's representation of a function.
    # numba would compile a function again for each set of options of those that call it.
    compiled: ClassVar[dict[Any, CompileResult]] = {}

    def compile_extra(self, func: Any) -> CompileResult:
        """See numba."""
        state = self.state
        key = type(self), func, state.args, state.return_type, state.flags.copy()  # which compiling changes
        if key not in self.compiled:
            self.compiled[key] = super().compile_extra(func)
        return self.compiled[key]._replace(metadata=None)  # which would be that of one caller

    def define_pipelines(self) -> Any:
        """See numba."""
        passes, flags = DefaultPassBuilder.define_nopython_pipeline(self.state), self.state.flags
        if flags.no_rewrites:
            passes.passes = [each for each in passes.passes if each[0].name() in _NEEDED]
        if self.step is not None:
            passes.add_pass_after(self.step, IRProcessing)
        if flags.no_cfunc_wrapper and flags.no_cpython_wrapper:
            at = [kind for kind, _ in passes.passes].index(NativeLowering)
            passes.passes[at] = _LinkedLowering, "native lowering"
        passes.finalize()
        return [passes]


# Options of functions that only compiled functions call: without what others need, they compile faster.
LINKED = {
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
    "error_model": "numpy",
    "pipeline_class": LinkedCompiler,
}
INNER = LINKED | {"no_rewrites": True, "_nrt": False}  # Of those that make no arrays.


def inner(function: Any, **options: Any) -> Any:
    """Decorator of functions that only compiled functions call."""
    with _switched_on():
        return njit(**LINKED | options)(function)


_DOUBLES, _COMPLEX = types.CPointer(types.float64), types.CPointer(types.complex128)

# Types of ``residual(t, u*, du*, p*, out*)`` and ``jacobian(t, u*, du*, c, p*, out*)``; the complex one is a
# residual of complex u, du and out.
SIGNATURES = {
    "residual": types.void(types.float64, _DOUBLES, _DOUBLES, _DOUBLES, _DOUBLES),
    "jacobian": types.void(types.float64, _DOUBLES, _DOUBLES, types.float64, _DOUBLES, _DOUBLES),
    "complex": types.void(types.float64, _COMPLEX, _COMPLEX, _DOUBLES, _COMPLEX),
}


def view_as(kind: Any) -> Any:
    """An intrinsic that turns an address into a pointer, or into the record that stands there."""

    @intrinsic
    def view(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return kind(types.int64), generate

    return view


def pointer_to(kind: Any) -> Any:
    """An intrinsic that turns an address into a pointer to numbers of a kind."""
    return view_as(types.CPointer(kind))


doubles, integers, short_integers = map(pointer_to, (types.float64, types.int64, types.int32))


@intrinsic
def address_of(context: Any, pointer: Any) -> Any:
    """The address that a pointer holds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(arguments[0], context.get_value_type(types.int64))

    return types.int64(pointer), generate


# Decorator of functions that compiled code calls and Python may call.
within_compiled = register_jitable(**INNER)


def register_inlined() -> None:
    """Let compiled code call the functions that ``inlined`` has marked since the last call."""
    with global_compiler_lock:  # no thread compiles what another one has yet to tell
        while INLINED:
            register_jitable(**LINKED)(INLINED.pop())


def _one_form(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """What numba calls for the form of a function by types: one implementation for all."""

    def typed(*_: Any) -> Any:
        return implementation

    vars(typed)["__signature__"] = inspect.signature(implementation)
    return typed


def compiled_as(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Decorator of a function that compiled code calls in place of a Python one with the same parameters."""

    def register(implementation: Any) -> Any:
        IMPLEMENTATIONS[function].append(implementation)
        overload(function, jit_options=INNER)(_one_form(implementation))
        return implementation

    return register


class RecordView:
    """Structures of C that Python has made, as compiled code sees them: with fields and methods."""

    def __init__(self, structure: type[ctypes.Structure]) -> None:
        plain = from_dtype(np.dtype(structure))
        self._kind: Any = type(structure.__name__, (types.Record,), {"__repr__": types.Type.__repr__})
        register_model(self._kind)(models.RecordModel)
        fields = [(name, field._asdict()) for name, field in plain.fields.items()]
        self.at = view_as(self._kind(fields, plain.size, plain.aligned))

    def method(self, **options: Any) -> Callable[[Any], Any]:
        """Decorator that makes a function of a structure its method of that name in compiled code."""

        def register(implementation: Any) -> Any:
            name = implementation.__name__.removeprefix("_")
            IMPLEMENTATIONS[name].append(implementation)
            overload_method(self._kind, name, jit_options=INNER | options)(_one_form(implementation))
            return implementation

        return register


@intrinsic
def call_at(context: Any, address: Any, arguments: Any) -> Any:
    """Call the C function at an address with integers or addresses; the integer it returns."""
    integer, count = ir.IntType(64), arguments.count

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(integer, [integer] * count)
        function = builder.inttoptr(values[0], kind.as_pointer())
        return builder.call(function, cgutils.unpack_tuple(builder, values[1], count))

    return types.int64(types.int64, types.UniTuple(types.int64, count)), generate


def _call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Call the C function at the first argument; others that are integers are addresses of doubles."""
    double = ir.DoubleType()
    pointer = double.as_pointer()
    address, *values = arguments
    kinds = [double if value.type == double else pointer for value in values]
    function = builder.inttoptr(address, ir.FunctionType(ir.VoidType(), kinds).as_pointer())
    pairs = zip(values, kinds, strict=True)
    builder.call(function, [one if kind == double else builder.inttoptr(one, pointer) for one, kind in pairs])
    return context.get_dummy_value()


@intrinsic
def call_residual(context: Any, address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> Any:
    """Call a residual at its address with addresses of arrays."""
    place, number = types.int64, types.float64
    return types.void(place, number, place, place, place, place), _call


@intrinsic
def call_jacobian(context: Any, address: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> Any:
    """Call a Jacobian at its address with addresses of arrays."""
    place, number = types.int64, types.float64
    return types.void(place, number, place, place, number, place, place), _call


# Where an object that is an array has the addresses of its numbers and of its shape.
NUMBERS: Final = object.__basicsize__
SHAPE: Final = NUMBERS + 16


@within_compiled
def numbers_of(array: Any) -> Any:
    """The address of the numbers of an array, from that of the object."""
    return integers(array + NUMBERS)[0]


@within_compiled
def shape_of(array: Any) -> Any:
    """The shape of an array, from the address of the object."""
    return integers(integers(array + SHAPE)[0])


def _residual_at(address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
    """F(t, u, u') into ``out``, arrays of shape (n,)."""
    call_residual(address, t, numbers_of(u), numbers_of(du), numbers_of(p), numbers_of(out))


def _residuals_at(address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
    """F, or K other values, at M nodes into ``out``; shapes (M,), (M, n), (M, n), (parameters,), (M, K)."""
    times, row, row_of_values = doubles(numbers_of(t)), 8 * shape_of(u)[1], 8 * shape_of(out)[1]
    for m in range(shape_of(t)[0]):
        place, slope = numbers_of(u) + row * m, numbers_of(du) + row * m
        call_residual(address, times[m], place, slope, numbers_of(p), numbers_of(out) + row_of_values * m)


def _jacobian_at(address: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> None:
    """dF/du' + c dF/du into ``out``, row by row or as entries of a pattern."""
    call_jacobian(address, t, numbers_of(u), numbers_of(du), c, numbers_of(p), numbers_of(out))


_PLACE, _NUMBER = types.int64, types.float64

C_FUNCTIONS = c_functions(
    {
        "residual_at": (_residual_at, types.void(_PLACE, _NUMBER, *(_PLACE,) * 4)),
        "residuals_at": (_residuals_at, types.void(*(_PLACE,) * 6)),
        "jacobian_at": (_jacobian_at, types.void(_PLACE, _NUMBER, _PLACE, _PLACE, _NUMBER, _PLACE, _PLACE)),
    }
)
"""Calls of kernels from Python, for :func:`dae_sdc.dae.kernels.machine`; arrays are told by their objects."""
