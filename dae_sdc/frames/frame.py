"""Frames: points in space joined by bars, beams and springs, with supports and loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.frames.response import FrameResponse, Member, Supports, Vector
from dae_sdc.model.model import Model
from dae_sdc.reduction.factor import Row
from dae_sdc.reduction.symbolic_factors import SymbolicFactors, factor_method, typical_values

# Displacements and rotations of a point, in the order of the degrees of freedom.
DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")


@dataclass(frozen=True)
class Section:
    """Nodes of what a beam is made of."""

    # E, G: young's modulus and shear modulus.
    E: int
    G: int
    # A, Iy, Iz, J: area, second moments of area about the local axes y and z, and torsion constant.
    A: int
    Iy: int
    Iz: int
    J: int
    # Ay, Az: areas of shear for forces along y and z, kappa A, of a Timoshenko beam; None without shear.
    Ay: int | None = None
    Az: int | None = None


def length(graph: Graph, along: Vector) -> int:
    """The length of a vector."""
    return graph.call(Op.SQRT, graph.add(*(graph.integer_power(component, 2) for component in along)))


def cross(graph: Graph, a: Vector, b: Vector) -> Vector:
    """The vector product."""

    def part(i: int, j: int) -> int:
        return graph.sub(graph.mul(a[i], b[j]), graph.mul(a[j], b[i]))

    return part(1, 2), part(2, 0), part(0, 1)


def local_axes(graph: Graph, along: Vector, up: Vector) -> tuple[Vector, Vector, Vector]:
    """Unit vectors: x along an element, y = up x x, and z = x x y, on the side of ``up``."""

    def unit(vector: Vector) -> Vector:
        size = length(graph, vector)
        a, b, c = (graph.div(component, size) for component in vector)
        return a, b, c

    across = cross(graph, up, along)
    if all(graph.is_zero(component) for component in across):
        raise InputError("up is parallel to the beam; give up=(x, y, z) in another direction")
    x, y = unit(along), unit(across)
    return x, y, cross(graph, x, y)


def bar_stiffness(graph: Graph, along: Vector, E: int, A: int) -> list[Row]:
    r"""Stiffness of a bar, :math:`\pm (E A / L) n n^T` for the displacements of its ends."""
    over = graph.div(graph.mul(E, A), graph.integer_power(length(graph, along), 3))
    rows: list[Row] = []
    for i in range(6):
        row = {}
        for j in range(6):
            entry = graph.mul(over, along[i % 3], along[j % 3])
            row[j] = entry if i // 3 == j // 3 else graph.neg(entry)
        rows.append(row)
    return rows


def beam_stiffness(
    graph: Graph, along: Vector, section: Section, up: Vector, released: Sequence[int] = ()
) -> list[Row]:
    """Stiffness of a beam of Euler and Bernoulli, or of Timoshenko where the section has areas of shear."""
    axes = local_axes(graph, along, up)
    local = _local_stiffness(graph, length(graph, along), section)
    for r in released:
        _release(graph, local, r)
    rows: list[Row] = [{} for _ in range(12)]
    for first in range(0, 12, 3):
        for second in range(0, 12, 3):
            block = [(k, m, local[first + k].get(second + m)) for k in range(3) for m in range(3)]
            terms = [(axes[k], axes[m], node) for k, m, node in block if node is not None]
            for i in range(3):
                for j in range(3):
                    entry = graph.add(*(graph.mul(node, a[i], b[j]) for a, b, node in terms))
                    if entry != graph.zero:
                        rows[first + i][second + j] = entry
    return rows


def _local_stiffness(graph: Graph, size: int, section: Section) -> list[Row]:
    """Stiffness in local axes; in one plane 12, 6, 4 + phi and 2 - phi times E I / (L^k (1 + phi))."""
    # With phi = 12 E I / (G A_s L^2). R. D. Cook, D. S. Malkus, M. E. Plesha, R. J. Witt: Concepts and
    # Applications of Finite Element Analysis, 4th edition, Wiley 2002, chapter 2.
    mul, div, add, number = graph.mul, graph.div, graph.add, graph.constant
    rows: list[Row] = [{} for _ in range(12)]

    def put(i: int, j: int, node: int) -> None:
        rows[i][j] = rows[j][i] = node

    def join(i: int, node: int) -> None:
        """A spring between both ends."""
        put(i, i, node)
        put(i + 6, i + 6, node)
        put(i, i + 6, graph.neg(node))

    join(0, div(mul(section.E, section.A), size))
    join(3, div(mul(section.G, section.J), size))
    # Forces along y turn about z, forces along z about -y.
    for v, r, inertia, shear, sign in ((1, 5, section.Iz, section.Ay, 1), (2, 4, section.Iy, section.Az, -1)):
        EI = mul(section.E, inertia)
        phi = graph.zero
        if shear is not None:
            phi = div(mul(number(12), EI), mul(section.G, shear, graph.integer_power(size, 2)))
        base = div(EI, add(graph.one, phi))
        force = div(mul(number(12), base), graph.integer_power(size, 3))
        mixed = mul(number(sign), div(mul(number(6), base), graph.integer_power(size, 2)))
        near = div(mul(add(number(4), phi), base), size)
        far = div(mul(graph.sub(number(2), phi), base), size)
        join(v, force)
        for end in (r, r + 6):
            put(v, end, mixed)
            put(v + 6, end, graph.neg(mixed))
            put(end, end, near)
        put(r, r + 6, far)
    return rows


def _release(graph: Graph, rows: list[Row], r: int) -> None:
    """Eliminate a degree of freedom on which no force acts."""
    pivot = rows[r].pop(r, graph.zero)
    if pivot == graph.zero:
        raise InputError(
            f"with its releases a beam moves freely in itself at {DIRECTIONS[r % 6]}; release less"
        )
    column = rows[r]
    rows[r] = {}
    for i, weight in column.items():
        del rows[i][r]
        part = graph.div(weight, pivot)
        for j, other in column.items():
            entry = graph.sub(rows[i].get(j, graph.zero), graph.mul(part, other))
            rows[i][j] = entry
            if entry == graph.zero:
                del rows[i][j]


# Sine of the angle to the axis z below which a beam has its local z axis along x, where ``up`` is not
# given.
VERTICAL: Final = 1e-6


class Frame:
    r"""A structure of bars and beams in space, whose numbers may all be symbols of a model.

    Forces and displacements of free (f) and supported (s) degrees of freedom are related by

    .. math::
        K_{ff} d_f = f_f - K_{fs} d_s, \qquad r_s = K_{sf} d_f + K_{ss} d_s - f_s.

    A degree of freedom is called by its point and direction, "B.x" or "B.rz"; "x", "y", "z" are displacements
    and "rx", "ry", "rz" small rotations about global axes. A point has those that an element stiffens.

    Parameters
    ----------
    model : Model
        Has the symbols. Coordinates, sections, loads and supports are numbers or expressions of them.

    Attributes
    ----------
    model : Model
        As given.
    points : dict of str to Vector
        Coordinates as nodes of the graph of the model.
    members : list of Member
        Bars and beams.

    Examples
    --------
    >>> import dae_sdc as ds
    >>> model = ds.Model("cantilever")
    >>> L, EI, F = model.parameters("L EI F", [2.0, 100.0, 3.0])
    >>> frame = ds.Frame(model)
    >>> frame.point("A", 0, 0, 0); frame.point("B", L, 0, 0)
    >>> frame.beam("A", "B", E=EI, G=EI, A=1, Iy=1, Iz=1, J=1)
    >>> frame.support("A")
    >>> frame.load("B", z=-F)
    >>> round(frame.solve().at()["B.z"], 12)
    -0.08
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.points: dict[str, Vector] = {}
        self.members: list[Member] = []
        self._stiffness: dict[tuple[str, str], int] = {}
        self._loads: dict[str, int] = {}
        self._supported: dict[str, int] = {}

    # Making a frame

    def point(self, name: str, x: Any, y: Any, z: Any) -> None:
        """Add a point.

        Parameters
        ----------
        name : str
            Its name, without dots.
        x, y, z : float or sympy.Expr
            Coordinates.
        """
        if name in self.points or "." in name or not name:
            raise InputError(f"a frame has points with names of their own, without dots; got {name!r}")
        a, b, c = self.model.nodes((x, y, z))
        self.points[name] = a, b, c

    def bar(self, first: str, second: str, *, E: Any, A: Any) -> None:
        """Add a bar, which carries tension and compression, with spherical joints at its ends.

        Parameters
        ----------
        first, second : str
            Points.
        E, A : float or sympy.Expr
            Young's modulus and area.
        """
        modulus, area = self.model.nodes((E, A))
        rows = bar_stiffness(self.model.graph, self._along(first, second), modulus, area)
        self._assemble(rows, [f"{point}.{axis}" for point in (first, second) for axis in DIRECTIONS[:3]])
        self.members.append(Member(first, second, slender=True))

    def beam(
        self,
        first: str,
        second: str,
        *,
        E: Any,
        G: Any,
        A: Any,
        Iy: Any,
        Iz: Any,
        J: Any,
        shear: tuple[Any, Any] | None = None,
        up: Sequence[Any] | None = None,
        released: tuple[str, str] = ("", ""),
    ) -> None:
        """Add a beam: of Timoshenko where areas of shear are given, else of Euler and Bernoulli.

        The local axis x goes from the first point to the second, z lies in the plane of x and ``up``, and y
        is up x x.

        Parameters
        ----------
        first, second : str
            Points.
        E, G : float or sympy.Expr
            Young's modulus and shear modulus.
        A, Iy, Iz, J : float or sympy.Expr
            Area, second moments of area about the local axes, torsion constant.
        shear : (float or sympy.Expr, float or sympy.Expr), optional
            Areas of shear, kappa A, for forces along the local axes y and z.
        up : sequence of 3 numbers or expressions, optional
            A direction; the global z if not given, and x for a beam along z.
        released : (str, str)
            Local directions that a joint at the first and second end releases, as in ("", "ry rz").
        """
        along = self._along(first, second)
        if shear is not None and len(shear) != 2:
            raise InputError(f"shear is a pair of areas, along y and z; got {len(shear)}")
        section = Section(*self.model.nodes((E, G, A, Iy, Iz, J, *(shear or ()))))
        if up is None:
            up = (1, 0, 0) if self._vertical(along) else (0, 0, 1)
        if len(up) != 3:
            raise InputError(f"up has 3 components; got {len(up)}")
        a, b, c = self.model.nodes(up)
        local = tuple(
            6 * end + DIRECTIONS.index(direction)
            for end, text in enumerate(released)
            for direction in self._directions(text)
        )
        rows = beam_stiffness(self.model.graph, along, section, (a, b, c), local)
        self._assemble(
            rows, [f"{point}.{direction}" for point in (first, second) for direction in DIRECTIONS]
        )
        self.members.append(Member(first, second, local))

    def spring(self, point: str, **stiffnesses: Any) -> None:
        """Add springs between a point and the ground, by direction: ``spring("A", x=k, rz=c)``."""
        for freedom, stiffness in self._by_direction(point, stiffnesses).items():
            self._add((freedom, freedom), stiffness)

    def support(self, point: str, *directions: str, **displacements: Any) -> None:
        """Hold a point.

        Parameters
        ----------
        point : str
            The point.
        *directions : str
            Directions that do not move; all six if nothing is given.
        **displacements : float or sympy.Expr
            Directions with a given displacement, as of a support that has sunk.
        """
        held = dict.fromkeys(directions or (() if displacements else DIRECTIONS), 0)
        self._supported |= self._by_direction(point, {**held, **displacements})

    def load(self, point: str, **forces: Any) -> None:
        """Add forces and moments at a point, by direction: ``load("B", z=-F, rx=M)``."""
        for freedom, force in self._by_direction(point, forces).items():
            self._loads[freedom] = self.model.graph.add(
                self._loads.get(freedom, self.model.graph.zero), force
            )

    # Solving it

    @property
    def degrees_of_freedom(self) -> tuple[str, ...]:
        """All degrees of freedom, free and supported, point by point."""
        stiff = {freedom for freedom, _ in self._stiffness}
        every = (f"{point}.{direction}" for point in self.points for direction in DIRECTIONS)
        return tuple(freedom for freedom in every if freedom in stiff)

    @property
    def free(self) -> tuple[str, ...]:
        """Degrees of freedom without supports."""
        return tuple(freedom for freedom in self.degrees_of_freedom if freedom not in self._supported)

    @property
    def supported(self) -> tuple[str, ...]:
        """Degrees of freedom with supports."""
        return tuple(freedom for freedom in self.degrees_of_freedom if freedom in self._supported)

    def stiffness(self, rows: Iterable[str], columns: Iterable[str]) -> list[Row]:
        """A part of the stiffness matrix, as nodes of the graph of the model."""
        places = {freedom: j for j, freedom in enumerate(columns)}
        table: dict[str, Row] = {freedom: {} for freedom in rows}
        for (i, j), node in self._stiffness.items():
            if i in table and j in places:
                table[i][places[j]] = node
        return list(table.values())

    def solve(self, method: str = "lu") -> FrameResponse:
        """Displacements and reactions as expressions of the symbols.

        Parameters
        ----------
        method : {"lu", "fraction-free-lu", "gauss-jordan", "qr"}
            How the stiffness matrix is factorised.

        Returns
        -------
        FrameResponse
            Compiled functions and their derivatives.

        Raises
        ------
        SingularMatrixError
            If the frame can move without deformation.
        """
        free, supported = self.free, self.supported
        factors = self._factors(free, method)
        graph = self.model.graph
        supports = Supports(
            supported,
            self.stiffness(supported, [*free, *supported]),
            [self._supported[freedom] for freedom in supported],
            [self._loads.get(freedom, graph.zero) for freedom in supported],
        )
        right, members = self._right(free), tuple(self.members)
        return FrameResponse(self.model, dict(self.points), members, free, factors, right, supports)

    def condense(
        self,
        forces: Mapping[str, Any],
        masses: Mapping[str, Any] | None = None,
        damping: Any = 0,
        prefix: str = "",
        method: str = "lu",
    ) -> dict[str, Any]:
        r"""Make displacements of some points unknowns of the model, with the stiffness of the frame there.

        Static condensation (of Guyan) eliminates all other free degrees of freedom. For those that are kept,

        .. math::
            m d'' + K_c (d + \beta d') = f + f_c, \qquad K_c = K_{kk} - K_{ko} K_{oo}^{-1} K_{ok},

        are equations of the model, with the loads of the frame in :math:`f_c`. Without a mass and damping
        they are algebraic: the compliance is quasi-static.

        Parameters
        ----------
        forces : mapping of str to sympy.Expr
            The degrees of freedom that are kept, and the force f on each, which may contain any unknowns of
            the model, multipliers for instance.
        masses : mapping of str to sympy.Expr, optional
            Masses, and moments of inertia for rotations, where there are any.
        damping : sympy.Expr
            Time constant beta of damping in proportion to stiffness.
        prefix : str
            First letters of the names of the unknowns, which are those of the degrees of freedom.
        method : str
            How the matrix of the others is factorised.

        Returns
        -------
        dict of str to sympy.Symbol
            The unknowns, by degrees of freedom.
        """
        graph, model, masses = self.model.graph, self.model, dict(masses or {})
        kept, free = list(forces), self.free
        for freedom in (*kept, *masses):
            if freedom not in free or freedom not in forces:
                raise InputError(
                    f"{freedom} is no free degree of freedom that is kept; free are {', '.join(free)}"
                )
        others = [freedom for freedom in free if freedom not in forces]
        factors = self._factors(others, method)
        columns = self.stiffness(kept, others)  # symmetric: K_ok by columns
        answers = [factors.solve([row.get(j, graph.zero) for j in range(len(others))]) for row in columns]
        side = factors.solve(self._right(others))
        loads = self._right(kept)
        symbols = {
            freedom: model.variable(prefix + freedom, 0.0, unit="rad" if ".r" in freedom else "m")
            for freedom in kept
        }
        beta = self.model.nodes((damping,))[0]
        strains = []
        for symbol in symbols.values():
            value, rate = model.nodes([symbol, model.der(symbol)])
            strains.append(graph.add(value, graph.mul(beta, rate)))
        direct = self.stiffness(kept, kept)
        for i, freedom in enumerate(kept):
            inertia = masses.get(freedom, 0) * model.der(symbols[freedom], 2) - forces[freedom]
            terms = [model.nodes([inertia])[0], graph.neg(loads[i])]
            for j, node in columns[i].items():
                terms.append(graph.mul(node, side[j]))
            for k, strain in enumerate(strains):
                slack = graph.add(*(graph.mul(node, answers[k][j]) for j, node in columns[i].items()))
                terms.append(graph.mul(graph.sub(direct[i].get(k, graph.zero), slack), strain))
            model.add_root(graph.add(*terms), f"balance of {prefix}{freedom}")
        return symbols

    # Parts

    def _factors(self, free: Sequence[str], method: str) -> SymbolicFactors:
        factorization = factor_method(method)
        rows = self.stiffness(free, free)
        return factorization(self.model.graph, rows, len(free), typical_values(self.model), free)

    def _right(self, free: Sequence[str]) -> list[int]:
        """The forces f_f - K_fs d_s on free degrees of freedom."""
        graph, supported = self.model.graph, self.supported
        forces = []
        for freedom, row in zip(free, self.stiffness(free, supported), strict=True):
            held = graph.add(*(graph.mul(node, self._supported[supported[j]]) for j, node in row.items()))
            forces.append(graph.sub(self._loads.get(freedom, graph.zero), held))
        return forces

    def _along(self, first: str, second: str) -> Vector:
        for name in (first, second):
            self._check_point(name)
        graph = self.model.graph
        a, b, c = (graph.sub(q, p) for p, q in zip(self.points[first], self.points[second], strict=True))
        if {a, b, c} == {graph.zero}:
            raise InputError(f"the points {first} and {second} are one; an element joins two")
        return a, b, c

    def _vertical(self, along: Vector) -> bool:
        """Whether an element lies along z, or nearly so for the values of the parameters."""
        if along[0] == along[1] == self.model.graph.zero:
            return True
        values = typical_values(self.model)
        if values is None:
            return False
        x, y, z = values(along)
        return bool(np.hypot(x, y) < VERTICAL * abs(z))

    def _check_point(self, name: str) -> None:
        if name not in self.points:
            raise InputError(f"the frame has no point {name}; its points are {', '.join(self.points)}")

    def _directions(self, text: str) -> list[str]:
        directions = text.replace(",", " ").split()
        for direction in directions:
            if direction not in DIRECTIONS:
                raise InputError(f"{direction!r} is no direction; directions are {', '.join(DIRECTIONS)}")
        return directions

    def _by_direction(self, point: str, given: Mapping[str, Any]) -> dict[str, int]:
        self._check_point(point)
        names = [self._directions(direction)[0] for direction in given]
        nodes = self.model.nodes(given.values())
        return {f"{point}.{direction}": node for direction, node in zip(names, nodes, strict=True)}

    def _assemble(self, rows: Sequence[Row], names: Sequence[str]) -> None:
        for i, row in enumerate(rows):
            for j, node in row.items():
                self._add((names[i], names[j]), node)

    def _add(self, place: tuple[str, str], node: int) -> None:
        total = self.model.graph.add(self._stiffness.get(place, self.model.graph.zero), node)
        self._stiffness[place] = total
        if total == self.model.graph.zero:
            del self._stiffness[place]
