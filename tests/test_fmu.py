"""Units of FMI: against exact solutions and runs of the model, and by the library that a tool would load."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import InputError, SolveError

pytest.importorskip("pythonfmu3")


def unpacked(model: ds.Model, place: Path, **options: Any) -> Path:
    """The directory of a unit of a model, unpacked."""
    with zipfile.ZipFile(ds.write_fmu(model, place / "unit.fmu", **options)) as unit:
        unit.extractall(place / "unit")
    return place / "unit"


class Tool:
    """What a tool does with a unit, by the class in it."""

    def __init__(self, unit: Path) -> None:
        spec = importlib.util.spec_from_file_location("slave", unit / "resources" / "slave.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        name = ElementTree.parse(unit / "modelDescription.xml").getroot().attrib["modelName"]
        self.slave = getattr(module, name)(instance_name="it", resources=str(unit / "resources"))
        self.references = {each.name: key for key, each in self.slave.vars.items()}

    def begin(self, t: float, **values: float) -> None:
        self.slave.setup_experiment(t)
        self.slave.enter_initialization_mode()
        self.set(**values)
        self.slave.exit_initialization_mode()

    def set(self, **values: float) -> None:
        self.slave.set_float64([self.references[name] for name in values], [*values.values()])

    def get(self, *names: str) -> list[float]:
        values: list[float] = self.slave.get_float64([self.references[name] for name in names])
        return values

    def step(self, t: float, size: float) -> bool:
        """Take a step; whether the unit asks for an end."""
        return bool(self.slave.do_step(t, size).terminateSimulation)


class Library:
    """What a tool does with a unit, by the library in it and the functions of FMI 3.0."""

    def __init__(self, unit: Path) -> None:
        root = ElementTree.parse(unit / "modelDescription.xml").getroot()
        name, token = root.attrib["modelName"], root.attrib["instantiationToken"]
        self.references = {
            each.attrib["name"]: int(each.attrib["valueReference"]) for each in root.iter("Float64")
        }
        self.functions = ctypes.CDLL(str(unit / "binaries" / "x86_64-linux" / f"{name}.so"))
        self.functions.fmi3InstantiateCoSimulation.restype = ctypes.c_void_p
        log = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p])
        self.messages: list[str] = []
        self.log = log(lambda _, __, ___, message: self.messages.append(message.decode()))
        self.unit = ctypes.c_void_p(
            self.functions.fmi3InstantiateCoSimulation(
                b"it",
                token.encode(),
                str(unit / "resources").encode(),
                *[ctypes.c_bool(False), ctypes.c_bool(True), ctypes.c_bool(False), ctypes.c_bool(False)],
                None,
                ctypes.c_size_t(0),
                None,
                self.log,
                None,
            )
        )
        assert self.unit.value, self.messages

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.functions, name)(self.unit, *arguments)
        assert status == 0, (name, self.messages)

    def begin(self, t: float, **values: float) -> None:
        self.set(**values)
        no, number = ctypes.c_bool(False), ctypes.c_double
        self.call("fmi3EnterInitializationMode", no, number(0.0), number(t), no, number(0.0))
        self.call("fmi3ExitInitializationMode")

    def set(self, **values: float) -> None:
        count = len(values)
        references = (ctypes.c_uint32 * count)(*[self.references[name] for name in values])
        numbers = (ctypes.c_double * count)(*values.values())
        self.call("fmi3SetFloat64", references, *[ctypes.c_size_t(count), numbers, ctypes.c_size_t(count)])

    def get(self, *names: str) -> list[float]:
        count = len(names)
        references = (ctypes.c_uint32 * count)(*[self.references[name] for name in names])
        numbers = (ctypes.c_double * count)()
        self.call("fmi3GetFloat64", references, *[ctypes.c_size_t(count), numbers, ctypes.c_size_t(count)])
        return [*numbers]

    def step(self, t: float, size: float) -> bool:
        flags, last, number = [ctypes.c_bool() for _ in range(3)], ctypes.c_double(), ctypes.c_double
        answers = [*map(ctypes.byref, flags), ctypes.byref(last)]
        self.call("fmi3DoStep", number(t), number(size), ctypes.c_bool(True), *answers)
        return flags[1].value


HAS_LIBRARY = sys.platform == "linux" and platform.machine() == "x86_64"
CLIENTS: list[Callable[[Path], Any]] = [Tool, *[Library] * HAS_LIBRARY]


def plant() -> ds.Model:
    """x' = u - k x with y = x + 3 u, whose samples, starts and passages of time are counted."""
    model = ds.Model("plant", interval=(0.0, 2.0))
    x, y = model.variable("x", start=1.0, fixed=True, unit="m"), model.variable("y")
    u, k = model.discrete("u", 0.5), model.parameter("k", 2.0)
    samples, starts, late = (model.discrete(name) for name in ("samples", "starts", "late"))
    model.equations(model.der(x) + k * x - u, y - x - 3 * u)
    model.when("sample(0, 0.5)", {samples: samples + 1})
    model.when("initial()", {starts: starts + 1})
    model.when("time > 1", {late: late + 1})
    return model


