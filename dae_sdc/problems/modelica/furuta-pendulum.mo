model FurutaPendulum "pendulum at the end of an arm that a motor turns to and fro"
  parameter Real g(unit = "m/s2") = 9.81 "gravity, against z";
  parameter Real r(unit = "m") = 0.2 "length of the arm";
  parameter Real a(unit = "m") = 0.15 "from the hinge to the centre of the pendulum";
  parameter Real 'arm.J'(unit = "kg.m2") = 0.002 "moment of inertia of the arm";
  parameter Real 'arm.d'(unit = "N.m.s/rad") = 0.002 "friction of the arm";
  parameter Real 'pendulum.m'(unit = "kg") = 0.1 "mass of the pendulum";
  parameter Real 'pendulum.I'(unit = "kg.m2") = 0.0008 "moment of inertia across the rod";
  parameter Real 'pendulum.I3'(unit = "kg.m2") = 0.00002 "moment of inertia along the rod";
  parameter Real 'hinge.d'(unit = "N.m.s/rad") = 0.0001 "friction of the hinge";
  parameter Real 'motor.T'(unit = "N.m") = 0.03 "largest torque of the motor";
  parameter Real 'motor.speed'(unit = "rad/s") = 5 "angular frequency of the torque";
  Real 'motor.t'(unit = "N.m") "torque of the motor";
  Real 'arm.phi'(unit = "rad", start = 0, fixed = true) "angle of the arm";
  Real 'arm.w'(unit = "rad/s", start = 0, fixed = true) "angular velocity of the arm";
  Real 'arm.z'(unit = "rad/s2") "angular acceleration of the arm";
  Real 'arm.friction'(unit = "N.m") "torque of the friction";
  Real 'arm.frame_b.t'(unit = "N.m") "torque of the pendulum on the arm";
  Real 'hinge.phi'(unit = "rad", start = 0.8, fixed = true) "angle from the vertical";
  Real 'hinge.w'(unit = "rad/s", start = 0, fixed = true) "rate of the angle";
  Real 'hinge.t1'(unit = "N.m") "torque about the axis of the hinge";
  Real 'hinge.t2'(unit = "N.m") "torque across rod and axis";
  Real 'hinge.t3'(unit = "N.m") "torque about the rod";
  Real 'hinge.f1'(unit = "N") "force along the axis of the hinge";
  Real 'hinge.f2'(unit = "N") "force across rod and axis";
  Real 'hinge.f3'(unit = "N") "force along the rod";
  Real 'hinge.x'(unit = "m") "place of the hinge";
  Real 'hinge.y'(unit = "m") "place of the hinge";
  Real 'hinge.z'(unit = "m") "height of the hinge";
  Real 'pendulum.x'(unit = "m") "place of the centre";
  Real 'pendulum.y'(unit = "m") "place of the centre";
  Real 'pendulum.z'(unit = "m") "height of the centre";
  Real 'pendulum.vx'(unit = "m/s") "velocity of the centre";
  Real 'pendulum.vy'(unit = "m/s") "velocity of the centre";
  Real 'pendulum.vz'(unit = "m/s") "velocity of the centre";
  Real 'pendulum.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum.az'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum.fx'(unit = "N") "force of the hinge";
  Real 'pendulum.fy'(unit = "N") "force of the hinge";
  Real 'pendulum.fz'(unit = "N") "force of the hinge";
  Real 'pendulum.w1'(unit = "rad/s") "angular velocity about the axis of the hinge";
  Real 'pendulum.w2'(unit = "rad/s") "angular velocity across rod and axis";
  Real 'pendulum.w3'(unit = "rad/s") "angular velocity about the rod";
  Real 'pendulum.z1'(unit = "rad/s2") "rate of w1";
  Real 'pendulum.z2'(unit = "rad/s2") "rate of w2";
  Real 'pendulum.z3'(unit = "rad/s2") "rate of w3";
