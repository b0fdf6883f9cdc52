"""DAEs given by a function, or by a mass matrix and a right-hand side, instead of a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import scipy.sparse as sparse

from dae_sdc.arguments import shown
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE
from dae_sdc.dae.values import TIMES, needed_arguments, uncached
from dae_sdc.errors import InputError, require_number
from dae_sdc.registry import require_name

MOST_UNKNOWNS: Final = 200  # Most unknowns with which a function is called to count its unknowns.
FORMS: Final = {2: "f(t, u)", 3: "F(t, u, du)"}  # Functions of equations, by the number of arguments.


def problem_of_function(
    function: Callable[..., Any], start: Any = None, mass: Any = None
) -> FunctionProblem | MassMatrixProblem:
    """The problem of a function F(t, u, du), or of f(t, u), which is u' or M u' with the ``mass`` M."""
    count = 2 if mass is not None or len(needed_arguments(function) or ()) == 2 else 3
    entries = None if start is None else list(start) if np.iterable(start) else [start]
    names = tuple(entries) if entries is not None and all(isinstance(one, str) for one in entries) else None
    n = number_of_unknowns(function, count) if entries is None else len(entries)
    return FunctionProblem(function, n, names) if count == 3 else MassMatrixProblem(function, mass, n, names)


def number_of_unknowns(function: Callable[..., Any], count: int) -> int:
    """The one number of unknowns for which a function returns as many values."""
    function = uncached(function)
    _check_function(function, FORMS[count], count)
    fitting: list[int] = []
    for n in range(1, MOST_UNKNOWNS + 1):
        try:
            with np.errstate(all="ignore"):
                values = np.asarray(function(*(0.3, np.full(n, 0.7), np.full(n, 0.2))[:count]))
        except Exception:  # of a function that is not made for so many
            continue
        if values.shape == (n,):
            fitting.append(n)
        if len(fitting) > 1:
            break
    if len(fitting) != 1:
        name, why = getattr(function, "__name__", "F"), "several numbers fit" if fitting else "none fits"
        raise InputError(
            f"how many unknowns {name} has is not found: {why}; give u0, or ds.FunctionProblem({name}, n)"
        )
    return fitting[0]


class _WithKeywords(ProblemDAE):
    """Equations of plain functions, whose keyword arguments with defaults are parameters."""

    def _take_keywords(self, names: Sequence[str] | None, *functions: Any) -> None:
        """Take names of unknowns, and keyword arguments, but those named as what every problem has."""
        if names is not None:
            self.names = tuple(names.replace(",", " ").split() if isinstance(names, str) else names)
        self._keywords: list[tuple[str, ...]] = []
        for function in functions:
            keywords: dict[str, Any] = {}
            with suppress(ValueError, TypeError):  # its signature is not known, or it is a matrix
                keywords = {
                    name: parameter.default
                    for name, parameter in inspect.signature(function).parameters.items()
                    if parameter.default is not parameter.empty
                    and not (name[0] == "_" or hasattr(self, name))
                }
            self._makeAttributeAndRegister(*keywords, localVars=keywords)
            self._keywords.append(tuple(keywords))

    @property
    def model_name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", "F")).strip("<>")

    def _method(self, name: str) -> str:
        return self.model_name if name == "eval_f" else super()._method(name)

    def _called(self, function: Any, number: int, *arguments: Any) -> Any:
        return function(*arguments, **{name: getattr(self, name) for name in self._keywords[number]})

    @property
    def parameter_values(self) -> dict[str, Any]:
        """Values of the keyword arguments of the function."""
        return {name: getattr(self, name) for name in self._keywords[0]}

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Set parameters by name; raises InputError for what is none."""
        known = [name for names in self._keywords for name in names]
        for name, value in values.items():
            function = getattr(self.function, "__name__", "the function")
            require_name(f"parameter of {function}", name, known)
            number = isinstance(getattr(self, name), float)
            setattr(self, name, require_number(f"parameter {name}", value) if number else value)


