connector Pin "terminal of an electric component"
  Real v(unit = "V") "potential";
  flow Real i(unit = "A") "current into the component";
end Pin;

connector Flange "end of a shaft"
  Real phi(unit = "rad") "angle";
  flow Real tau(unit = "N.m") "torque on the component";
end Flange;

partial model OnePort "component with two terminals"
  Pin p "positive terminal";
  Pin n "negative terminal";
  Real v(unit = "V") "voltage from p to n";
  Real i(unit = "A") "current from p to n";
equation
  v = p.v - n.v;
  0 = p.i + n.i;
  i = p.i;
end OnePort;

model Resistor "ideal resistor"
  extends OnePort;
  parameter Real R(unit = "Ohm", min = 0) = 1 "resistance";
equation
  v = R * i;
end Resistor;

model Inductor "ideal inductor"
  extends OnePort;
  parameter Real L(unit = "H", min = 0) = 1 "inductance";
equation
  L * der(i) = v;
end Inductor;

model StepVoltage "source of a voltage that is switched on"
  extends OnePort;
  parameter Real V(unit = "V") = 1 "height of the step";
  parameter Real startTime(unit = "s") = 0 "time of the step";
equation
  v = if time < startTime then 0 else V;
end StepVoltage;

model Ground "potential zero"
  Pin p "terminal";
equation
  p.v = 0;
end Ground;

model EMF "converter of electric and mechanical power"
  extends OnePort;
  Flange flange "shaft";
  parameter Real k(unit = "N.m/A") = 1 "torque of a current, and voltage of a speed";
  Real phi(unit = "rad") "angle of the shaft";
  Real w(unit = "rad/s") "speed of the shaft";
equation
  phi = flange.phi;
  w = der(phi);
  v = k * w;
  flange.tau = -k * i;
end EMF;

model Inertia "rigid shaft"
  Flange flange_a "left end";
  Flange flange_b "right end";
  parameter Real J(unit = "kg.m2", min = 0) = 1 "moment of inertia";
  Real phi(unit = "rad") "angle";
  Real w(unit = "rad/s") "speed";
  Real a(unit = "rad/s2") "acceleration";
equation
  phi = flange_a.phi;
  phi = flange_b.phi;
  w = der(phi);
  a = der(w);
  J * a = flange_a.tau + flange_b.tau;
end Inertia;

model Damper "linear friction between two shafts"
  Flange flange_a "left end";
  Flange flange_b "right end";
  parameter Real d(unit = "N.m.s/rad", min = 0) = 0 "coefficient of friction";
  Real phi_rel(unit = "rad") "relative angle";
  Real w_rel(unit = "rad/s") "relative speed";
  Real tau(unit = "N.m") "torque between the shafts";
equation
  phi_rel = flange_b.phi - flange_a.phi;
  w_rel = der(phi_rel);
  tau = d * w_rel;
  flange_b.tau = tau;
  flange_a.tau = -tau;
end Damper;

model Fixed "housing"
  Flange flange "what is held";
  parameter Real phi0(unit = "rad") = 0 "angle";
equation
  flange.phi = phi0;
end Fixed;

model DCMotor "motor of direct current that drives a load with friction"
  StepVoltage source(V = 24);
  Resistor resistor(R = 0.5);
  Inductor coil(L = 0.02, i(start = 0, fixed = true));
  EMF emf(k = 0.1);
  Ground ground;
  Inertia load(J = 0.002, phi(start = 0, fixed = true), w(start = 0, fixed = true));
  Damper bearing(d = 0.001);
  Fixed housing;
equation
  connect(source.p, resistor.p);
  connect(resistor.n, coil.p);
  connect(coil.n, emf.p);
  connect(emf.n, ground.p);
  connect(source.n, ground.p);
  connect(emf.flange, load.flange_a);
  connect(load.flange_b, bearing.flange_b);
  connect(bearing.flange_a, housing.flange);
  annotation(
    experiment(StartTime = 0, StopTime = 0.6, Interval = 0.002),
    Documentation(info = "Components and connections as modelling tools make them; parameters of our own."));
end DCMotor;
