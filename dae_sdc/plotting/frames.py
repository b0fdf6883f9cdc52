"""Pictures of frames and of what loads make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dae_sdc.arguments import checked
from dae_sdc.frames.frame import DIRECTIONS
from dae_sdc.frames.response import Deformation, Member
from dae_sdc.plotting import style

Vector = npt.NDArray[np.float64]

_PIECES = 24  # Straight pieces of a drawn beam.
_NUMBERS = 6  # Most numbers along the longest axis in space.
_SHOWN = 0.1  # Size of the largest drawn displacement relative to the frame, where no scale is given.


@checked()
def draw_frame(
    deformation: Deformation, path: str | Path | None = None, *, scale: float | None = None, title: str = ""
) -> Figure:
    """Draw a frame with and without load: grey and dashed without it, bars thinner than beams.

    A frame in one plane is drawn in that plane, any other one in perspective. Squares are supports.

    Parameters
    ----------
    deformation : Deformation
        What :meth:`~dae_sdc.frames.response.FrameResponse.at` returns.
    path : str or Path, optional
        File for the picture, of any format that matplotlib writes.
    scale : float, optional
        Factor of the displacements; by default the largest one is drawn as a tenth of the frame.
    title : str
        Heading; by default the name of the model with the scale.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If an argument is of the wrong type, or the picture cannot be written.

    Examples
    --------
    >>> model = ds.Model("cable")
    >>> load = model.parameter("load", 100.0)
    >>> frame = ds.Frame(model)
    >>> frame.point("A", 0, 0, 0)
    >>> frame.point("B", 0, 0, -2)
    >>> frame.bar("A", "B", E=2e11, A=1e-4)
    >>> frame.support("A")
    >>> frame.support("B", "x", "y")
    >>> frame.load("B", z=-load)
    >>> response = frame.solve()
    >>> figure = ds.draw_frame(response.at(), "cable.png")
    """
    points = np.array(list(deformation.coordinates.values()))
    size = float(np.ptp(points, axis=0).max()) or 1.0
    moved = {
        name: np.array([deformation.displacements.get(f"{name}.{one}", 0.0) for one in DIRECTIONS])
        for name in deformation.coordinates
    }
    largest = max(float(np.abs(one[:3]).max()) for one in moved.values())
    factor = scale if scale is not None else (_SHOWN * size / largest if largest else 1.0)
    flat = [axis for axis in range(3) if np.ptp(points[:, axis]) < 1e-9 * size]
    kept = [axis for axis in range(3) if axis != flat[0]] if flat else [0, 1, 2]
    with style.styled():
        title = title or f"{style.text(deformation.name)}: displacements times {factor:.3g}"
        figure = style.figure(6.4, 4.8, title)
        axes: Any = figure.add_subplot(projection=None if flat else "3d")
        for number, member in enumerate(deformation.members):
            first, second = (deformation.coordinates[one] for one in (member.first, member.second))
            width = 1.0 if member.slender else 2.0
            still = np.array([first, second])[:, kept]
            bent = _bent(member, first, second, moved[member.first], moved[member.second], factor)[:, kept]
            names = ("without load", "with load") if number == 0 else (None, None)
            axes.plot(*still.T, color=style.GREY, linestyle="--", linewidth=0.5 * width, label=names[0])
            axes.plot(*bent.T, color=style.COLOURS[0], linewidth=width, label=names[1])
        held = {name.partition(".")[0] for name in deformation.reactions}
        places = np.array([deformation.coordinates[one] for one in deformation.coordinates if one in held])
        if len(places):
            axes.plot(*places[:, kept].T, linestyle="", marker="s", color=style.COLOURS[1], label="support")
        for axis, direction in zip(kept, "xyz", strict=False):
            pad = 9.0 if axis == 1 and not flat else None
            getattr(axes, f"set_{direction}label")(f"{'xyz'[axis]} [m]", labelpad=pad)
        if flat:
            axes.set_aspect("equal", adjustable="datalim")
        else:
            axes.set_aspect("equal")
            for axis, direction in enumerate("xyz"):  # short axes have no room for many numbers
                most = max(2, round(_NUMBERS * float(np.ptp(points[:, axis])) / size))
                getattr(axes, f"{direction}axis").set_major_locator(MaxNLocator(most))
        figure.legend(loc="outside lower center", ncols=3)
        if path is not None:
            figure.savefig(path)
    return figure


def _bent(member: Member, first: Vector, second: Vector, start: Vector, end: Vector, factor: float) -> Vector:
    """The line of a deformed element: a cubic curve, turned as its ends are where no joint releases them."""
    at = np.linspace(0.0, 1.0, _PIECES + 1)[:, None]
    along = second - first
    chord = end[:3] - start[:3]
    loose = [member.slender or any(6 * side + k in member.released for k in (4, 5)) for side in (0, 1)]
    slopes = [np.cross(motion[3:], along) for motion in (start, end)]
    slopes = [slope + along * (chord @ along) / (along @ along) for slope in slopes]
    if all(loose):
        slopes = [chord, chord]
    elif any(loose):
        free = loose.index(True)
        slopes[free] = 1.5 * chord - 0.5 * slopes[1 - free]  # no moment at a joint
    bent = (
        start[:3]
        + chord * (3 * at**2 - 2 * at**3)
        + slopes[0] * (at - 2 * at**2 + at**3)
        + slopes[1] * (at**3 - at**2)
    )
    return first + at * along + factor * bent
