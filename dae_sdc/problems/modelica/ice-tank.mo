connector HeatPort "where heat flows into a component"
  Real T(unit = "degC") "temperature";
  flow Real Q_flow(unit = "kW") "heat flow into the component";
end HeatPort;

model Layer "part of the store that is ice, water or both"
  HeatPort port "neighbours and wall";
  parameter Real m(unit = "kg", min = 0) = 200 "mass";
  parameter Real c_ice(unit = "kJ/(kg.K)") = 2.1 "specific heat capacity of ice";
  parameter Real c_water(unit = "kJ/(kg.K)") = 4.2 "specific heat capacity of water";
  parameter Real h_f(unit = "kJ/kg") = 334 "heat of fusion";
  parameter Real UA(unit = "kW/K") = 0.8 "conductance of the coil";
  parameter Real C_flow(unit = "kW/K") = 1.6 "heat capacity flow of the brine";
  input Real T_in(unit = "degC") "brine that comes in";
  output Real T_out(unit = "degC") "brine that goes out";
  Real h(unit = "kJ/kg") "specific enthalpy, 0 for ice at the melting point";
  Real T(unit = "degC") "temperature";
  Real ice "mass fraction of ice";
  Real Q_brine(unit = "kW") "heat from the brine";
equation
  T = if h < 0 then h / c_ice elseif h < h_f then 0 else (h - h_f) / c_water;
  ice = if h < 0 then 1 elseif h < h_f then 1 - h / h_f else 0;
  Q_brine = C_flow * (1 - exp(-UA / C_flow)) * (T_in - T);
  Q_brine = C_flow * (T_in - T_out);
  m * der(h) = Q_brine + port.Q_flow;
  port.T = T;
end Layer;

model ThermalConductor "conduction without storage"
  HeatPort port_a;
  HeatPort port_b;
  parameter Real G(unit = "kW/K", min = 0) = 1 "conductance";
  Real Q_flow(unit = "kW") "heat flow from a to b";
  Real dT(unit = "K") "difference of temperatures";
equation
  dT = port_a.T - port_b.T;
  port_a.Q_flow = Q_flow;
  port_b.Q_flow = -Q_flow;
  Q_flow = G * dT;
end ThermalConductor;

model FixedTemperature "surroundings"
  HeatPort port;
  parameter Real T(unit = "degC") = 20 "temperature";
equation
  port.T = T;
end FixedTemperature;

model Brine "brine whose temperature swings"
  parameter Real T_mean(unit = "degC") = 0 "mean";
  parameter Real swing(unit = "degC") = 1 "amplitude";
  parameter Real period(unit = "s") = 86400 "period";
  constant Real pi = 3.14159265358979323846;
  output Real T(unit = "degC") "temperature";
equation
  T = T_mean - swing * sin(2 * pi * time / period);
end Brine;

model IceTank "store of three layers that brine freezes and melts"
  Brine brine(T_mean = 0.5, swing = 14, period = 172800);
  Layer top(h(start = 350, fixed = true));
  Layer middle(h(start = 342, fixed = true));
  Layer bottom(h(start = 336, fixed = true));
  ThermalConductor upper(G = 0.004);
  ThermalConductor lower(G = 0.004);
  ThermalConductor wall_top(G = 0.003);
  ThermalConductor wall_middle(G = 0.002);
  ThermalConductor wall_bottom(G = 0.003);
  FixedTemperature cellar(T = 12);
equation
  bottom.T_in = brine.T;
  middle.T_in = bottom.T_out;
  top.T_in = middle.T_out;
  connect(top.port, upper.port_a);
  connect(upper.port_b, middle.port);
  connect(middle.port, lower.port_a);
  connect(lower.port_b, bottom.port);
  connect(cellar.port, wall_top.port_a);
  connect(cellar.port, wall_middle.port_a);
  connect(cellar.port, wall_bottom.port_a);
  connect(wall_top.port_b, top.port);
  connect(wall_middle.port_b, middle.port);
  connect(wall_bottom.port_b, bottom.port);
  annotation(
    experiment(StartTime = 0, StopTime = 216000, Interval = 600),
    Documentation(info = "Layers of ice and water with the specific enthalpy as state; equations and parameters of our own. Temperatures over enthalpy have kinks where a layer begins to freeze or melt and where it ends."));
end IceTank;
