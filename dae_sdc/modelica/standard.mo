// Names of the Modelica Standard Library that are read without it.
package Modelica
  package Constants
    constant Real D2R = Modelica.Constants.pi/180;
    constant Real R2D = 180/Modelica.Constants.pi;
    constant Real g_n = 9.80665;
    constant Real eps = 2.220446049250313e-16;
    constant Real small = 1e-60;
    constant Real inf = 1e60;
    constant Real T_zero = -273.15;
    constant Real c = 299792458;
    constant Real G = 6.67430e-11;
    constant Real h = 6.62607015e-34;
    constant Real k = 1.380649e-23;
    constant Real q = 1.602176634e-19;
    constant Real F = 96485.33212331001;
    constant Real R = 8.31446261815324;
    constant Real N_A = 6.02214076e23;
    constant Real sigma = 5.670374419e-8;
    constant Real mu_0 = 1.25663706212e-6;
    constant Real epsilon_0 = 8.8541878128e-12;
  end Constants;

  package Units
    package SI
      type AbsolutePressure = Real(unit="Pa");
      type Pressure = Real(unit="Pa");
      type Stress = Real(unit="Pa");
      type Acceleration = Real(unit="m/s2");
      type Admittance = Real(unit="S");
      type Conductance = Real(unit="S");
      type AmountOfSubstance = Real(unit="mol");
      type Angle = Real(unit="rad");
      type AngularAcceleration = Real(unit="rad/s2");
      type AngularFrequency = Real(unit="rad/s");
      type AngularVelocity = Real(unit="rad/s");
      type AngularMomentum = Real(unit="kg.m2/s");
      type Area = Real(unit="m2");
      type Capacitance = Real(unit="F");
      type Charge = Real(unit="C");
      type ElectricCharge = Real(unit="C");
      type CoefficientOfHeatTransfer = Real(unit="W/(m2.K)");
      type Concentration = Real(unit="mol/m3");
      type Conductivity = Real(unit="S/m");
      type Current = Real(unit="A");
      type ElectricCurrent = Real(unit="A");
      type MagnetomotiveForce = Real(unit="A");
      type Density = Real(unit="kg/m3");
      type Diameter = Real(unit="m");
      type Distance = Real(unit="m");
      type Height = Real(unit="m");
      type Length = Real(unit="m");
      type Position = Real(unit="m");
      type Radius = Real(unit="m");
      type Thickness = Real(unit="m");
      type DimensionlessRatio = Real(unit="1");
      type Efficiency = Real(unit="1");
      type Emissivity = Real(unit="1");
      type MassFraction = Real(unit="1");
      type MoleFraction = Real(unit="1");
      type PerUnit = Real(unit="1");
      type RelativePermeability = Real(unit="1");
      type Duration = Real(unit="s");
      type Period = Real(unit="s");
      type Time = Real(unit="s");
      type DynamicViscosity = Real(unit="Pa.s");
      type ElectricFieldStrength = Real(unit="V/m");
      type ElectricPotential = Real(unit="V");
      type PotentialDifference = Real(unit="V");
      type Voltage = Real(unit="V");
      type ElectricalTorqueConstant = Real(unit="N.m/A");
      type Energy = Real(unit="J");
      type Enthalpy = Real(unit="J");
      type Heat = Real(unit="J");
      type InternalEnergy = Real(unit="J");
      type Work = Real(unit="J");
      type EnthalpyFlowRate = Real(unit="W");
      type HeatFlowRate = Real(unit="W");
      type Power = Real(unit="W");
      type Entropy = Real(unit="J/K");
      type HeatCapacity = Real(unit="J/K");
      type Force = Real(unit="N");
      type Frequency = Real(unit="Hz");
      type HeatFlux = Real(unit="W/m2");
      type Impedance = Real(unit="Ohm");
      type Resistance = Real(unit="Ohm");
      type Impulse = Real(unit="N.s");
      type Inductance = Real(unit="H");
      type Inertia = Real(unit="kg.m2");
      type MomentOfInertia = Real(unit="kg.m2");
      type Jerk = Real(unit="m/s3");
      type KinematicViscosity = Real(unit="m2/s");
      type LinearTemperatureCoefficient = Real(unit="1/K");
      type MagneticFieldStrength = Real(unit="A/m");
      type MagneticFlux = Real(unit="Wb");
      type MagneticFluxDensity = Real(unit="T");
      type Mass = Real(unit="kg");
      type MassFlowRate = Real(unit="kg/s");
      type MolarEnergy = Real(unit="J/mol");
      type MolarFlowRate = Real(unit="mol/s");
      type MolarHeatCapacity = Real(unit="J/(mol.K)");
      type MolarMass = Real(unit="kg/mol");
      type Momentum = Real(unit="kg.m/s");
      type Reluctance = Real(unit="H-1");
      type Resistivity = Real(unit="Ohm.m");
      type RotationalDampingConstant = Real(unit="N.m.s/rad");
      type RotationalSpringConstant = Real(unit="N.m/rad");
      type SpecificEnergy = Real(unit="J/kg");
      type SpecificEnthalpy = Real(unit="J/kg");
      type SpecificEntropy = Real(unit="J/(kg.K)");
      type SpecificHeatCapacity = Real(unit="J/(kg.K)");
      type SpecificVolume = Real(unit="m3/kg");
      type Temperature = Real(unit="K");
      type TemperatureDifference = Real(unit="K");
      type ThermodynamicTemperature = Real(unit="K");
      type ThermalConductance = Real(unit="W/K");
      type ThermalConductivity = Real(unit="W/(m.K)");
      type ThermalResistance = Real(unit="K/W");
      type Torque = Real(unit="N.m");
      type TranslationalDampingConstant = Real(unit="N.s/m");
      type TranslationalSpringConstant = Real(unit="N/m");
      type Velocity = Real(unit="m/s");
      type Volume = Real(unit="m3");
      type VolumeFlowRate = Real(unit="m3/s");
    end SI;

    package Conversions
      function from_deg
        input Real x;
        output Real y;
      algorithm
        y := Modelica.Constants.pi/180*x;
      end from_deg;
      function to_deg
        input Real x;
        output Real y;
      algorithm
        y := 180/Modelica.Constants.pi*x;
      end to_deg;
      function from_rpm
        input Real x;
        output Real y;
      algorithm
        y := Modelica.Constants.pi/30*x;
      end from_rpm;
      function to_rpm
        input Real x;
        output Real y;
      algorithm
        y := 30/Modelica.Constants.pi*x;
      end to_rpm;
      function from_degC
        input Real x;
        output Real y;
      algorithm
        y := x + 273.15;
      end from_degC;
      function to_degC
        input Real x;
        output Real y;
      algorithm
        y := x - 273.15;
      end to_degC;
      function from_bar
        input Real x;
        output Real y;
      algorithm
        y := 1e5*x;
      end from_bar;
      function to_bar
        input Real x;
        output Real y;
      algorithm
        y := x/1e5;
      end to_bar;
    end Conversions;
  end Units;

  package Blocks
    package Interfaces
      connector RealInput = input Real;
      connector RealOutput = output Real;
    end Interfaces;

    package Types
      type Smoothness = enumeration(LinearSegments, ContinuousDerivative, ConstantSegments,
        MonotoneContinuousDerivative1, MonotoneContinuousDerivative2, ModifiedContinuousDerivative);
      type Extrapolation = enumeration(HoldLastPoint, LastTwoPoints, Periodic, NoExtrapolation);
    end Types;

    package Tables
      block CombiTable1Ds
        constant Real table[:, :];
        constant Integer columns[:] = 2:size(table, 2);
        constant Types.Smoothness smoothness = Types.Smoothness.LinearSegments;
        constant Types.Extrapolation extrapolation = Types.Extrapolation.LastTwoPoints;
        constant Boolean tableOnFile = false;
        constant Boolean verboseExtrapolation = false;
        Interfaces.RealInput u;
        Interfaces.RealOutput y[size(columns, 1)];
      equation
        assert(size(table, 2) > 1, "a table must have rows of x and y, [x1, y1; x2, y2; ...]");
        for k in 1:size(columns, 1) loop
          y[k] = Modelica.Math.Vectors.interpolate(table[:, 1], table[:, columns[k]], u, smoothness, extrapolation);
        end for;
      end CombiTable1Ds;

      block CombiTable1Dv
        constant Real table[:, :];
        constant Integer columns[:] = 2:size(table, 2);
        constant Types.Smoothness smoothness = Types.Smoothness.LinearSegments;
        constant Types.Extrapolation extrapolation = Types.Extrapolation.LastTwoPoints;
        constant Boolean tableOnFile = false;
        constant Boolean verboseExtrapolation = false;
        Interfaces.RealInput u[size(columns, 1)];
        Interfaces.RealOutput y[size(columns, 1)];
      equation
        assert(size(table, 2) > 1, "a table must have rows of x and y, [x1, y1; x2, y2; ...]");
        for k in 1:size(columns, 1) loop
          y[k] = Modelica.Math.Vectors.interpolate(table[:, 1], table[:, columns[k]], u[k], smoothness, extrapolation);
        end for;
      end CombiTable1Dv;

      block CombiTable1D = CombiTable1Dv;
    end Tables;
  end Blocks;

  package SIunits "the name of version 3"
    extends Units.SI;
    package Conversions = Units.Conversions;
  end SIunits;