@pytest.mark.parametrize("client", CLIENTS)
def test_a_unit_answers_to_inputs_that_stay_within_its_steps(
    client: Callable[[Path], Any], tmp_path: Path
) -> None:
    tool, k = client(unpacked(plant(), tmp_path, rtol=1e-9)), 1.5
    x, u = 1.0, 2.0
    tool.begin(0.0, k=k, u=u)
    assert tool.get("time", "x", "y", "u", "k") == pytest.approx([0.0, 1.0, 7.0, 2.0, 1.5], rel=1e-14)
    for number, size in enumerate([0.25] * 4 + [0.1] * 5 + [0.5]):
        t = tool.get("time")[0]
        assert not tool.step(t, size)
        x = u / k + (x - u / k) * np.exp(-k * size)
        assert tool.get("time", "x", "y") == pytest.approx([t + size, x, x + 3 * u], rel=1e-8)
        samples = 1 + np.floor((t + size) / 0.5 + 1e-9)
        counts = tool.get("samples", "starts", "late")
        assert counts == [samples, 1.0, float(number > 3)]
        u = 2.0 - 0.2 * number
        tool.set(u=u)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_input_that_is_set_behind_the_start_counts_from_the_first_step_on(
    client: Callable[[Path], Any], tmp_path: Path
) -> None:
    tool = client(unpacked(plant(), tmp_path, rtol=1e-9))
    tool.begin(0.0, k=1.0, u=2.0)
    tool.set(u=5.0)
    x = 1.0
    for t, size in ((0.0, 0.25), (0.25, 0.5)):
        tool.step(t, size)
        x = 5.0 + (x - 5.0) * np.exp(-size)
        assert tool.get("x", "y") == pytest.approx([x, x + 15.0], rel=1e-8)


def pendulum() -> ds.Model:
    """A pendulum of index 3 that a force moves."""
    model = ds.Model("pendulum", interval=(0.0, 2.0))
    x, y, tension = model.variables("x y tension", start=[1.0, 0.0, 0.0])
    g, force = model.parameter("g", 9.81), model.discrete("force")
    model.start(x, 1.0, fixed=True)
    der = model.der
    model.equations(der(x, 2) + tension * x - force, der(y, 2) + tension * y + g, x**2 + y**2 - 1)
    return model


def test_an_input_moves_a_pendulum_of_index_3_as_an_event_does(tmp_path: Path) -> None:
    tool = Tool(unpacked(pendulum(), tmp_path, rtol=1e-9, outputs=["x", "tension"]))
    tool.begin(0.0, g=9.0)
    for number in range(8):
        tool.set(force=2.0 * (number >= 2))
        tool.step(0.25 * number, 0.25)
    run = ds.solve(pendulum(), events=["sample(0.5, 9); force = 2"], params={"g": 9.0}, rtol=1e-11)
    expected = [run[name][-1] for name in ("x", "y", "tension", "der(x)")]
    assert tool.get("x", "y", "tension", "der_x") == pytest.approx(expected, rel=2e-7)


def test_a_unit_without_inputs_is_one_run_and_goes_on_behind_its_interval(tmp_path: Path) -> None:
    model = ds.Model("decay", interval=(0.0, 1.0))
    x, n = model.variable("x", start=1.0, fixed=True), model.discrete("n")
    model.equation(model.der(x) + x**2)
    model.when("sample(0.25, 0.5)", {n: n + 1})
    tool = Tool(unpacked(model, tmp_path, rtol=1e-8))
    tool.begin(0.0)
    run = ds.solve(model, rtol=1e-8)
    for t in np.arange(0.0, 1.5, 0.125):
        assert not tool.step(t, 0.125)
        x_end, count = tool.get("x", "n")
        if t < 0.8:
            assert x_end == run.at([np.nextafter(t + 0.125, 2.0)])["x"][0]
        assert x_end == pytest.approx(1.0 / (1.125 + t), rel=1e-6)
        assert count == np.floor((t + 0.125 + 0.25) / 0.5)


