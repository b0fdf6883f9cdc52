"""Finite poles along a solution.

Plot: eigenvalues of eigenvalues, poles over time along a solution
    $ dae-sdc solve pendulum --rtol 1e-6 --out pendulum.npy
    $ dae-sdc linearize pendulum --along pendulum.npy --out along.npy
    $ dae-sdc plot eigenvalues along.npy -o eigenvalues.png
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from dae_sdc.plotting import style
from dae_sdc.plotting.table import require_columns
from dae_sdc.run.results import Result

NO_PART = 1e-9
"""Part of the largest pole up to which all real or imaginary parts are rounding errors of 0."""


def eigenvalues(result: Result) -> Figure:
    """Draw a result of ``dae-sdc linearize --along``.

    Parameters
    ----------
    result : Result
        Of kind "eigenvalues".

    Returns
    -------
    matplotlib.figure.Figure
        Real and imaginary parts of the poles over time; grey lines where other coordinates begin.

    Raises
    ------
    ResultFileError
        If the file lacks what is drawn.
    """
    require_columns(result, ("t", "number", "re", "im"), (), "eigenvalues along a solution; run it again")
    data, about = result.data, result.parameters
    largest = float(np.nanmax(np.hypot(data["re"], data["im"]), initial=0.0)) or 1.0
    with style.styled():
        figure = style.figure(6.8, 6.0, f"{style.text(about['problem'])}: poles along the solution")
        panels = figure.subplots(2, 1, sharex=True)
        for axes, name, label in zip(
            panels, ("re", "im"), ("real part [1/s]", "imaginary part [rad/s]"), strict=True
        ):
            for number in np.unique(data["number"]).tolist():
                rows = data[data["number"] == number]
                look = style.curve(number) | {"marker": "", "linewidth": 1.1}
                axes.plot(rows["t"], np.where(np.isfinite(rows[name]), rows[name], np.nan), **look)
            for t in about["changes"]:
                axes.axvline(t, color="0.7", linewidth=0.7, linestyle=":")
            axes.axhline(0.0, color="black", linewidth=0.5)
            axes.set_ylabel(label)
            extent = np.nanmax(np.abs(data[name]), initial=0.0)
            if extent <= NO_PART * largest:  # what rounding leaves of 0 is no curve
                axes.set_ylim(-0.1 * largest, 0.1 * largest)
        panels[1].set_xlabel(f"t{style.bracket(result.units.get('t'))}")
        note = f"coordinates: {style.text(', '.join(about['coordinates']) or 'along the constraints')}"
        panels[0].annotate(
            note, (1.0, 1.02), xycoords="axes fraction", ha="right", fontsize=style.SMALL, color=style.GREY
        )
    return figure
