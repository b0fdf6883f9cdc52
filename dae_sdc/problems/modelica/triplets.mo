model Triplets "three bars with two pins and springs between them, thrown into the air"
  parameter Real g(unit = "m/s2") = 9.81 "gravity";
  parameter Real 'bar1.m'(unit = "kg") = 0.5 "mass";
  parameter Real 'bar1.I'(unit = "kg.m2") = 0.0073 "moment of inertia about the centre";
  parameter Real 'bar1.l'(unit = "m") = 0.4 "length";
  parameter Real 'bar2.m'(unit = "kg") = 0.8 "mass";
  parameter Real 'bar2.I'(unit = "kg.m2") = 0.0264 "moment of inertia about the centre";
  parameter Real 'bar2.l'(unit = "m") = 0.6 "length";
  parameter Real 'bar3.m'(unit = "kg") = 0.3 "mass";
  parameter Real 'bar3.I'(unit = "kg.m2") = 0.0069 "moment of inertia about the centre";
  parameter Real 'bar3.l'(unit = "m") = 0.5 "length";
  parameter Real 'pin1.c'(unit = "N.m/rad") = 0.3 "stiffness";
  parameter Real 'pin1.d'(unit = "N.m.s/rad") = 0.01 "friction";
  parameter Real 'pin2.c'(unit = "N.m/rad") = 0.2 "stiffness";
  parameter Real 'pin2.d'(unit = "N.m.s/rad") = 0.02 "friction";
  Real 'bar1.phi'(unit = "rad", start = 0.4, fixed = true) "angle to the x-axis";
  Real 'bar1.w'(unit = "rad/s", start = 3.0, fixed = true) "angular velocity";
  Real 'bar1.z'(unit = "rad/s2") "angular acceleration";
  Real 'bar1.x'(unit = "m") "place of the centre";
  Real 'bar1.y'(unit = "m") "height of the centre";
  Real 'bar1.vx'(unit = "m/s") "velocity of the centre";
  Real 'bar1.vy'(unit = "m/s") "velocity of the centre";
  Real 'bar1.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'bar1.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'bar1.frame_a.x'(unit = "m") "place of the first end";
  Real 'bar1.frame_a.y'(unit = "m") "height of the first end";
  Real 'bar1.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'bar1.frame_a.fx'(unit = "N") "force on the first end";
  Real 'bar1.frame_a.fy'(unit = "N") "force on the first end";
  Real 'bar1.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'bar1.frame_b.x'(unit = "m") "place of the second end";
  Real 'bar1.frame_b.y'(unit = "m") "height of the second end";
  Real 'bar1.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'bar1.frame_b.fx'(unit = "N") "force on the second end";
  Real 'bar1.frame_b.fy'(unit = "N") "force on the second end";
  Real 'bar1.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'bar2.phi'(unit = "rad", start = 0.0, fixed = true) "angle to the x-axis";
  Real 'bar2.w'(unit = "rad/s", start = 2.0, fixed = true) "angular velocity";
  Real 'bar2.z'(unit = "rad/s2") "angular acceleration";
  Real 'bar2.x'(unit = "m", start = 0.0, fixed = true) "place of the centre";
  Real 'bar2.y'(unit = "m", start = 0.0, fixed = true) "height of the centre";
  Real 'bar2.vx'(unit = "m/s", start = 1.0, fixed = true) "velocity of the centre";
  Real 'bar2.vy'(unit = "m/s", start = 4.0, fixed = true) "velocity of the centre";
  Real 'bar2.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'bar2.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'bar2.frame_a.x'(unit = "m") "place of the first end";
  Real 'bar2.frame_a.y'(unit = "m") "height of the first end";
  Real 'bar2.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'bar2.frame_a.fx'(unit = "N") "force on the first end";
  Real 'bar2.frame_a.fy'(unit = "N") "force on the first end";
  Real 'bar2.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'bar2.frame_b.x'(unit = "m") "place of the second end";
  Real 'bar2.frame_b.y'(unit = "m") "height of the second end";
  Real 'bar2.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'bar2.frame_b.fx'(unit = "N") "force on the second end";
  Real 'bar2.frame_b.fy'(unit = "N") "force on the second end";
  Real 'bar2.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'bar3.phi'(unit = "rad", start = -0.7, fixed = true) "angle to the x-axis";
  Real 'bar3.w'(unit = "rad/s", start = 0.0, fixed = true) "angular velocity";
  Real 'bar3.z'(unit = "rad/s2") "angular acceleration";
  Real 'bar3.x'(unit = "m") "place of the centre";
  Real 'bar3.y'(unit = "m") "height of the centre";
  Real 'bar3.vx'(unit = "m/s") "velocity of the centre";
  Real 'bar3.vy'(unit = "m/s") "velocity of the centre";
  Real 'bar3.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'bar3.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'bar3.frame_a.x'(unit = "m") "place of the first end";
  Real 'bar3.frame_a.y'(unit = "m") "height of the first end";
  Real 'bar3.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'bar3.frame_a.fx'(unit = "N") "force on the first end";
  Real 'bar3.frame_a.fy'(unit = "N") "force on the first end";
  Real 'bar3.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'bar3.frame_b.x'(unit = "m") "place of the second end";
  Real 'bar3.frame_b.y'(unit = "m") "height of the second end";
  Real 'bar3.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'bar3.frame_b.fx'(unit = "N") "force on the second end";
  Real 'bar3.frame_b.fy'(unit = "N") "force on the second end";
  Real 'bar3.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'pin1.phi'(unit = "rad") "angle between the two";
  Real 'pin1.w'(unit = "rad/s") "rate of the angle";
  Real 'pin1.t'(unit = "N.m") "torque of spring and friction";
  Real 'pin2.phi'(unit = "rad") "angle between the two";
  Real 'pin2.w'(unit = "rad/s") "rate of the angle";
  Real 'pin2.t'(unit = "N.m") "torque of spring and friction";