def test_a_unit_that_ends_its_run_says_so_and_keeps_its_values(tmp_path: Path) -> None:
    text = "model M Real x(start=1, fixed=true); equation der(x) = -1; "
    model = ds.read_modelica_text(f'{text} when x < 0.5 then terminate("low"); end when; end M;')
    tool = Tool(unpacked(model, tmp_path))
    tool.begin(0.0)
    assert [tool.step(t, 0.3) for t in (0.0, 0.3, 0.6)] == [False, True, True]
    assert tool.get("x") == pytest.approx([0.5], rel=1e-6)


def test_values_at_the_start_follow_what_is_set_before_it(tmp_path: Path) -> None:
    tool = Tool(unpacked(plant(), tmp_path))
    tool.slave.setup_experiment(0.0)
    tool.slave.enter_initialization_mode()
    assert tool.get("y") == pytest.approx([1.0 + 3 * 0.5], rel=1e-14)
    tool.set(u=2.0)
    assert tool.get("x", "y") == pytest.approx([1.0, 7.0], rel=1e-14)


def test_a_run_that_fails_is_an_error_of_the_unit(tmp_path: Path) -> None:
    model = ds.Model("burst", interval=(0.0, 2.0))
    x = model.variable("x", start=1.0, fixed=True)
    model.equation(model.der(x) - x**2)
    tool = Tool(unpacked(model, tmp_path))
    tool.begin(0.0)
    assert not tool.step(0.0, 0.5)
    assert tool.get("x") == pytest.approx([2.0], rel=1e-5)
    with pytest.raises(SolveError, match="step"):
        tool.step(0.5, 1.0)


def test_names_and_kinds_are_those_of_fmi(tmp_path: Path) -> None:
    model = ds.Model("2 names", interval=(0.5, 2.0), dt=0.25)
    names = ["load.phi", "x[1]", "a+b"]
    x, y, z = (model.variable(name, start=1.0, unit="m/s") for name in names)
    n, u = model.discrete("n"), model.discrete("u", 4.0)
    model.parameter("p", 3.0, unit="N")
    model.equations(model.der(x) - u, y - x, z - y)
    model.when("sample(0, 1)", {n: n + 1})
    root = ElementTree.parse(unpacked(model, tmp_path, outputs=["x[1]"]) / "modelDescription.xml").getroot()
    kinds = {
        each.attrib["name"]: [
            each.attrib.get(key) for key in ("causality", "variability", "start", "description")
        ]
        for each in root.iter("Float64")
    }
    assert kinds == {
        "time": ["independent", "continuous", None, None],
        "p": ["parameter", "fixed", "3", "N"],
        "load.phi": ["local", "continuous", None, "m/s"],
        "x[1]": ["output", "continuous", None, "m/s"],
        "'a+b'": ["local", "continuous", None, "m/s"],
        "n": ["local", "discrete", None, None],
        "u": ["input", "continuous", "4", None],
    }
    experiment: Mapping[str, str] = next(root.iter("DefaultExperiment")).attrib
    assert [float(experiment[word]) for word in ("startTime", "stopTime", "stepSize", "tolerance")] == [
        0.5,
        2.0,
        0.25,
        1e-6,
    ]


def test_what_cannot_be_a_unit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = plant()
    with pytest.raises(InputError, match="unknown output 'z'"):
        ds.write_fmu(model, tmp_path / "unit.fmu", outputs=["z"])
    model.parameter("mass")
    with pytest.raises(InputError, match="parameter mass"):
        ds.write_fmu(model, tmp_path / "unit.fmu")
    monkeypatch.setitem(sys.modules, "pythonfmu3", None)
    with pytest.raises(
        InputError, match=r"write_fmu needs the package pythonfmu3: pip install 'dae_sdc\[fmu\]'"
    ):
        ds.write_fmu(plant(), tmp_path / "unit.fmu")
    assert not [*tmp_path.iterdir()]


def test_the_command_writes_what_is_left_of_a_model_as_a_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simplify", "dc-motor", "--out", str(tmp_path / "motor.fmu")]) == 0
    assert f"wrote {tmp_path / 'motor.fmu'}" in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / "motor.fmu") as unit:
        assert {"modelDescription.xml", "resources/model.mo"} <= {*unit.namelist()}
