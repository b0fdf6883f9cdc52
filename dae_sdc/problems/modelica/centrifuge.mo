model Centrifuge "rotor with a gondola on a hinge that swings out"
  parameter Real 'Main.Rotor.J'(unit = "kg.m2") = 4000 "moment of inertia of the rotor";
  parameter Real 'Main.Rotor.R'(unit = "m") = 4 "length of the arm";
  parameter Real 'Main.Gondola.m'(unit = "kg") = 300 "mass";
  parameter Real 'Main.Gondola.I'(unit = "kg.m2") = 60 "moment of inertia about every axis";
  parameter Real 'Main.Gondola.l'(unit = "m") = 1.5 "from the hinge to the centre of mass";
  parameter Real 'Main.Hinge.d'(unit = "N.m.s/rad") = 400 "friction of the hinge";
  parameter Real 'Main.Bearing.d'(unit = "N.m.s/rad") = 50 "friction of the bearing";
  parameter Real 'Main.Motor.k'(unit = "N.m.s/rad") = 6000 "gain of the control of speed";
  parameter Real 'Main.Motor.w_max'(unit = "rad/s") = 2.5 "speed that is wanted";
  parameter Real 'Main.Motor.T'(unit = "s") = 5 "time of the run up";
  parameter Real g(unit = "m/s2") = 9.81 "acceleration of gravity";
  Real 'Main.Motor.w_ref'(unit = "rad/s") "speed that is wanted now";
  Real 'Main.Motor.w'(unit = "rad/s") "speed that is measured";
  Real 'Main.Motor.e'(unit = "rad/s") "error of the speed";
  Real 'Main.Motor.tau'(unit = "N.m") "torque";
  Real 'Main.Bearing.tau'(unit = "N.m") "torque of the friction";
  Real 'Main.Rotor.tau'(unit = "N.m") "sum of the torques on the rotor";
  Real 'Main.Rotor.phi'(unit = "rad", start = 0, fixed = true) "angle of the rotor";
  Real 'Main.Rotor.w'(unit = "rad/s", start = 0, fixed = true) "speed of the rotor";
  Real 'Main.Rotor.alpha'(unit = "rad/s2") "acceleration of the rotor";
  Real 'Main.Hinge.x'(unit = "m") "place of the hinge";
  Real 'Main.Hinge.y'(unit = "m") "place of the hinge";
  Real 'Main.Hinge.z'(unit = "m") "place of the hinge, upwards";
  Real 'Main.Hinge.theta'(unit = "rad", start = 0.1, fixed = true) "angle of the hinge";
  Real 'Main.Hinge.w'(unit = "rad/s", start = 0, fixed = true) "rate of the angle of the hinge";
  Real 'Main.Hinge.tau'(unit = "N.m") "torque of the friction";
  Real 'Main.Hinge.F_r'(unit = "N") "force on the gondola along the arm";
  Real 'Main.Hinge.F_t'(unit = "N") "force on the gondola across the arm";
  Real 'Main.Hinge.M_r'(unit = "N.m") "torque on the gondola along the arm";
  Real 'Main.Hinge.M_z'(unit = "N.m") "torque on the gondola about the vertical";
  Real 'Main.Gondola.theta'(unit = "rad") "angle to the vertical";
  Real 'Main.Gondola.w'(unit = "rad/s") "rate of the angle";
  Real 'Main.Gondola.alpha'(unit = "rad/s2") "acceleration of the angle";
  Real 'Main.Gondola.x'(unit = "m") "centre of mass";
  Real 'Main.Gondola.y'(unit = "m") "centre of mass";
  Real 'Main.Gondola.z'(unit = "m") "centre of mass, upwards";
  Real 'Main.Gondola.v_x'(unit = "m/s");
  Real 'Main.Gondola.v_y'(unit = "m/s");
  Real 'Main.Gondola.v_z'(unit = "m/s");
  Real 'Main.Gondola.a_x'(unit = "m/s2");
  Real 'Main.Gondola.a_y'(unit = "m/s2");
  Real 'Main.Gondola.a_z'(unit = "m/s2");
  Real 'Main.Gondola.F_x'(unit = "N") "force of the hinge";
  Real 'Main.Gondola.F_y'(unit = "N") "force of the hinge";
  Real 'Main.Gondola.F_z'(unit = "N") "force of the hinge";
