"""What the names in a Modelica text stand for: classes, components, and constants of the language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from dae_sdc.errors import InputError
from dae_sdc.modelica.syntax import (
    ClassDefinition,
    Component,
    Expression,
    Extends,
    Name,
    Number,
    spelled,
)
from dae_sdc.modelica.text import Source, similar

__all__ = ["CONSTANTS", "Basic", "Bound", "Instance", "Library", "Member", "Scope", "Variable"]

_UNITS: Final = {
    "AbsolutePressure": "Pa",
    "Acceleration": "m/s2",
    "Admittance": "S",
    "AmountOfSubstance": "mol",
    "Angle": "rad",
    "AngularAcceleration": "rad/s2",
    "AngularFrequency": "rad/s",
    "AngularMomentum": "kg.m2/s",
    "AngularVelocity": "rad/s",
    "Area": "m2",
    "Capacitance": "F",
    "Charge": "C",
    "CoefficientOfHeatTransfer": "W/(m2.K)",
    "Concentration": "mol/m3",
    "Conductance": "S",
    "Conductivity": "S/m",
    "Current": "A",
    "Density": "kg/m3",
    "Diameter": "m",
    "DimensionlessRatio": "1",
    "Distance": "m",
    "Duration": "s",
    "DynamicViscosity": "Pa.s",
    "Efficiency": "1",
    "ElectricCharge": "C",
    "ElectricCurrent": "A",
    "ElectricFieldStrength": "V/m",
    "ElectricPotential": "V",
    "ElectricalTorqueConstant": "N.m/A",
    "Emissivity": "1",
    "Energy": "J",
    "Enthalpy": "J",
    "EnthalpyFlowRate": "W",
    "Entropy": "J/K",
    "Force": "N",
    "Frequency": "Hz",
    "Heat": "J",
    "HeatCapacity": "J/K",
    "HeatFlowRate": "W",
    "HeatFlux": "W/m2",
    "Height": "m",
    "Impedance": "Ohm",
    "Impulse": "N.s",
    "Inductance": "H",
    "Inertia": "kg.m2",
    "InternalEnergy": "J",
    "Jerk": "m/s3",
    "KinematicViscosity": "m2/s",
    "Length": "m",
    "LinearTemperatureCoefficient": "1/K",
    "MagneticFieldStrength": "A/m",
    "MagneticFlux": "Wb",
    "MagneticFluxDensity": "T",
    "MagnetomotiveForce": "A",
    "Mass": "kg",
    "MassFlowRate": "kg/s",
    "MassFraction": "1",
    "MolarEnergy": "J/mol",
    "MolarFlowRate": "mol/s",
    "MolarHeatCapacity": "J/(mol.K)",
    "MolarMass": "kg/mol",
    "MoleFraction": "1",
    "MomentOfInertia": "kg.m2",
    "Momentum": "kg.m/s",
    "PerUnit": "1",
    "Period": "s",
    "Position": "m",
    "PotentialDifference": "V",
    "Power": "W",
    "Pressure": "Pa",
    "Radius": "m",
    "RelativePermeability": "1",
    "Reluctance": "H-1",
    "Resistance": "Ohm",
    "Resistivity": "Ohm.m",
    "RotationalDampingConstant": "N.m.s/rad",
    "RotationalSpringConstant": "N.m/rad",
    "SpecificEnergy": "J/kg",
    "SpecificEnthalpy": "J/kg",
    "SpecificEntropy": "J/(kg.K)",
    "SpecificHeatCapacity": "J/(kg.K)",
    "SpecificVolume": "m3/kg",
    "Stress": "Pa",
    "Temperature": "K",
    "TemperatureDifference": "K",
    "ThermalConductance": "W/K",
    "ThermalConductivity": "W/(m.K)",
    "ThermalResistance": "K/W",
    "ThermodynamicTemperature": "K",
    "Thickness": "m",
    "Time": "s",
    "Torque": "N.m",
    "TranslationalDampingConstant": "N.s/m",
    "TranslationalSpringConstant": "N/m",
    "Velocity": "m/s",
    "Voltage": "V",
    "Volume": "m3",
    "VolumeFlowRate": "m3/s",
    "Work": "J",
}
_UNIT_PACKAGES: Final = ("Modelica.Units.SI", "Modelica.SIunits", "SI", "SIunits")

CONSTANTS: Final = {
    "pi": "",
    "e": "",
    "D2R": "",
    "R2D": "",
    "g_n": "9.80665",
    "eps": "2.220446049250313e-16",
    "small": "1e-60",
    "inf": "1e60",
    "T_zero": "-273.15",
    "c": "299792458",
    "G": "6.67430e-11",
    "h": "6.62607015e-34",
    "k": "1.380649e-23",
    "q": "1.602176634e-19",
    "F": "96485.33212331001",
    "R": "8.31446261815324",
    "N_A": "6.02214076e23",
    "sigma": "5.670374419e-8",
    "mu_0": "1.25663706212e-6",
    "epsilon_0": "8.8541878128e-12",
}
"""Constants of ``Modelica.Constants``; those without a number are no rational numbers."""

TABLES: Final = {
    "Modelica.Blocks.Tables.CombiTable1Ds": "CombiTable1Ds",
    "Modelica.Blocks.Tables.CombiTable1D": "CombiTable1D",
    "Modelica.Blocks.Tables.CombiTable1Dv": "CombiTable1D",
}

_MOST_BASES: Final = 100


@dataclass(frozen=True, slots=True)
class Basic:
    """A class of the language: numbers, a table, or an enumeration, which is passed over."""

    type: str
    unit: str = ""
    causality: str = ""


_BASIC: Final = {
    **{name: Basic(name) for name in ("Real", "Integer", "Boolean", "String")},
    **{name: Basic("enumeration") for name in ("enumeration", "StateSelect")},
    **{path: Basic(kind) for path, kind in TABLES.items()},
    "Modelica.Blocks.Interfaces.RealInput": Basic("Real", "", "input"),
    "Modelica.Blocks.Interfaces.RealOutput": Basic("Real", "", "output"),
}


class Bound(NamedTuple):
    """An expression with the place from which its names are looked up.

    Parameters
    ----------
    expression : Expression
        The expression.
    scope : Scope
        Where its names are looked up.
    index : tuple of (int, int)
        Which of its elements is meant, if it is an array: for every dimension place, from 0, and size.
    """

    expression: Expression
    scope: Scope
    index: tuple[tuple[int, int], ...] = ()  # type: ignore[assignment]  # the method of tuples is not needed


@dataclass(slots=True, eq=False)
class Variable:
    """A scalar of the flat model.

    Parameters
    ----------
    name : str
        Name in the model.
    shown : str
        Name in the text.
    at : int
        Where it is declared.
    type : str
        Real, Integer, Boolean or enumeration.
    variability : str
        "parameter", "constant" or nothing.
    causality : str
        "input", "output" or nothing.
    flow : bool
        Whether connections sum it up.
    attributes : dict of str to Bound
        What is said of it.
    value : Bound or None
        What it equals.
    """

    name: str
    shown: str
    at: int
    type: str
    variability: str
    causality: str
    flow: bool
    attributes: dict[str, Bound] = field(default_factory=dict)
    value: Bound | None = None
    unit: str = ""
    structural: bool = False


@dataclass(slots=True, eq=False)
class Instance:
    """A component that has parts."""

    shown: str
    definition: ClassDefinition | None
    members: dict[str, Member] = field(default_factory=dict)
    dotted: bool = False
    connector: bool = False


Member: TypeAlias = "Variable | Instance | list[Member]"


@dataclass(slots=True, eq=False)
class Scope:
    """Where names are looked up: values by name, the parts of a component, the classes around a class."""

    instance: Instance | None
    definition: ClassDefinition
    locals: dict[str, Any] | None = None

    def inner(self, values: dict[str, Any]) -> Scope:
        """The scope with more values by name."""
        return Scope(self.instance, self.definition, {**(self.locals or {}), **values})


class Library:
    """The classes of a text, and those of the language.

    Parameters
    ----------
    root : ClassDefinition
        The classes of the text.
    source : Source
        The text.
    """

    def __init__(self, root: ClassDefinition, source: Source) -> None:
        self.root = root
        self.source = source
        self._found: dict[tuple[str, ClassDefinition], ClassDefinition | Basic | None] = {}
        self._bases: dict[ClassDefinition, list[ClassDefinition]] = {}

    def find(self, name: Name, definition: ClassDefinition) -> ClassDefinition | Basic | None:
        """A class by the name that it has in another class; None if there is none."""
        key = str(name), definition
        if key not in self._found:
            self._found[key] = self._sought([word for word, _ in name.parts], definition)
        return self._found[key]

    def _sought(self, words: list[str], definition: ClassDefinition) -> ClassDefinition | Basic | None:
        around: ClassDefinition | None = definition
        while around is not None:
            found = self._inside(around, words)
            if found is not None:
                return found
            around = around.parent
        for path in self.paths(words, definition):
            found = self._inside(self.root, path)
            if found is not None:
                return found
            basic = self.basic(".".join(path))
            if basic is not None:
                return basic
        return None

    def _inside(self, definition: ClassDefinition, words: list[str]) -> ClassDefinition | None:
        """A class by its path in another one; flat texts have classes whose names have dots."""
        for count in range(len(words), 0, -1):
            found = self.nested(definition, ".".join(words[:count]))
            if found is not None:
                return self._inside(found, words[count:]) if count < len(words) else found
        return None

    def paths(self, words: list[str], definition: ClassDefinition) -> Iterator[list[str]]:
        """A name with what the imports of a class and of those around it put in its place."""
        around: ClassDefinition | None = definition
        while around is not None:
            for item in around.imports:
                if item.alias == words[0]:
                    yield [*item.name.split("."), *words[1:]]
            around = around.parent
        yield words
        around = definition
        while around is not None:
            for item in around.imports:
                if not item.alias:
                    yield [*item.name.split("."), *words]
            around = around.parent

    def basic(self, path: str) -> Basic | None:
        """A class of the language."""
        package, _, last = path.rpartition(".")
        if package in _UNIT_PACKAGES:
            return Basic("Real", _UNITS[last]) if last in _UNITS else None
        return _BASIC.get(path)

    def nested(self, definition: ClassDefinition, word: str) -> ClassDefinition | None:
        """A class in another one or in one that it extends."""
        for one in self.with_bases(definition):
            if word in one.classes:
                return one.classes[word]
        return None

    def with_bases(self, definition: ClassDefinition) -> list[ClassDefinition]:
        """A class and those that it extends."""
        known = self._bases.get(definition)
        if known is None:
            known = self._bases[definition] = self._extended(definition)
        return known

    def _extended(self, definition: ClassDefinition) -> list[ClassDefinition]:
        stack, seen, order = [definition], {definition}, list[ClassDefinition]()
        while stack:
            one = stack.pop()
            order.append(one)
            if len(seen) > _MOST_BASES:
                raise self.source.error(
                    definition.at, f"{definition.name} extends more than {_MOST_BASES} classes"
                )
            bases = [item.base for item in one.elements if isinstance(item, Extends)]
            if one.short is not None:
                bases.append(one.short.base)
            for base in bases:
                found = self._base(base, one)
                if found is not None and found not in seen:
                    seen.add(found)
                    stack.append(found)
        return order

    def _base(self, name: Name, definition: ClassDefinition) -> ClassDefinition | None:
        """A class that another one extends, looked for outside of it, so that this comes to an end."""
        words = [word for word, _ in name.parts]
        around: ClassDefinition | None = definition
        while around is not None:
            found = around.classes.get(words[0])
            for word in words[1:]:
                found = found.classes.get(word) if found is not None else None
            if found is not None and found is not definition:
                return found
            around = around.parent
        for path in self.paths(words, definition):
            found = self.root
            for word in path:
                found = found.classes.get(word) if found is not None else None
            if found is not None and found is not definition:
                return found
        return None

    def require(self, name: Name, definition: ClassDefinition) -> ClassDefinition | Basic:
        """A class by name; raises InputError if there is none."""
        found = self.find(name, definition)
        if found is None:
            raise self.unknown_class(name, definition)
        return found

    def unknown_class(self, name: Name, definition: ClassDefinition) -> InputError:
        """The error for a class that does not exist."""
        text = str(name)
        package, _, last = text.rpartition(".")
        if package in _UNIT_PACKAGES:
            hint = similar(last, _UNITS) or '; write Real with unit="..."'
            return self.source.error(name.at, f"the unit type {text} is not known{hint}")
        if text.startswith("Modelica."):
            hint = similar(text, TABLES) or "; write the class into this file"
            return self.source.error(name.at, f"the class {text} of the Modelica library is not known{hint}")
        known: set[str] = set(_BASIC)
        around: ClassDefinition | None = definition
        while around is not None:
            known.update(around.classes)
            around = around.parent
        hint = similar(text, known) or "; declare it in this file"
        return self.source.error(name.at, f"there is no class {text}{hint}")

    def constant(
        self, words: list[str], definition: ClassDefinition
    ) -> tuple[Component, ClassDefinition] | None:
        """A constant of a class around another one, or of a package by its path."""
        if len(words) == 1:
            around: ClassDefinition | None = definition
            while around is not None:
                found = self._declared(around, words[0])
                if found is not None:
                    return found
                around = around.parent
        for path in self.paths(words, definition):
            if len(path) > 1:
                package = self.find(Name(0, [(word, []) for word in path[:-1]]), definition)
                if isinstance(package, ClassDefinition):
                    found = self._declared(package, path[-1])
                    if found is not None:
                        return found
        return None

    def _declared(self, definition: ClassDefinition, word: str) -> tuple[Component, ClassDefinition] | None:
        for one in self.with_bases(definition):
            for item in one.elements:
                if isinstance(item, Component) and item.name == word and item.variability == "constant":
                    return item, one
        return None

    def standard(self, words: list[str], definition: ClassDefinition) -> str | None:
        """Name of a constant of the language."""
        for path in self.paths(words, definition):
            if path[:-1] == ["Modelica", "Constants"] and path[-1] in CONSTANTS:
                return path[-1]
        return None


def member(name: Name, instance: Instance) -> tuple[Member, list[tuple[str, list[Expression]]]] | None:
    """The part of a component with which a name begins, and what of the name is left; None if there is none.

    What is left begins with the subscripts of the part that was found.
    """
    parts = name.parts
    if instance.dotted:
        for count in range(len(parts), 0, -1):
            subscripts = parts[count - 1][1]
            if subscripts and all(isinstance(item, Number) for item in subscripts):
                found = instance.members.get(spelled(parts[:count]))
                if found is not None:
                    return found, [("", []), *parts[count:]]
            word = spelled([*parts[: count - 1], (parts[count - 1][0], [])])
            found = instance.members.get(word)
            if found is not None:
                return found, [("", subscripts), *parts[count:]]
    found = instance.members.get(parts[0][0])
    if found is None:
        return None
    return found, [("", parts[0][1]), *parts[1:]]


def names_of(instance: Instance | None, values: Iterable[str] | None) -> list[str]:
    """The names that are known in a scope."""
    return [*(instance.members if instance is not None else ()), *(values or ())]