class FunctionProblem(_WithKeywords):
    r"""The equations :math:`F(t, u, u') = 0` of a plain function, with unknowns in any order.

    ``ds.solve(F, u0=...)`` makes one of these of F. Keyword arguments of F with defaults are parameters, to
    which ``params`` gives other values.

    Parameters
    ----------
    function : callable
        F(t, u, du) of a time and two arrays of n numbers; returns n numbers, one for each equation.
    n : int
        Number of unknowns.
    names : str or sequence of str, optional
        Names of the unknowns.
    **settings
        ``newton_tol``, ``newton_maxiter`` and ``linear_solver`` of :class:`ProblemDAE`.

    Examples
    --------
    >>> def decay(t, u, du):
    ...     return [du[0] + u[0], u[1] - 2.0 * u[0]]
    ...
    >>> problem = ds.FunctionProblem(decay, 2, names=("x", "y"))
    >>> ds.structure(problem).index
    1
    """

    def __init__(
        self, function: Callable[..., Any], n: int, names: str | Sequence[str] | None = None, **settings: Any
    ) -> None:
        function = uncached(function)
        _check_function(function, FORMS[3], 3)
        super().__init__(n, 0, **settings)
        self.function = function
        self._take_keywords(names, function)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        """F at a state and derivative."""
        return self._called(self.function, 0, t, np.asarray(u), np.asarray(du))


class MassMatrixProblem(_WithKeywords):
    r"""The equations :math:`M u' = f(t, u)` with a matrix M that may be singular.

    ``ds.solve(f, mass=M, u0=...)`` makes one of these of f.

    Parameters
    ----------
    function : callable
        f(t, u) of a time and an array of n numbers; returns n numbers.
    mass : array_like, sparse matrix or callable, optional
        M, shape (n, n), a NumPy array or a SciPy sparse matrix, or a function M(t, u) that returns one (the
        identity).
    n : int, optional
        Number of unknowns; needed if M is a function or the identity.
    names : sequence of str, optional
        Names of the unknowns.
    **settings
        ``newton_tol``, ``newton_maxiter`` and ``linear_solver`` of :class:`ProblemDAE`.

    Raises
    ------
    InputError
        If M is no square matrix of finite numbers, or n is missing.

    Examples
    --------
    >>> robertson = ds.MassMatrixProblem(
    ...     lambda t, u: [
    ...         -0.04 * u[0] + 1e4 * u[1] * u[2],
    ...         0.04 * u[0] - 1e4 * u[1] * u[2] - 3e7 * u[1] ** 2,
    ...         u[0] + u[1] + u[2] - 1.0,
    ...     ],
    ...     np.diag([1.0, 1.0, 0.0]),
    ... )
    >>> robertson.n
    3
    """

    def __init__(
        self,
        function: Callable[..., Any],
        mass: Any = None,
        n: int | None = None,
        names: Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        function, mass = uncached(function), uncached(mass)
        _check_function(function, FORMS[2], 2)
        if mass is not None and not callable(mass):
            mass = _checked(mass)
            if n not in (None, mass.shape[0]):
                raise InputError(f"the mass matrix has {mass.shape[0]} rows for {n} unknowns")
            n = mass.shape[0]
        elif mass is not None:
            _check_function(mass, "M(t, u)", 2)
        if n is None:
            raise InputError("no mass matrix of numbers tells the number of unknowns; give n")
        super().__init__(n, 0, **settings)
        self.function, self.mass = function, mass
        self._take_keywords(names, function, mass)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        """M u' - f(t, u)."""
        mass = self._called(self.mass, 1, t, np.asarray(u)) if callable(self.mass) else self.mass
        rate: Any = du if mass is None else mass @ du
        return rate - np.asarray(self._called(self.function, 0, t, np.asarray(u)))


def _check_function(function: Any, wanted: str, count: int) -> None:
    """Raise InputError unless ``function`` can be called with ``count`` arguments."""
    if not callable(function):
        raise InputError(f"{wanted} must be a function; got {shown(function)}")
    name = getattr(function, "__name__", "the function")
    try:
        signature = inspect.signature(function)
        signature.bind(*range(count))
    except TypeError as error:
        raise InputError(f"{name} must take the arguments of {wanted}: {error}") from None
    except ValueError:  # its signature is not known
        return
    names = [one.name for one in signature.parameters.values() if one.kind is not one.VAR_POSITIONAL][:count]
    last = names[-1] if len(names) == count else ""
    if last in TIMES and names[0] not in TIMES:
        raise InputError(f"{name} takes '{last}' last, but is called as {wanted}; put the time first")


def _checked(mass: Any) -> Any:
    make: Any = sparse.csr_matrix if sparse.issparse(mass) else np.array
    try:
        matrix = make(mass, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("a mass matrix is a square array or sparse matrix of real numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix.sum()):
        raise InputError(f"a mass matrix is a square matrix of finite numbers; got shape {matrix.shape}")
    return matrix