equation
  'Main.Motor.w_ref' = 'Main.Motor.w_max' * (1 - exp(-time / 'Main.Motor.T'));
  'Main.Motor.w' = 'Main.Rotor.w';
  'Main.Motor.e' = 'Main.Motor.w_ref' - 'Main.Motor.w';
  'Main.Motor.tau' = 'Main.Motor.k' * 'Main.Motor.e';
  'Main.Bearing.tau' = -'Main.Bearing.d' * 'Main.Rotor.w';
  // rotor with the gondola
  ('Main.Rotor.J' + 'Main.Gondola.I'
      + 'Main.Gondola.m' * ('Main.Rotor.R' + 'Main.Gondola.l' * sin('Main.Hinge.theta')) ^ 2) * 'Main.Rotor.alpha'
    + 2 * 'Main.Gondola.m' * ('Main.Rotor.R' + 'Main.Gondola.l' * sin('Main.Hinge.theta'))
      * 'Main.Gondola.l' * cos('Main.Hinge.theta') * 'Main.Rotor.w' * 'Main.Hinge.w'
    = 'Main.Motor.tau' + 'Main.Bearing.tau';
  'Main.Rotor.J' * 'Main.Rotor.alpha' = 'Main.Rotor.tau';
  'Main.Rotor.w' = der('Main.Rotor.phi');
  'Main.Rotor.alpha' = der('Main.Rotor.w');
  'Main.Hinge.x' = 'Main.Rotor.R' * cos('Main.Rotor.phi');
  'Main.Hinge.y' = 'Main.Rotor.R' * sin('Main.Rotor.phi');
  'Main.Hinge.z' = 0;
  'Main.Hinge.theta' = 'Main.Gondola.theta';
  'Main.Hinge.w' = der('Main.Hinge.theta');
  'Main.Hinge.tau' = -'Main.Hinge.d' * 'Main.Hinge.w';
  'Main.Hinge.F_r' = 'Main.Gondola.F_x' * cos('Main.Rotor.phi') + 'Main.Gondola.F_y' * sin('Main.Rotor.phi');
  'Main.Hinge.F_t' = 'Main.Gondola.F_y' * cos('Main.Rotor.phi') - 'Main.Gondola.F_x' * sin('Main.Rotor.phi');
  'Main.Gondola.w' = der('Main.Gondola.theta');
  'Main.Gondola.alpha' = der('Main.Gondola.w');
  'Main.Gondola.x' - 'Main.Hinge.x' = 'Main.Gondola.l' * sin('Main.Gondola.theta') * cos('Main.Rotor.phi');
  'Main.Gondola.y' - 'Main.Hinge.y' = 'Main.Gondola.l' * sin('Main.Gondola.theta') * sin('Main.Rotor.phi');
  'Main.Gondola.z' - 'Main.Hinge.z' = -'Main.Gondola.l' * cos('Main.Gondola.theta');
  'Main.Gondola.v_x' = der('Main.Gondola.x');
  'Main.Gondola.v_y' = der('Main.Gondola.y');
  'Main.Gondola.v_z' = der('Main.Gondola.z');
  'Main.Gondola.a_x' = der('Main.Gondola.v_x');
  'Main.Gondola.a_y' = der('Main.Gondola.v_y');
  'Main.Gondola.a_z' = der('Main.Gondola.v_z');
  'Main.Gondola.m' * 'Main.Gondola.a_x' = 'Main.Gondola.F_x';
  'Main.Gondola.m' * 'Main.Gondola.a_y' = 'Main.Gondola.F_y';
  'Main.Gondola.m' * 'Main.Gondola.a_z' = 'Main.Gondola.F_z' - 'Main.Gondola.m' * g;
  ('Main.Gondola.I' + 'Main.Gondola.m' * 'Main.Gondola.l' ^ 2) * 'Main.Gondola.alpha'
    - 'Main.Gondola.m' * 'Main.Gondola.l' * (
      ('Main.Rotor.R' + 'Main.Gondola.l' * sin('Main.Hinge.theta')) * cos('Main.Hinge.theta') * 'Main.Rotor.w' ^ 2
      - g * sin('Main.Hinge.theta'))
    = 'Main.Hinge.tau';
  'Main.Gondola.I' * 'Main.Rotor.alpha' = 'Main.Hinge.M_z'
    - 'Main.Gondola.l' * sin('Main.Gondola.theta') * 'Main.Hinge.F_t';
  'Main.Gondola.I' * 'Main.Gondola.w' * 'Main.Rotor.w' = 'Main.Hinge.M_r'
    - 'Main.Gondola.l' * cos('Main.Gondola.theta') * 'Main.Hinge.F_t';
  annotation(
    experiment(StartTime = 0, StopTime = 10, Interval = 0.02),
    Documentation(info = "Equations in coordinates of joints, torques for rotor and hinge at once from which places and forces follow, and parameters, of our own; the kind of model is that of N. Mani 2010 (thesis)."));
end Centrifuge;
