connector Pin "terminal of an electric component"
  Real v(unit = "V") "potential";
  flow Real i(unit = "A") "current into the component";
end Pin;

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

model Capacitor "ideal capacitor"
  extends OnePort;
  parameter Real C(unit = "F", min = 0) = 1 "capacitance";
equation
  i = C * der(v);
end Capacitor;

model SineVoltage "source of a sinusoidal voltage"
  extends OnePort;
  parameter Real V(unit = "V") = 1 "amplitude";
  parameter Real f(unit = "Hz") = 1 "frequency";
  constant Real pi = 3.14159265358979323846;
equation
  v = V * sin(2 * pi * f * time);
end SineVoltage;

model Ground "potential zero"
  Pin p "terminal";
equation
  p.v = 0;
end Ground;

model RLCCircuit "resonant circuit of coil and capacitor with a loaded output"
  SineVoltage source(V = 10, f = 60);
  Resistor wire(R = 12);
  Inductor coil(L = 0.1, i(start = 0, fixed = true));
  Capacitor capacitor(C = 1e-4, v(start = 4, fixed = true));
  Resistor load(R = 150);
  Ground ground;
equation
  connect(source.p, wire.p);
  connect(wire.n, coil.p);
  connect(coil.n, capacitor.p);
  connect(capacitor.p, load.p);
  connect(capacitor.n, ground.p);
  connect(load.n, ground.p);
  connect(source.n, ground.p);
  annotation(
    experiment(StartTime = 0, StopTime = 0.1, Interval = 1e-4),
    Documentation(info = "Components and connections as modelling tools make them; parameters of our own."));
end RLCCircuit;