end Modelica;

function cross
  input Real x[3];
  input Real y[3];
  output Real z[3];
algorithm
  z := {x[2]*y[3] - x[3]*y[2], x[3]*y[1] - x[1]*y[3], x[1]*y[2] - x[2]*y[1]};
end cross;

function transpose
  input Real A[:, :];
  output Real B[size(A, 2), size(A, 1)];
algorithm
  B := {{A[i, j] for i in 1:size(A, 1)} for j in 1:size(A, 2)};
end transpose;

function symmetric
  input Real A[:, :];
  output Real B[size(A, 1), size(A, 1)];
algorithm
  B := {{A[if i < j then i else j, if i < j then j else i] for j in 1:size(A, 1)} for i in 1:size(A, 1)};
end symmetric;

function outerProduct
  input Real x[:];
  input Real y[:];
  output Real A[size(x, 1), size(y, 1)];
algorithm
  A := {{x[i]*y[j] for j in 1:size(y, 1)} for i in 1:size(x, 1)};
end outerProduct;

function diagonal
  input Real x[:];
  output Real A[size(x, 1), size(x, 1)];
algorithm
  A := {{if i == j then x[i] else 0 for j in 1:size(x, 1)} for i in 1:size(x, 1)};
end diagonal;

function skew
  input Real x[3];
  output Real y[3, 3];
algorithm
  y := {{0, -x[3], x[2]}, {x[3], 0, -x[1]}, {-x[2], x[1], 0}};
end skew;

function linspace
  input Real x1;
  input Real x2;
  input Integer n;
  output Real y[n];
algorithm
  y := {x1 + (x2 - x1)/(n - 1)*(i - 1) for i in 1:n};
end linspace;

function semiLinear
  input Real x;
  input Real positiveSlope;
  input Real negativeSlope;
  output Real y;
algorithm
  y := if x >= 0 then positiveSlope*x else negativeSlope*x;
end semiLinear;

package SI = Modelica.Units.SI;

package SIunits = Modelica.Units.SI;
