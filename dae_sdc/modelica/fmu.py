"""Models as functional mock-up units for co-simulation, which pythonfmu3 carries without a compiler."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.branches import INITIAL, TERMINAL
from dae_sdc.errors import DAEWarning, InputError, SolveError
from dae_sdc.files import check_place, replacing
from dae_sdc.model.model import Model
from dae_sdc.modelica.reader import read_modelica_text
from dae_sdc.modelica.writer import modelica_text, write_modelica
from dae_sdc.registry import require_name

_SLAVE: Final = '''"""The model in model.mo as a unit of FMI 3.0."""
import dae_sdc
from dae_sdc.modelica.fmu import Unit
from pythonfmu3 import Fmi3Slave

class {name}(Unit, Fmi3Slave):
    package, outputs, rtol = dae_sdc, {outputs!r}, {rtol!r}
'''
_SAMPLE: Final = re.compile(r"sample\((?:[^()]|\([^()]*\))*\)")
_INPUT: Final = re.compile(r"^  input Real '?([^'(]+)", re.MULTILINE)  # As the writer has it.
_NEVER: Final = "(t < -1e300)"
# Names that FMI takes without quotes: words with subscripts between dots.
_STRUCTURED: Final = re.compile(r"([^\W\d]\w*(\[\d+(, ?\d+)*\])?(\.(?!$)|$))+", re.ASCII)


class Unit:
    """What a unit does beside pythonfmu3: one run, or where the model has inputs a run for each step."""

    package: Any  # The front door of the package, which is above this floor.
    outputs: Sequence[str]
    rtol: float
    register_variable: Any
    run: Any = None
    held: Any = None  # Values of the inputs in the run that is there; None where the start may still change.

    def __init__(self, **settings: Any) -> None:
        from pythonfmu3 import DefaultExperiment, Float64, Fmi3Causality, Fmi3Variability

        super().__init__(**settings)
        text = Path(settings["resources"], "model.mo").read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DAEWarning)  # Nothing gives the inputs a value yet.
            model = self.model = read_modelica_text(text, reader="own")
        self.inputs = {name: model.variables_by_name[name].start[0] for name in _INPUT.findall(text)}
        self.params: dict[str, Any] = dict(model.parameter_values)
        self.events = [text.replace(TERMINAL, _NEVER) for text in model.events]
        self.t = self.aim = model.interval[0]  # The time, and where the run ends if nothing ends it before.
        self.values = dict[str, float]()  # Of unknowns at the time that is reached, as they are asked for.

        def register(name: str, unit: str, causality: str, variability: str) -> None:
            about = {"causality": Fmi3Causality[causality], "variability": Fmi3Variability[variability]}
            about |= {"getter": partial(self.value, name), "description": unit or None}
            about |= {"setter": partial(self._set, name)} if causality in ("parameter", "input") else {}
            shown = name if _STRUCTURED.fullmatch(name) else f"'{name}'"
            self.register_variable(Float64(shown, **about), nested=False)

        register("time", "", "independent", "continuous")
        for name, parameter in model.parameters_by_name.items():
            register(name, parameter.unit, "parameter", "fixed")
        for name, each in model.variables_by_name.items():
            kind = "input" if name in self.inputs else "output" if name in self.outputs else "local"
            register(name, each.unit, kind, "discrete" if each.discrete and kind != "input" else "continuous")
        self.default_experiment = DefaultExperiment(*model.interval, model.dt, self.rtol)

    def setup_experiment(self, start_time: float) -> None:
        """Begin at a time of the tool's choice."""
        self.t = self.aim = start_time

    def exit_initialization_mode(self) -> None:
        """Find the start, at which inputs have the values that they are set to."""
        self.held = dict(self.inputs)
        self._find_start()

    def _find_start(self) -> None:
        for name, value in self.inputs.items():
            self.model.start(name, value, fixed=True)
        self.values = dict(self.package.initial(self.model, t0=self.t, params=self.params).values)

    def _set(self, name: str, value: float) -> None:
        (self.inputs if name in self.inputs else self.params)[name] = value
        if self.held is None:
            self.values = {}

    def value(self, name: str) -> float:
        """The value of a parameter, of an input, or of an unknown at the time that is reached."""
        for values in ({"time": self.t}, self.params, self.inputs):
            if name in values:
                return float(values[name])
        if self.held is None and not self.values:
            self._find_start()
        if name not in self.values:
            # What events alone change stays within a step, where a polynomial would round it.
            at = self.run if self.model.variables_by_name[name].discrete else self.point
            row = min(np.searchsorted(at.t, self.point.t[-1]), len(at.t) - 1)
            self.values[name] = float(at.values(name)[row])
        return self.values[name]

    def do_step(self, current_time: float, step_size: float) -> Any:
        """Follow the model to the end of a step, or to that of its interval where no input can change it."""
        from pythonfmu3 import Fmi3StepResult

        t, slack = current_time + step_size, 1e-9 * step_size
        if self.aim < t - slack and (self.run is None or self.run.t[-1] >= self.aim):
            self.aim = t if self.inputs else max(t, self.model.interval[1])
            self.run = self._following()
        last = float(self.run.t[-1])
        if last < t - slack and not self.run.success:
            raise SolveError(self.run.message)
        # Behind what happens at the very end of the step.
        self.t, self.values, self.point = t, {}, self.run.at([min(np.nextafter(t, np.inf), last)])
        return Fmi3StepResult(terminateSimulation=last < t - slack)

    def _following(self) -> Any:
        """The run that begins where the last one has ended, with what happens there behind it."""
        events = [f"{INITIAL}; {k} = {value!r}" for k, value in self.inputs.items() if value != self.held[k]]
        texts, options = self.events, dict[str, Any](t0=self.t, events=events)
        if self.run is not None:
            t0 = float(self.run.t[-1])
            texts = [_SAMPLE.sub(rf"(\g<0> and t > {t0!r})", text.replace(INITIAL, _NEVER)) for text in texts]
            options |= {"t0": t0, "u0": {name: self.run.values(name)[-1] for name in self.model.names}}
        self.held, self.model.events = dict(self.inputs), tuple(texts)
        return self.package.solve(self.model, t_end=self.aim, rtol=self.rtol, params=self.params, **options)


