"""A double wishbone with push rod, rocker and shock absorber in space, rigid or compliant."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dae_sdc.errors import InputError
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown

if TYPE_CHECKING:
    from dae_sdc.frames.frame import Frame
    from dae_sdc.model.model import Model

# What is assumed of the compliance of a suspension.
ASSUMPTIONS: Final = ("rigid", "quasi-static", "dynamic")
# Points in m: x forward, y outward on the left side, z up. L and U are the lower and the upper arm with
# front, rear and outer ends, T the tie rod, W the centre of the wheel, R the axis of the rocker (along x)
# with the ends of the push rod and of the shock absorber, S its other end on the body. They belong to no
# car.
PLACES: Final[Mapping[str, tuple[float, float, float]]] = MappingProxyType(
    {
        **{"LF": (0.15, 0.25, 0.12), "LR": (-0.15, 0.25, 0.12), "LO": (0.0, 0.62, 0.10)},
        **{"UF": (0.12, 0.28, 0.30), "UR": (-0.12, 0.28, 0.30), "UO": (-0.01, 0.60, 0.33)},
        **{"T": (0.10, 0.25, 0.16), "TO": (0.08, 0.60, 0.15), "W": (0.0, 0.68, 0.21)},
        **{"R": (0.0, 0.24, 0.42), "RP": (0.0, 0.33, 0.47), "RS": (0.0, 0.26, 0.51), "S": (0.0, 0.0, 0.42)},
    }
)
# Rods between the body and the wheel carrier.
_LINKS: Final = (("LF", "LO"), ("LR", "LO"), ("UF", "UO"), ("UR", "UO"), ("T", "TO"))

# Of the wheel, in m.
_POSE: Final = ("x", "y", "z", "camber", "pitch", "toe")
_POSE_UNITS: Final = ("m", "m", "m", "rad", "rad", "rad")
_DISPLACEMENTS: Final = ("W.x", "W.y", "W.z", "W.rx", "W.ry", "W.rz")
_RADIUS: Final = 0.21

# Values and units: masses and moments of inertia of body and wheel, spring, damper and preload of the shock
# absorber, a load on the body, forces and moments at the centre of the wheel, and the height of the road
# with bumps of a height and a length at a speed.
_PARAMETERS: Final[Mapping[str, tuple[float, str]]] = MappingProxyType(
    {
        **{"m_body": (300.0, "kg"), "m_wheel": (35.0, "kg")},
        **{"J_across": (1.2, "kg m^2"), "J_along": (0.4, "kg m^2"), "g": (9.81, "m/s^2")},
        **{"k": (5e4, "N/m"), "c": (3e3, "N s/m"), "preload": (5249.65, "N"), "k_tyre": (2e5, "N/m")},
        **dict.fromkeys(("load", "F_x", "F_y", "F_z"), (0.0, "N")),
        **dict.fromkeys(("M_x", "M_y", "M_z"), (0.0, "N m")),
        **{"road": (0.0, "m"), "bump": (0.02, "m"), "speed": (10.0, "m/s"), "wave": (2.0, "m")},
    }
)

Symbols: TypeAlias = Mapping[str, Any]


def suspension_frame(model: Model, places: Mapping[str, Sequence[Any]] = PLACES) -> Frame:
    """The frame of a suspension in any position, with a shock absorber that does not give way."""
    # Arms and rods are bars, those of arms and of the tie rod on elastic mounts of the body. Wheel carrier
    # and rocker are beams with ten times the area, and ball joints at their ends.
    from dae_sdc.frames.frame import Frame

    E, G, A, inertia = model.parameters(
        "E G A I", [2.1e11, 8e10, 2.5e-4, 6e-7], unit=["N/m^2", "N/m^2", "m^2", "m^4"]
    )
    mount = model.parameter("k_mount", 8e6, unit="N/m")
    stout = {"E": E, "G": G, "A": 10 * A, "Iy": inertia, "Iz": inertia, "J": 2 * inertia}
    ball = ("", "rx ry rz")
    frame = Frame(model)
    for name in PLACES:
        if name != "S":
            frame.point(name, *places[name])
    for inner, outer in _LINKS:
        frame.bar(inner, outer, E=E, A=A)
    for outer in ("LO", "UO", "TO"):
        frame.beam("W", outer, **stout, released=ball)
    frame.bar("LO", "RP", E=E, A=A)
    for end in ("RP", "RS"):
        frame.beam("R", end, **stout, released=ball)
    for inner, _ in _LINKS:
        frame.spring(inner, x=mount, y=mount, z=mount)
    frame.support("R", "x", "y", "z", "ry", "rz")
    frame.support("RS", "y", "z")
    return frame


@MODELS.register("suspension")
def suspension(assumption: str = "rigid", profile: Callable[[Any], Any] | None = None) -> Model:
    r"""Quarter of a car on a double wishbone with push rod, rocker and shock absorber in space, index 3.

    The mechanism has the place and the angles q of the wheel carrier and the angle of the rocker, with the
    lengths of six rods as constraints g(q) = 0. Its frame of beams, condensed to the centre of the wheel in
    every position, has the stiffness K(q), and the wheel is displaced from the mechanism by d: y = q + d.
    With the mass M of wheel and carrier, forces f(t, y) on them and the force b of the shock absorber the
    equations are

    * rigid: :math:`M q'' + G^T \lambda + b = f`, d = 0;
    * quasi-static: :math:`M q'' + G^T \lambda + b = f` and :math:`K d = f`;
    * dynamic: :math:`M y'' + G^T \lambda + b = f` and :math:`K (d + \beta d') = G^T \lambda + b`.

    Parameters
    ----------
    assumption : {"rigid", "quasi-static", "dynamic"}
        What is assumed of the compliance.
    profile : callable, optional
        Height of the road by the place along it, such as a LookupTable; bumps like waves if not given.

    Raises
    ------
    InputError
        If there is no such assumption.
    """
    from sympy import Matrix, cos, pi

    from dae_sdc.model.model import Model

    if assumption not in ASSUMPTIONS:
        raise InputError(unknown("assumption", assumption, ASSUMPTIONS))
    title = f"double wishbone, {assumption}" + " compliance" * (assumption != "rigid")
    model = Model("suspension", title=title, interval=(0.0, 2.0), dt=2e-3)
    p = {name: model.parameter(name, value, unit=unit) for name, (value, unit) in _PARAMETERS.items()}
    along = p["speed"] * model.t
    bumps = p["bump"] / 2 * (1 - cos(2 * pi * along / p["wave"]))
    p["road"] += bumps if profile is None else profile(along)
    pose = model.variables(_POSE, 0.0, unit=_POSE_UNITS)
    heave = model.variable("heave", 0.0, unit="m")
    model.start(model.der(heave), 0.0)
    mechanism = pose
    if assumption != "rigid":
        mechanism = model.variables([f"rigid.{one}" for one in _POSE], 0.0, unit=_POSE_UNITS)
    places, reaction = _mechanism(model, p, mechanism)
    forces = _outer_forces(p, pose, heave)
    inertia = _inertia(model, p, pose if assumption == "dynamic" else mechanism, heave)
    for name, a, force, pull in zip(_POSE, inertia, forces, reaction, strict=True):
        model.equation(a - force - pull, name=f"balance {name}")
    weight = p["m_body"] * p["g"] + p["load"]
    model.equation(p["m_body"] * model.der(heave, 2) + weight + reaction[2], name="balance heave")
    if assumption != "rigid":
        transmitted, damping = forces, 0
        if assumption == "dynamic":
            transmitted, damping = -reaction, model.parameter("beta", 1e-4, unit="s")
        wanted = dict(zip(_DISPLACEMENTS, transmitted, strict=True))
        moved = suspension_frame(model, places).condense(wanted, damping=damping)
        change = Matrix(pose) - Matrix(mechanism)
        change[3:, 0] = _axes(mechanism[3:]) * change[3:, 0]
        for name, difference in zip(_DISPLACEMENTS, change, strict=True):
            model.equation(moved[name] - difference, name=f"displacement {name}")
    for variable in model.variables_by_name.values():
        size = 1e3 if variable.unit == "N" else 1e-2
        variable.nominal.update({0: size, 1: 10 * size})
    return model


def _mechanism(model: Model, p: Symbols, pose: Sequence[Any]) -> tuple[dict[str, Any], Any]:
    """Lengths of rods and balance of the rocker; all points, and force and moment on the carrier."""
    from sympy import Matrix, rot_axis1, sqrt

    place = {name: Matrix(at) for name, at in PLACES.items()}
    rocker = model.variable("rocker", 0.0, unit="rad")
    centre, turn = place["W"] + Matrix(pose[:3]), _turn(*pose[3:])
    moved = place | {one: centre + turn * (place[one] - place["W"]) for one in ("LO", "UO", "TO")}
    moved |= {one: place["R"] + rot_axis1(-rocker) * (place[one] - place["R"]) for one in ("RP", "RS")}
    moved["W"] = centre
    pull, twist = Matrix([0, 0, 0]), Matrix([0, 0, 0])
    for inner, outer in (*_LINKS, ("RP", "LO")):
        length = math.dist(PLACES[inner], PLACES[outer])
        span = moved[outer] - moved[inner]
        tension = model.variable(f"tension.{inner}", 0.0, unit="N") * span / length
        model.equation((span.dot(span) - length**2) / (2 * length), name=f"length {inner}-{outer}")
        pull -= tension
        twist -= (moved[outer] - centre).cross(tension)
    shock = moved["S"] - moved["RS"]
    length = sqrt(shock.dot(shock))
    shortened = math.dist(PLACES["S"], PLACES["RS"]) - length
    push = p["preload"] + p["k"] * shortened + p["c"] * model.der(shortened)
    by_shock = (moved["RS"] - place["R"]).cross(push / length * shock)
    model.equation(((moved["RP"] - place["R"]).cross(tension) - by_shock)[0], name="balance rocker")
    return moved, Matrix([*pull, *twist])


def _outer_forces(p: Symbols, pose: Sequence[Any], heave: Any) -> Any:
    """Force and moment of gravity, of the ground and of loads on the wheel, about its centre."""
    from sympy import Matrix

    down = _turn(pose[3], 0, pose[5]) * Matrix([0, 0, -_RADIUS])  # the wheel turns about its axis
    sunk = p["road"] - heave - pose[2] - down[2] - _RADIUS
    ground = Matrix([0, 0, (p["m_body"] + p["m_wheel"]) * p["g"] + p["k_tyre"] * sunk])
    weight = Matrix([0, 0, p["m_wheel"] * p["g"]])
    loads = Matrix([p[name] for name in ("F_x", "F_y", "F_z", "M_x", "M_y", "M_z")])
    return loads + Matrix([*(ground - weight), *down.cross(ground)])


def _inertia(model: Model, p: Symbols, pose: Sequence[Any], heave: Any) -> Any:
    """Derivatives of the momentum and the angular momentum of the wheel with its carrier."""
    from sympy import Matrix

    axes = _axes(pose[3:])
    spin = axes * Matrix([model.der(one) for one in pose[3:]])
    axis = axes[:, 1]
    momentum = p["J_across"] * spin + (p["J_along"] - p["J_across"]) * axis.dot(spin) * axis
    place = (pose[0], pose[1], pose[2] + heave)
    return Matrix(
        [*(p["m_wheel"] * model.der(one, 2) for one in place), *(model.der(one) for one in momentum)]
    )


def _turn(camber: Any, pitch: Any, toe: Any) -> Any:
    """The rotation of the carrier: pitch about the axis of the wheel, then camber, then toe."""
    from sympy import rot_axis1, rot_axis2, rot_axis3

    return rot_axis3(toe) * rot_axis1(camber) * rot_axis2(-pitch)


def _axes(angles: Sequence[Any]) -> Any:
    """The axes in space about which camber, pitch and toe turn, as columns."""
    from sympy import Matrix, cos, sin

    camber, _, toe = angles
    wheel = (sin(toe) * cos(camber), cos(toe) * cos(camber), -sin(camber))
    return Matrix([(-cos(toe), sin(toe), 0), wheel, (0, 0, -1)]).T