equation
  'motor.t' = 'motor.T' * sin('motor.speed' * time);
  // arm
  'arm.w' = der('arm.phi');
  'arm.z' = der('arm.w');
  'arm.friction' = -'arm.d' * 'arm.w';
  'arm.J' * 'arm.z' = 'motor.t' + 'arm.friction' + 'arm.frame_b.t';
  // arm with the pendulum
  ('arm.J' + 'pendulum.m' * r ^ 2 + ('pendulum.m' * a ^ 2 + 'pendulum.I') * sin('hinge.phi') ^ 2
      + 'pendulum.I3' * cos('hinge.phi') ^ 2) * 'arm.z'
    + 2 * ('pendulum.m' * a ^ 2 + 'pendulum.I' - 'pendulum.I3') * sin('hinge.phi') * cos('hinge.phi') * 'arm.w' * 'hinge.w'
    + 'pendulum.m' * r * a * (cos('hinge.phi') * der('hinge.w') - sin('hinge.phi') * 'hinge.w' ^ 2)
    = 'motor.t' + 'arm.friction';
  // hinge
  'hinge.w' = der('hinge.phi');
  'hinge.t1' = -'hinge.d' * 'hinge.w';
  'hinge.x' = r * cos('arm.phi');
  'hinge.y' = r * sin('arm.phi');
  'hinge.z' = 0;
  // pendulum, with axes along the hinge, across, and along the rod
  'pendulum.x' = 'hinge.x' - a * sin('hinge.phi') * sin('arm.phi');
  'pendulum.y' = 'hinge.y' + a * sin('hinge.phi') * cos('arm.phi');
  'pendulum.z' = 'hinge.z' - a * cos('hinge.phi');
  'pendulum.vx' = der('pendulum.x');
  'pendulum.vy' = der('pendulum.y');
  'pendulum.vz' = der('pendulum.z');
  'pendulum.ax' = der('pendulum.vx');
  'pendulum.ay' = der('pendulum.vy');
  'pendulum.az' = der('pendulum.vz');
  'pendulum.m' * 'pendulum.ax' = 'pendulum.fx';
  'pendulum.m' * 'pendulum.ay' = 'pendulum.fy';
  'pendulum.m' * 'pendulum.az' = 'pendulum.fz' - 'pendulum.m' * g;
  'hinge.f1' = 'pendulum.fx' * cos('arm.phi') + 'pendulum.fy' * sin('arm.phi');
  'hinge.f2' = cos('hinge.phi') * ('pendulum.fy' * cos('arm.phi') - 'pendulum.fx' * sin('arm.phi'))
    + sin('hinge.phi') * 'pendulum.fz';
  'hinge.f3' = cos('hinge.phi') * 'pendulum.fz'
    - sin('hinge.phi') * ('pendulum.fy' * cos('arm.phi') - 'pendulum.fx' * sin('arm.phi'));
  'pendulum.w1' = 'hinge.w';
  'pendulum.w2' = 'arm.w' * sin('hinge.phi');
  'pendulum.w3' = 'arm.w' * cos('hinge.phi');
  'pendulum.z1' = der('pendulum.w1');
  'pendulum.z2' = der('pendulum.w2');
  'pendulum.z3' = der('pendulum.w3');
  ('pendulum.m' * a ^ 2 + 'pendulum.I') * der('hinge.w') + 'pendulum.m' * a * cos('hinge.phi') * r * 'arm.z'
    - ('pendulum.m' * a ^ 2 + 'pendulum.I' - 'pendulum.I3') * sin('hinge.phi') * cos('hinge.phi') * 'arm.w' ^ 2
    + 'pendulum.m' * g * a * sin('hinge.phi') = 'hinge.t1';
  'pendulum.I' * 'pendulum.z2' - ('pendulum.I3' - 'pendulum.I') * 'pendulum.w3' * 'pendulum.w1'
    = 'hinge.t2' + a * 'hinge.f1';
  'pendulum.I3' * 'pendulum.z3' = 'hinge.t3';
  annotation(
    experiment(StartTime = 0, StopTime = 2, Interval = 0.02),
    Documentation(info = "<p>Equations of our own in coordinates of joints: torques for arm and hinge at once, from which
      places and forces follow. Parameters of our own.</p>"));
end FurutaPendulum;
