connector HeatPort "where heat flows into a component"
  Real T(unit = "K") "temperature";
  flow Real Q_flow(unit = "W") "heat flow into the component";
end HeatPort;

model HeatCapacitor "lumped heat capacity"
  HeatPort port;
  parameter Real C(unit = "J/K", min = 0) = 1 "heat capacity";
  Real T(unit = "K", start = 293.15) "temperature";
equation
  T = port.T;
  C * der(T) = port.Q_flow;
end HeatCapacitor;

model ThermalConductor "conduction or convection without storage"
  HeatPort port_a;
  HeatPort port_b;
  parameter Real G(unit = "W/K", min = 0) = 1 "conductance";
  Real Q_flow(unit = "W") "heat flow from a to b";
  Real dT(unit = "K") "difference of temperatures";
equation
  dT = port_a.T - port_b.T;
  port_a.Q_flow = Q_flow;
  port_b.Q_flow = -Q_flow;
  Q_flow = G * dT;
end ThermalConductor;

model Weather "temperature that swings every day"
  HeatPort port;
  parameter Real T_mean(unit = "K") = 273.15 "mean";
  parameter Real swing(unit = "K") = 0 "amplitude";
  parameter Real period(unit = "s") = 86400 "length of a day";
  constant Real pi = 3.14159265358979323846;
equation
  port.T = T_mean + swing * sin(2 * pi * time / period);
end Weather;

model Heater "heat flow that is given"
  HeatPort port;
  parameter Real Q(unit = "W") = 0 "heat flow out of the heater";
equation
  port.Q_flow = -Q;
end Heater;

model HeatedRoom "room with a heater behind a wall of three layers and a window"
  Weather weather(T_mean = 275.15, swing = 6);
  ThermalConductor outer_film(G = 250);
  HeatCapacitor brick(C = 3.0e6, T(start = 276.15, fixed = true));
  ThermalConductor outer_joint(G = 40);
  HeatCapacitor insulation(C = 2.0e5, T(start = 283.15, fixed = true));
  ThermalConductor inner_joint(G = 25);
  HeatCapacitor plaster(C = 6.0e5, T(start = 289.15, fixed = true));
  ThermalConductor inner_film(G = 80);
  HeatCapacitor room(C = 4.0e5, T(start = 291.15, fixed = true));
  ThermalConductor window(G = 15);
  Heater heater(Q = 600);
equation
  connect(weather.port, outer_film.port_a);
  connect(outer_film.port_b, brick.port);
  connect(brick.port, outer_joint.port_a);
  connect(outer_joint.port_b, insulation.port);
  connect(insulation.port, inner_joint.port_a);
  connect(inner_joint.port_b, plaster.port);
  connect(plaster.port, inner_film.port_a);
  connect(inner_film.port_b, room.port);
  connect(room.port, window.port_a);
  connect(window.port_b, weather.port);
  connect(heater.port, room.port);
  annotation(
    experiment(StartTime = 0, StopTime = 172800, Interval = 600),
    Documentation(info = "Lumped heat capacities and conductances, connected as modelling tools do it; parameters of our own."));
end HeatedRoom;