equation
  // bar1
  'bar1.w' = der('bar1.phi');
  'bar1.z' = der('bar1.w');
  'bar1.vx' = der('bar1.x');
  'bar1.ax' = der('bar1.vx');
  'bar1.vy' = der('bar1.y');
  'bar1.ay' = der('bar1.vy');
  'bar1.frame_a.phi' = 'bar1.phi';
  'bar1.frame_a.x' = 'bar1.x' - 'bar1.l' / 2 * cos('bar1.phi');
  'bar1.frame_a.y' = 'bar1.y' - 'bar1.l' / 2 * sin('bar1.phi');
  'bar1.frame_b.phi' = 'bar1.phi';
  'bar1.frame_b.x' = 'bar1.x' + 'bar1.l' / 2 * cos('bar1.phi');
  'bar1.frame_b.y' = 'bar1.y' + 'bar1.l' / 2 * sin('bar1.phi');
  'bar1.m' * 'bar1.ax' = 'bar1.frame_a.fx' + 'bar1.frame_b.fx';
  'bar1.m' * 'bar1.ay' = 'bar1.frame_a.fy' + 'bar1.frame_b.fy' - 'bar1.m' * g;
  ('bar1.I' + 'bar1.m' * 'bar1.l' ^ 2 / 4) * 'bar1.z'
    + 'bar1.m' * 'bar1.l' / 2 * ('bar2.ax' * sin('bar1.phi') - ('bar2.ay' + g) * cos('bar1.phi')
      + 'bar2.l' / 2 * ('bar2.z' * cos('bar2.phi' - 'bar1.phi') - 'bar2.w' ^ 2 * sin('bar2.phi' - 'bar1.phi')))
    = 'bar1.frame_a.t' + 'bar1.frame_b.t';
  // bar2
  'bar2.w' = der('bar2.phi');
  'bar2.z' = der('bar2.w');
  'bar2.vx' = der('bar2.x');
  'bar2.ax' = der('bar2.vx');
  'bar2.vy' = der('bar2.y');
  'bar2.ay' = der('bar2.vy');
  'bar2.frame_a.phi' = 'bar2.phi';
  'bar2.frame_a.x' = 'bar2.x' - 'bar2.l' / 2 * cos('bar2.phi');
  'bar2.frame_a.y' = 'bar2.y' - 'bar2.l' / 2 * sin('bar2.phi');
  'bar2.frame_b.phi' = 'bar2.phi';
  'bar2.frame_b.x' = 'bar2.x' + 'bar2.l' / 2 * cos('bar2.phi');
  'bar2.frame_b.y' = 'bar2.y' + 'bar2.l' / 2 * sin('bar2.phi');
  ('bar1.m' + 'bar2.m' + 'bar3.m') * 'bar2.ax'
    = ('bar3.m' - 'bar1.m') * 'bar2.l' / 2 * ('bar2.z' * sin('bar2.phi') + 'bar2.w' ^ 2 * cos('bar2.phi'))
    - 'bar1.m' * 'bar1.l' / 2 * ('bar1.z' * sin('bar1.phi') + 'bar1.w' ^ 2 * cos('bar1.phi'))
    + 'bar3.m' * 'bar3.l' / 2 * ('bar3.z' * sin('bar3.phi') + 'bar3.w' ^ 2 * cos('bar3.phi'));
  ('bar1.m' + 'bar2.m' + 'bar3.m') * ('bar2.ay' + g)
    = ('bar3.m' - 'bar1.m') * 'bar2.l' / 2 * ('bar2.w' ^ 2 * sin('bar2.phi') - 'bar2.z' * cos('bar2.phi'))
    - 'bar1.m' * 'bar1.l' / 2 * ('bar1.w' ^ 2 * sin('bar1.phi') - 'bar1.z' * cos('bar1.phi'))
    + 'bar3.m' * 'bar3.l' / 2 * ('bar3.w' ^ 2 * sin('bar3.phi') - 'bar3.z' * cos('bar3.phi'));
  // the whole, with its pins held
  ('bar1.I' + 'bar1.m' * 'bar1.l' ^ 2 / 4) * 'bar1.z' + ('bar3.I' + 'bar3.m' * 'bar3.l' ^ 2 / 4) * 'bar3.z'
    + ('bar2.I' + ('bar1.m' + 'bar3.m') * 'bar2.l' ^ 2 / 4) * 'bar2.z'
    + 'bar1.m' * 'bar1.l' * 'bar2.l' / 4 * (('bar1.z' + 'bar2.z') * cos('bar2.phi' - 'bar1.phi')
      + ('bar1.w' ^ 2 - 'bar2.w' ^ 2) * sin('bar2.phi' - 'bar1.phi'))
    + 'bar3.m' * 'bar2.l' * 'bar3.l' / 4 * (('bar2.z' + 'bar3.z') * cos('bar3.phi' - 'bar2.phi')
      + ('bar2.w' ^ 2 - 'bar3.w' ^ 2) * sin('bar3.phi' - 'bar2.phi'))
    + 'bar2.ax' / 2 * ('bar1.m' * 'bar1.l' * sin('bar1.phi') + ('bar1.m' - 'bar3.m') * 'bar2.l' * sin('bar2.phi')
      - 'bar3.m' * 'bar3.l' * sin('bar3.phi'))
    - ('bar2.ay' + g) / 2 * ('bar1.m' * 'bar1.l' * cos('bar1.phi')
      + ('bar1.m' - 'bar3.m') * 'bar2.l' * cos('bar2.phi') - 'bar3.m' * 'bar3.l' * cos('bar3.phi'))
    = 'bar1.frame_a.t' + 'bar3.frame_b.t';
  // bar3
  'bar3.w' = der('bar3.phi');
  'bar3.z' = der('bar3.w');
  'bar3.vx' = der('bar3.x');
  'bar3.ax' = der('bar3.vx');
  'bar3.vy' = der('bar3.y');
  'bar3.ay' = der('bar3.vy');
  'bar3.frame_a.phi' = 'bar3.phi';
  'bar3.frame_a.x' = 'bar3.x' - 'bar3.l' / 2 * cos('bar3.phi');
  'bar3.frame_a.y' = 'bar3.y' - 'bar3.l' / 2 * sin('bar3.phi');
  'bar3.frame_b.phi' = 'bar3.phi';
  'bar3.frame_b.x' = 'bar3.x' + 'bar3.l' / 2 * cos('bar3.phi');
  'bar3.frame_b.y' = 'bar3.y' + 'bar3.l' / 2 * sin('bar3.phi');
  'bar3.m' * 'bar3.ax' = 'bar3.frame_a.fx' + 'bar3.frame_b.fx';
  'bar3.m' * 'bar3.ay' = 'bar3.frame_a.fy' + 'bar3.frame_b.fy' - 'bar3.m' * g;
  ('bar3.I' + 'bar3.m' * 'bar3.l' ^ 2 / 4) * 'bar3.z'
    + 'bar3.m' * 'bar3.l' / 2 * (('bar2.ay' + g) * cos('bar3.phi') - 'bar2.ax' * sin('bar3.phi')
      + 'bar2.l' / 2 * ('bar2.z' * cos('bar2.phi' - 'bar3.phi') - 'bar2.w' ^ 2 * sin('bar2.phi' - 'bar3.phi')))
    = 'bar3.frame_a.t' + 'bar3.frame_b.t';
  // free end
  'bar1.frame_a.fx' = 0;
  'bar1.frame_a.fy' = 0;
  'bar1.frame_a.t' = 0;
  // pin1
  'bar2.frame_a.x' = 'bar1.frame_b.x';
  'bar2.frame_a.y' = 'bar1.frame_b.y';
  'bar1.frame_b.fx' + 'bar2.frame_a.fx' = 0;
  'bar1.frame_b.fy' + 'bar2.frame_a.fy' = 0;
  'pin1.phi' = 'bar2.frame_a.phi' - 'bar1.frame_b.phi';
  'pin1.w' = 'bar2.w' - 'bar1.w';
  'pin1.t' = 'pin1.c' * 'pin1.phi' + 'pin1.d' * 'pin1.w';
  'bar1.frame_b.t' = 'pin1.t';
  'bar2.frame_a.t' = -'pin1.t';
  // pin2
  'bar3.frame_a.x' = 'bar2.frame_b.x';
  'bar3.frame_a.y' = 'bar2.frame_b.y';
  'bar2.frame_b.fx' + 'bar3.frame_a.fx' = 0;
  'bar2.frame_b.fy' + 'bar3.frame_a.fy' = 0;
  'pin2.phi' = 'bar3.frame_a.phi' - 'bar2.frame_b.phi';
  'pin2.w' = 'bar3.w' - 'bar2.w';
  'pin2.t' = 'pin2.c' * 'pin2.phi' + 'pin2.d' * 'pin2.w';
  'bar2.frame_b.t' = 'pin2.t';
  'bar3.frame_a.t' = -'pin2.t';
  // free end
  'bar3.frame_b.fx' = 0;
  'bar3.frame_b.fy' = 0;
  'bar3.frame_b.t' = 0;
  annotation(
    experiment(StartTime = 0, StopTime = 1, Interval = 0.01),
    Documentation(info = "<p>Equations of our own in coordinates of joints: forces and torques for the place of the middle bar
      and all angles at once; places and forces of the others follow from them. Parameters of our own.</p>"));
end Triplets;