@checked()
def write_fmu(
    model: Model, path: str | Path, *, outputs: Sequence[str] | None = None, rtol: float = 1e-6
) -> Path:
    """Write a model as a unit of FMI 3.0 for co-simulation, which needs this package where it is used.

    Its inputs are the discrete unknowns that no event changes, ``input Real u`` in Modelica, which keep their
    values within a step; parameters are set before the start.

    Parameters
    ----------
    model : Model
        The model, also a simplified or a reduced one.
    path : path-like
        File to write; ``.fmu`` is added if it is missing.
    outputs : sequence of str, optional
        Names of the unknowns that are outputs; all others than inputs if not given.
    rtol : float
        Relative tolerance of its runs.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If the file cannot be written, pythonfmu3 is missing, a parameter has no value, or the model has what
        Modelica has not.

    References
    ----------
    Modelica Association: Functional mock-up interface specification, version 3.0.2, 2024.

    Examples
    --------
    >>> path = ds.write_fmu(ds.simplify("dc-motor").model, "motor.fmu", outputs=["load.phi"])
    """
    target, text = check_place(path, ".fmu"), modelica_text(model)
    try:
        from pythonfmu3 import FmuBuilder
    except ImportError:
        raise InputError("write_fmu needs the package pythonfmu3: pip install 'dae_sdc[fmu]'") from None
    for name in outputs or ():
        require_name("output", name, model.names)
    for parameter in model.parameters_by_name.values():
        parameter.required(model.name)
    with TemporaryDirectory() as place:
        script, source = Path(place, "slave.py"), Path(place, "model.mo")
        source.write_text(text, encoding="utf-8")
        name = re.sub(r"\W|^(?=\d)", "_", model.name, flags=re.ASCII)
        shown = tuple(model.names if outputs is None else outputs)
        script.write_text(_SLAVE.format(name=name, outputs=shown, rtol=rtol), encoding="utf-8")
        # The exporter says by mistake that all steps have one size.
        unit = FmuBuilder.build_FMU(script, place, [source], canHandleVariableCommunicationStepSize=True)
        with replacing(target) as (file,):
            file.write(unit.read_bytes())
    return target


def write_model(model: Model, path: str | Path) -> Path:
    """Write a model in the form that the ending of a file says: a unit in .fmu, else flat Modelica."""
    return (write_fmu if Path(path).suffix == ".fmu" else write_modelica)(model, path)
