model SliderCrankMotor "slider crank that a motor of direct current drives"
  parameter Real 'Main.R.R'(unit = "Ohm") = 1 "resistance of the motor";
  parameter Real 'Main.L.L'(unit = "H") = 0.5 "inductance of the motor";
  parameter Real 'Main.EMF.k'(unit = "N.m/A") = 0.01 "torque of a current, and voltage of a speed";
  parameter Real 'Main.Step.height'(unit = "V") = 2000 "voltage";
  parameter Real 'Main.Step.T0'(unit = "s") = 0 "time of the step";
  Real 'Main.Step.y'(unit = "V") "signal";
  Real 'Main.Source.p.v'(unit = "V");
  Real 'Main.Source.n.v'(unit = "V");
  Real 'Main.Source.v'(unit = "V") "voltage";
  Real 'Main.Source.i'(unit = "A") "current";
  Real 'Main.Ground.v'(unit = "V");
  Real 'Main.R.p.v'(unit = "V");
  Real 'Main.R.n.v'(unit = "V");
  Real 'Main.R.v'(unit = "V") "voltage";
  Real 'Main.R.i'(unit = "A") "current";
  Real 'Main.L.p.v'(unit = "V");
  Real 'Main.L.n.v'(unit = "V");
  Real 'Main.L.v'(unit = "V") "voltage";
  Real 'Main.L.i'(unit = "A", start = 0, fixed = true) "current";
  Real 'Main.EMF.p.v'(unit = "V");
  Real 'Main.EMF.n.v'(unit = "V");
  Real 'Main.EMF.v'(unit = "V") "voltage of the motor at its speed";
  Real 'Main.EMF.i'(unit = "A") "current";
  Real 'Main.EMF.phi'(unit = "rad") "angle of the shaft";
  Real 'Main.EMF.w'(unit = "rad/s") "speed of the shaft";
  Real 'Main.EMF.tau'(unit = "N.m") "torque of the current";
  Real 'Main.Crank.tau'(unit = "N.m") "torque on the crank";
  Real 'Main.Crank.theta'(unit = "rad", start = 0.78539816339744831, fixed = true) "angle of the crank";
  Real 'Main.Crank.w'(unit = "rad/s", start = 0, fixed = true) "speed of the crank";
  Real 'Main.Crank.alpha'(unit = "rad/s2") "acceleration of the crank";
  Real 'Main.Rod.theta'(unit = "rad", start = -0.36) "angle of the connecting rod";
  Real 'Main.Rod.w'(unit = "rad/s") "speed of the connecting rod";
  Real 'Main.Rod.alpha'(unit = "rad/s2") "acceleration of the connecting rod";
  Real 'Main.Slider.x'(unit = "m", start = 2.6) "place of the slider";
  Real 'Main.Slider.v'(unit = "m/s") "velocity of the slider";
  Real 'Main.Slider.y'(unit = "m") "height of the guide";
  Real 'Main.Slider.F'(unit = "N") "force of the guide on the slider";
  Real 'Main.Guide.F'(unit = "N") "force of the slider on the guide";
equation
  'Main.Step.y' = if time < 'Main.Step.T0' then 0 else 'Main.Step.height';
  'Main.Source.v' = 'Main.Step.y';
  'Main.Source.v' = 'Main.Source.p.v' - 'Main.Source.n.v';
  'Main.Ground.v' = 0;
  'Main.Source.n.v' = 'Main.Ground.v';
  'Main.Source.p.v' = 'Main.R.p.v';
  'Main.R.v' = 'Main.R.p.v' - 'Main.R.n.v';
  'Main.R.v' = 'Main.R.R' * 'Main.R.i';
  'Main.R.n.v' = 'Main.L.p.v';
  'Main.Source.i' + 'Main.R.i' = 0;
  'Main.R.i' = 'Main.L.i';
  'Main.L.v' = 'Main.L.p.v' - 'Main.L.n.v';
  'Main.L.v' = 'Main.L.L' * der('Main.L.i');
  'Main.L.n.v' = 'Main.EMF.p.v';
  'Main.L.i' = 'Main.EMF.i';
  'Main.EMF.n.v' = 'Main.Ground.v';
  'Main.EMF.v' = 'Main.EMF.p.v' - 'Main.EMF.n.v';
  'Main.EMF.v' = 'Main.EMF.k' * 'Main.EMF.w';
  'Main.EMF.tau' = 'Main.EMF.k' * 'Main.EMF.i';
  'Main.EMF.phi' = 'Main.Crank.theta';
  'Main.EMF.w' = der('Main.EMF.phi');
  'Main.Crank.tau' = 'Main.EMF.tau';
  'Main.Crank.w' = der('Main.Crank.theta');
  'Main.Crank.alpha' = der('Main.Crank.w');
  'Main.Rod.w' = der('Main.Rod.theta');
  'Main.Rod.alpha' = der('Main.Rod.w');
  'Main.Slider.y' = 0;
  2 * sin('Main.Rod.theta') + sin('Main.Crank.theta') = 'Main.Slider.y';
  'Main.Slider.x' - 2 * cos('Main.Rod.theta') - cos('Main.Crank.theta') = 0;
  'Main.Slider.v' = der('Main.Slider.x');
  'Main.Guide.F' = -'Main.Slider.F';
  3.25 * 'Main.Crank.alpha' + 3 * 'Main.Rod.alpha' * cos('Main.Crank.theta') * cos('Main.Rod.theta')
    + 3 * 'Main.Rod.alpha' * sin('Main.Crank.theta') * sin('Main.Rod.theta')
    - cos('Main.Crank.theta') * 'Main.Slider.F' + 24 * cos('Main.Crank.theta')
    - 3 * cos('Main.Crank.theta') * 'Main.Rod.w' ^ 2 * sin('Main.Rod.theta')
    + 3 * sin('Main.Crank.theta') * 'Main.Rod.w' ^ 2 * cos('Main.Rod.theta') = 'Main.Crank.tau';
  3 * 'Main.Crank.alpha' * cos('Main.Crank.theta') * cos('Main.Rod.theta')
    + 3 * 'Main.Crank.alpha' * sin('Main.Crank.theta') * sin('Main.Rod.theta')
    + 6 * 'Main.Rod.alpha' - 2 * cos('Main.Rod.theta') * 'Main.Slider.F' + 29 * cos('Main.Rod.theta')
    - 3 * cos('Main.Rod.theta') * 'Main.Crank.w' ^ 2 * sin('Main.Crank.theta')
    + 3 * sin('Main.Rod.theta') * 'Main.Crank.w' ^ 2 * cos('Main.Crank.theta') = 0;
  annotation(
    experiment(StartTime = 0, StopTime = 3, Interval = 0.01),
    Documentation(info = "Slider crank, and motor with R = 1, L = 0.5, k = 0.01 and a step of 2000 V, after N. Mani 2010 (thesis), MapleSim models; the equations around them are our own."));
end SliderCrankMotor;
