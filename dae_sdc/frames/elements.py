"""Stiffness matrices of bars and beams between two points in space, as nodes of a graph of expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.reduction.factor import Row

Vector = tuple[int, int, int]  # Components as nodes of a graph.
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


@dataclass(frozen=True)
class Member:
    """A bar or a beam between two points."""

    # first, second: the points.
    first: str
    second: str
    released: tuple[int, ...] = ()  # Local degrees of freedom of 12 that joints release.
    slender: bool = False  # Whether it is a bar, which does not bend.


def length(graph: Graph, along: Vector) -> int:
    """The length of a vector."""
    return graph.call(Op.SQRT, graph.add(*(graph.integer_power(one, 2) for one in along)))


def cross(graph: Graph, a: Vector, b: Vector) -> Vector:
    """The vector product."""

    def part(i: int, j: int) -> int:
        return graph.sub(graph.mul(a[i], b[j]), graph.mul(a[j], b[i]))

    return part(1, 2), part(2, 0), part(0, 1)


def local_axes(graph: Graph, along: Vector, up: Vector) -> tuple[Vector, Vector, Vector]:
    """Unit vectors: x along an element, y = up x x, and z = x x y, on the side of ``up``."""

    def unit(vector: Vector) -> Vector:
        size = length(graph, vector)
        a, b, c = (graph.div(one, size) for one in vector)
        return a, b, c

    across = cross(graph, up, along)
    if all(graph.is_zero(one) for one in across):
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
    r"""Stiffness of a beam of Euler and Bernoulli, or of Timoshenko where the section has areas of shear.

    With :math:`\phi = 12 E I / (G A_s L^2)`, bending in one plane relates displacement and rotation of an end
    to force and moment by :math:`12 E I / (L^3 (1 + \phi))`, :math:`6 E I / (L^2 (1 + \phi))`,
    :math:`(4 + \phi) E I / (L (1 + \phi))` and :math:`(2 - \phi) E I / (L (1 + \phi))`.

    References
    ----------
    R. D. Cook, D. S. Malkus, M. E. Plesha, R. J. Witt: Concepts and Applications of Finite Element Analysis,
    4th edition, Wiley 2002, chapter 2.
    """
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
    """Stiffness in local axes."""
    mul, div, add, number = graph.mul, graph.div, graph.add, graph.constant
    rows: list[Row] = [{} for _ in range(12)]

    def put(i: int, j: int, node: int) -> None:
        rows[i][j] = rows[j][i] = node

    for i, stiffness in ((0, mul(section.E, section.A)), (3, mul(section.G, section.J))):
        over = div(stiffness, size)
        put(i, i, over)
        put(i + 6, i + 6, over)
        put(i, i + 6, graph.neg(over))
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
        for i, j, node in (
            (v, v, force),
            (v + 6, v + 6, force),
            (v, v + 6, graph.neg(force)),
            (v, r, mixed),
            (v, r + 6, mixed),
            (v + 6, r, graph.neg(mixed)),
            (v + 6, r + 6, graph.neg(mixed)),
            (r, r, near),
            (r + 6, r + 6, near),
            (r, r + 6, far),
        ):
            put(i, j, node)
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
