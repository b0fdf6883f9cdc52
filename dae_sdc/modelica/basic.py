"""The predefined classes of the Modelica language and its library, as far as they are supported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NAMES_BY_UNIT: Final = {
    "Pa": "AbsolutePressure Pressure Stress",
    "m/s2": "Acceleration",
    "S": "Admittance Conductance",
    "mol": "AmountOfSubstance",
    "rad": "Angle",
    "rad/s2": "AngularAcceleration",
    "rad/s": "AngularFrequency AngularVelocity",
    "kg.m2/s": "AngularMomentum",
    "m2": "Area",
    "F": "Capacitance",
    "C": "Charge ElectricCharge",
    "W/(m2.K)": "CoefficientOfHeatTransfer",
    "mol/m3": "Concentration",
    "S/m": "Conductivity",
    "A": "Current ElectricCurrent MagnetomotiveForce",
    "kg/m3": "Density",
    "m": "Diameter Distance Height Length Position Radius Thickness",
    "1": "DimensionlessRatio Efficiency Emissivity MassFraction MoleFraction PerUnit RelativePermeability",
    "s": "Duration Period Time",
    "Pa.s": "DynamicViscosity",
    "V/m": "ElectricFieldStrength",
    "V": "ElectricPotential PotentialDifference Voltage",
    "N.m/A": "ElectricalTorqueConstant",
    "J": "Energy Enthalpy Heat InternalEnergy Work",
    "W": "EnthalpyFlowRate HeatFlowRate Power",
    "J/K": "Entropy HeatCapacity",
    "N": "Force",
    "Hz": "Frequency",
    "W/m2": "HeatFlux",
    "Ohm": "Impedance Resistance",
    "N.s": "Impulse",
    "H": "Inductance",
    "kg.m2": "Inertia MomentOfInertia",
    "m/s3": "Jerk",
    "m2/s": "KinematicViscosity",
    "1/K": "LinearTemperatureCoefficient",
    "A/m": "MagneticFieldStrength",
    "Wb": "MagneticFlux",
    "T": "MagneticFluxDensity",
    "kg": "Mass",
    "kg/s": "MassFlowRate",
    "J/mol": "MolarEnergy",
    "mol/s": "MolarFlowRate",
    "J/(mol.K)": "MolarHeatCapacity",
    "kg/mol": "MolarMass",
    "kg.m/s": "Momentum",
    "H-1": "Reluctance",
    "Ohm.m": "Resistivity",
    "N.m.s/rad": "RotationalDampingConstant",
    "N.m/rad": "RotationalSpringConstant",
    "J/kg": "SpecificEnergy SpecificEnthalpy",
    "J/(kg.K)": "SpecificEntropy SpecificHeatCapacity",
    "m3/kg": "SpecificVolume",
    "K": "Temperature TemperatureDifference ThermodynamicTemperature",
    "W/K": "ThermalConductance",
    "W/(m.K)": "ThermalConductivity",
    "K/W": "ThermalResistance",
    "N.m": "Torque",
    "N.s/m": "TranslationalDampingConstant",
    "N/m": "TranslationalSpringConstant",
    "m/s": "Velocity",
    "m3": "Volume",
    "m3/s": "VolumeFlowRate",
}

UNITS: Final = {name: unit for unit, names in _NAMES_BY_UNIT.items() for name in names.split()}
"""Units of the types of ``Modelica.Units.SI``, by the names of the types."""

UNIT_PACKAGES: Final = ("Modelica.Units.SI", "Modelica.SIunits", "SI", "SIunits")
"""Packages with the types of :data:`UNITS`."""

TABLES: Final = {
    "Modelica.Blocks.Tables.CombiTable1Ds": "CombiTable1Ds",
    "Modelica.Blocks.Tables.CombiTable1D": "CombiTable1D",
    "Modelica.Blocks.Tables.CombiTable1Dv": "CombiTable1D",
}
"""The supported tables of the library by path, with their type in :class:`Basic`."""


@dataclass(frozen=True, slots=True)
class Basic:
    """A predefined class: numbers, a table, or an enumeration, which is ignored."""

    type: str  # Real, Integer, Boolean, String, enumeration, CombiTable1Ds or CombiTable1D.
    unit: str = ""  # Unit of the numbers.
    causality: str = ""  # "input", "output" or "".


BASIC: Final = {
    **{name: Basic(name) for name in ("Real", "Integer", "Boolean", "String")},
    **{name: Basic("enumeration") for name in ("enumeration", "StateSelect")},
    **{path: Basic(kind) for path, kind in TABLES.items()},
    "Modelica.Blocks.Interfaces.RealInput": Basic("Real", "", "input"),
    "Modelica.Blocks.Interfaces.RealOutput": Basic("Real", "", "output"),
}
"""Predefined classes by their paths, without the types with units."""


def basic(path: str) -> Basic | None:
    """A predefined class by its path; None if there is none."""
    package, _, last = path.rpartition(".")
    if package in UNIT_PACKAGES:
        return Basic("Real", UNITS[last]) if last in UNITS else None
    return BASIC.get(path)
