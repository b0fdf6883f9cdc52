// Names of the Modelica Standard Library that are read without it.
package Modelica
  package Constants
    constant Real pi = 3.141592653589793;
    constant Real e = 2.718281828459045;
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

  package Math
    function sin input Real u; output Real y; external "builtin" y = sin(u); end sin;
    function cos input Real u; output Real y; external "builtin" y = cos(u); end cos;
    function tan input Real u; output Real y; external "builtin" y = tan(u); end tan;
    function asin input Real u; output Real y; external "builtin" y = asin(u); end asin;
    function acos input Real u; output Real y; external "builtin" y = acos(u); end acos;
    function atan input Real u; output Real y; external "builtin" y = atan(u); end atan;
    function sinh input Real u; output Real y; external "builtin" y = sinh(u); end sinh;
    function cosh input Real u; output Real y; external "builtin" y = cosh(u); end cosh;
    function tanh input Real u; output Real y; external "builtin" y = tanh(u); end tanh;
    function exp input Real u; output Real y; external "builtin" y = exp(u); end exp;
    function log input Real u; output Real y; external "builtin" y = log(u); end log;
    function log10 input Real u; output Real y; external "builtin" y = log10(u); end log10;
    function atan2 input Real u1; input Real u2; output Real y; external "builtin" y = atan2(u1, u2); end atan2;

    package Vectors
      function interpolate
        input Real x[:];
        input Real y[:];
        input Real xi;
        input Modelica.Blocks.Types.Smoothness smoothness = Modelica.Blocks.Types.Smoothness.LinearSegments;
        input Modelica.Blocks.Types.Extrapolation extrapolation = Modelica.Blocks.Types.Extrapolation.LastTwoPoints;
        output Real yi;
      algorithm
        yi := Modelica_Blocks_Tables_value("", "", {{x[i], y[i]} for i in 1:size(x, 1)}, 2, xi, smoothness, extrapolation);
      end interpolate;
    end Vectors;
  end Math;

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
      block CombiTable1Ds = Modelica_Blocks_Tables_CombiTable1Ds;
      block CombiTable1Dv = Modelica_Blocks_Tables_CombiTable1Dv;
      block CombiTable1D = Modelica_Blocks_Tables_CombiTable1Dv;
      block CombiTable2Ds = Modelica_Blocks_Tables_CombiTable2Ds;
      block CombiTable2D = Modelica_Blocks_Tables_CombiTable2Ds;
    end Tables;

    package Sources
      block CombiTimeTable = Modelica_Blocks_Sources_CombiTimeTable;
    end Sources;
  end Blocks;

  package SIunits "the name of version 3"
    extends Modelica.Units.SI;
    package Conversions extends Modelica.Units.Conversions; end Conversions;
  end SIunits;
end Modelica;
