model PendulaTwoLoops "three pendula of bars with two bars between them: two loops"
  parameter Real g(unit = "m/s2") = 9.81 "gravity";
  parameter Real 'support1.place'(unit = "m") = 0.0 "place of the support";
  parameter Real 'support1.height'(unit = "m") = 0.0 "height of the support";
  parameter Real 'support2.place'(unit = "m") = 0.7 "place of the support";
  parameter Real 'support2.height'(unit = "m") = 0.1 "height of the support";
  parameter Real 'support3.place'(unit = "m") = 1.3 "place of the support";
  parameter Real 'support3.height'(unit = "m") = -0.1 "height of the support";
  parameter Real 'pendulum1.m'(unit = "kg") = 1.0 "mass";
  parameter Real 'pendulum1.I'(unit = "kg.m2") = 0.02 "moment of inertia about the centre";
  parameter Real 'pendulum1.l'(unit = "m") = 0.5 "length";
  parameter Real 'pendulum1.M'(unit = "kg") = 'pendulum1.m' / 2 + 'rod1.m' "mass at its second end";
  parameter Real 'pendulum2.m'(unit = "kg") = 1.5 "mass";
  parameter Real 'pendulum2.I'(unit = "kg.m2") = 0.045 "moment of inertia about the centre";
  parameter Real 'pendulum2.l'(unit = "m") = 0.6 "length";
  parameter Real 'pendulum2.M'(unit = "kg") = 'pendulum2.m' / 2 + 'rod2.m' "mass at its second end";
  parameter Real 'pendulum3.m'(unit = "kg") = 0.8 "mass";
  parameter Real 'pendulum3.I'(unit = "kg.m2") = 0.015 "moment of inertia about the centre";
  parameter Real 'pendulum3.l'(unit = "m") = 0.45 "length";
  parameter Real 'pendulum3.M'(unit = "kg") = 'pendulum3.m' / 2 "mass at its second end";
  parameter Real 'rod1.m'(unit = "kg") = 0.6 "mass";
  parameter Real 'rod1.I'(unit = "kg.m2") = 0.022 "moment of inertia about the centre";
  parameter Real 'rod1.l'(unit = "m") = 0.65 "length";
  parameter Real 'rod1.M'(unit = "kg") = 'rod1.m' / 2 "mass at its second end";
  parameter Real 'rod2.m'(unit = "kg") = 0.7 "mass";
  parameter Real 'rod2.I'(unit = "kg.m2") = 0.04 "moment of inertia about the centre";
  parameter Real 'rod2.l'(unit = "m") = 0.8 "length";
  parameter Real 'rod2.M'(unit = "kg") = 'rod2.m' / 2 "mass at its second end";
  parameter Real 'pin2.d'(unit = "N.m.s/rad") = 0.03 "friction";
  Real 'support1.x'(unit = "m") "place";
  Real 'support1.y'(unit = "m") "height";
  Real 'support1.phi'(unit = "rad") "angle";
  Real 'support1.fx'(unit = "N") "force on the support";
  Real 'support1.fy'(unit = "N") "force on the support";
  Real 'support1.t'(unit = "N.m") "torque on the support";
  Real 'support2.x'(unit = "m") "place";
  Real 'support2.y'(unit = "m") "height";
  Real 'support2.phi'(unit = "rad") "angle";
  Real 'support2.fx'(unit = "N") "force on the support";
  Real 'support2.fy'(unit = "N") "force on the support";
  Real 'support2.t'(unit = "N.m") "torque on the support";
  Real 'support3.x'(unit = "m") "place";
  Real 'support3.y'(unit = "m") "height";
  Real 'support3.phi'(unit = "rad") "angle";
  Real 'support3.fx'(unit = "N") "force on the support";
  Real 'support3.fy'(unit = "N") "force on the support";
  Real 'support3.t'(unit = "N.m") "torque on the support";
  Real 'pendulum1.phi'(unit = "rad", start = -1.9, fixed = true) "angle to the x-axis";
  Real 'pendulum1.w'(unit = "rad/s", start = 0.0, fixed = true) "angular velocity";
  Real 'pendulum1.z'(unit = "rad/s2") "angular acceleration";
  Real 'pendulum1.x'(unit = "m") "place of the centre";
  Real 'pendulum1.y'(unit = "m") "height of the centre";
  Real 'pendulum1.vx'(unit = "m/s") "velocity of the centre";
  Real 'pendulum1.vy'(unit = "m/s") "velocity of the centre";
  Real 'pendulum1.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum1.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum1.frame_a.x'(unit = "m") "place of the first end";
  Real 'pendulum1.frame_a.y'(unit = "m") "height of the first end";
  Real 'pendulum1.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'pendulum1.frame_a.fx'(unit = "N") "force on the first end";
  Real 'pendulum1.frame_a.fy'(unit = "N") "force on the first end";
  Real 'pendulum1.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'pendulum1.frame_b.x'(unit = "m") "place of the second end";
  Real 'pendulum1.frame_b.y'(unit = "m") "height of the second end";
  Real 'pendulum1.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'pendulum1.frame_b.fx'(unit = "N") "force on the second end";
  Real 'pendulum1.frame_b.fy'(unit = "N") "force on the second end";
  Real 'pendulum1.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'pendulum2.phi'(unit = "rad", start = -1.931) "angle to the x-axis";
  Real 'pendulum2.w'(unit = "rad/s", start = 0.0) "angular velocity";
  Real 'pendulum2.z'(unit = "rad/s2") "angular acceleration";
  Real 'pendulum2.x'(unit = "m") "place of the centre";
  Real 'pendulum2.y'(unit = "m") "height of the centre";
  Real 'pendulum2.vx'(unit = "m/s") "velocity of the centre";
  Real 'pendulum2.vy'(unit = "m/s") "velocity of the centre";
  Real 'pendulum2.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum2.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum2.frame_a.x'(unit = "m") "place of the first end";
  Real 'pendulum2.frame_a.y'(unit = "m") "height of the first end";
  Real 'pendulum2.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'pendulum2.frame_a.fx'(unit = "N") "force on the first end";
  Real 'pendulum2.frame_a.fy'(unit = "N") "force on the first end";
  Real 'pendulum2.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'pendulum2.frame_b.x'(unit = "m") "place of the second end";
  Real 'pendulum2.frame_b.y'(unit = "m") "height of the second end";
  Real 'pendulum2.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'pendulum2.frame_b.fx'(unit = "N") "force on the second end";
  Real 'pendulum2.frame_b.fy'(unit = "N") "force on the second end";
  Real 'pendulum2.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'pendulum3.phi'(unit = "rad", start = -1.608) "angle to the x-axis";
  Real 'pendulum3.w'(unit = "rad/s", start = 0.0) "angular velocity";
  Real 'pendulum3.z'(unit = "rad/s2") "angular acceleration";
  Real 'pendulum3.x'(unit = "m") "place of the centre";
  Real 'pendulum3.y'(unit = "m") "height of the centre";
  Real 'pendulum3.vx'(unit = "m/s") "velocity of the centre";
  Real 'pendulum3.vy'(unit = "m/s") "velocity of the centre";
  Real 'pendulum3.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum3.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'pendulum3.frame_a.x'(unit = "m") "place of the first end";
  Real 'pendulum3.frame_a.y'(unit = "m") "height of the first end";
  Real 'pendulum3.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'pendulum3.frame_a.fx'(unit = "N") "force on the first end";
  Real 'pendulum3.frame_a.fy'(unit = "N") "force on the first end";
  Real 'pendulum3.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'pendulum3.frame_b.x'(unit = "m") "place of the second end";
  Real 'pendulum3.frame_b.y'(unit = "m") "height of the second end";
  Real 'pendulum3.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'pendulum3.frame_b.fx'(unit = "N") "force on the second end";
  Real 'pendulum3.frame_b.fy'(unit = "N") "force on the second end";
  Real 'pendulum3.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'rod1.phi'(unit = "rad", start = 0.018) "angle to the x-axis";
  Real 'rod1.w'(unit = "rad/s", start = 0.0) "angular velocity";
  Real 'rod1.z'(unit = "rad/s2") "angular acceleration";
  Real 'rod1.x'(unit = "m") "place of the centre";
  Real 'rod1.y'(unit = "m") "height of the centre";
  Real 'rod1.vx'(unit = "m/s") "velocity of the centre";
  Real 'rod1.vy'(unit = "m/s") "velocity of the centre";
  Real 'rod1.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'rod1.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'rod1.frame_a.x'(unit = "m") "place of the first end";
  Real 'rod1.frame_a.y'(unit = "m") "height of the first end";
  Real 'rod1.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'rod1.frame_a.fx'(unit = "N") "force on the first end";
  Real 'rod1.frame_a.fy'(unit = "N") "force on the first end";
  Real 'rod1.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'rod1.frame_b.x'(unit = "m") "place of the second end";
  Real 'rod1.frame_b.y'(unit = "m") "height of the second end";
  Real 'rod1.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'rod1.frame_b.fx'(unit = "N") "force on the second end";
  Real 'rod1.frame_b.fy'(unit = "N") "force on the second end";
  Real 'rod1.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'rod2.phi'(unit = "rad", start = -0.111) "angle to the x-axis";
  Real 'rod2.w'(unit = "rad/s", start = 0.0) "angular velocity";
  Real 'rod2.z'(unit = "rad/s2") "angular acceleration";
  Real 'rod2.x'(unit = "m") "place of the centre";
  Real 'rod2.y'(unit = "m") "height of the centre";
  Real 'rod2.vx'(unit = "m/s") "velocity of the centre";
  Real 'rod2.vy'(unit = "m/s") "velocity of the centre";
  Real 'rod2.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'rod2.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'rod2.frame_a.x'(unit = "m") "place of the first end";
  Real 'rod2.frame_a.y'(unit = "m") "height of the first end";
  Real 'rod2.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'rod2.frame_a.fx'(unit = "N") "force on the first end";
  Real 'rod2.frame_a.fy'(unit = "N") "force on the first end";
  Real 'rod2.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'rod2.frame_b.x'(unit = "m") "place of the second end";
  Real 'rod2.frame_b.y'(unit = "m") "height of the second end";
  Real 'rod2.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'rod2.frame_b.fx'(unit = "N") "force on the second end";
  Real 'rod2.frame_b.fy'(unit = "N") "force on the second end";
  Real 'rod2.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'pin1.phi'(unit = "rad") "angle between the two";
  Real 'pin1.w'(unit = "rad/s") "rate of the angle";
  Real 'pin1.t'(unit = "N.m") "torque of spring and friction";
  Real 'pin2.phi'(unit = "rad") "angle between the two";
  Real 'pin2.w'(unit = "rad/s") "rate of the angle";
  Real 'pin2.t'(unit = "N.m") "torque of spring and friction";
  Real 'pin3.phi'(unit = "rad") "angle between the two";
  Real 'pin3.w'(unit = "rad/s") "rate of the angle";
  Real 'pin3.t'(unit = "N.m") "torque of spring and friction";
  Real 'pin4.phi'(unit = "rad") "angle between the two";
  Real 'pin4.w'(unit = "rad/s") "rate of the angle";
  Real 'pin4.t'(unit = "N.m") "torque of spring and friction";
  Real 'pin6.phi'(unit = "rad") "angle between the two";
  Real 'pin6.w'(unit = "rad/s") "rate of the angle";
  Real 'pin6.t'(unit = "N.m") "torque of spring and friction";
equation
  // support1
  'support1.x' = 'support1.place';
  'support1.y' = 'support1.height';
  'support1.phi' = 0;
  // support2
  'support2.x' = 'support2.place';
  'support2.y' = 'support2.height';
  'support2.phi' = 0;
  // support3
  'support3.x' = 'support3.place';
  'support3.y' = 'support3.height';
  'support3.phi' = 0;
  // pendulum1
  'pendulum1.w' = der('pendulum1.phi');
  'pendulum1.z' = der('pendulum1.w');
  'pendulum1.vx' = der('pendulum1.x');
  'pendulum1.ax' = der('pendulum1.vx');
  'pendulum1.vy' = der('pendulum1.y');
  'pendulum1.ay' = der('pendulum1.vy');
  'pendulum1.frame_a.phi' = 'pendulum1.phi';
  'pendulum1.frame_a.x' = 'pendulum1.x' - 'pendulum1.l' / 2 * cos('pendulum1.phi');
  'pendulum1.frame_a.y' = 'pendulum1.y' - 'pendulum1.l' / 2 * sin('pendulum1.phi');
  'pendulum1.frame_b.phi' = 'pendulum1.phi';
  'pendulum1.frame_b.x' = 'pendulum1.x' + 'pendulum1.l' / 2 * cos('pendulum1.phi');
  'pendulum1.frame_b.y' = 'pendulum1.y' + 'pendulum1.l' / 2 * sin('pendulum1.phi');
  'pendulum1.m' * 'pendulum1.ax' = 'pendulum1.frame_a.fx' + 'pendulum1.frame_b.fx';
  'pendulum1.m' * 'pendulum1.ay' = 'pendulum1.frame_a.fy' + 'pendulum1.frame_b.fy' - 'pendulum1.m' * g;
  ('pendulum1.I' + 'pendulum1.l' ^ 2 * ('pendulum1.M' - 'pendulum1.m' / 4)) * 'pendulum1.z'
    + 'pendulum1.l' * ('pendulum1.M' * g * cos('pendulum1.phi')
      + 'rod1.M' * 'rod1.l' * ('rod1.z' * cos('rod1.phi' - 'pendulum1.phi')
        - 'rod1.w' ^ 2 * sin('rod1.phi' - 'pendulum1.phi')))
    = 'pendulum1.frame_a.t' + 'pendulum1.frame_b.t'
    + 'pendulum1.l' * (cos('pendulum1.phi') * 'rod1.frame_b.fy'
      - sin('pendulum1.phi') * 'rod1.frame_b.fx');
  // pendulum2
  'pendulum2.w' = der('pendulum2.phi');
  'pendulum2.z' = der('pendulum2.w');
  'pendulum2.vx' = der('pendulum2.x');
  'pendulum2.ax' = der('pendulum2.vx');
  'pendulum2.vy' = der('pendulum2.y');
  'pendulum2.ay' = der('pendulum2.vy');
  'pendulum2.frame_a.phi' = 'pendulum2.phi';
  'pendulum2.frame_a.x' = 'pendulum2.x' - 'pendulum2.l' / 2 * cos('pendulum2.phi');
  'pendulum2.frame_a.y' = 'pendulum2.y' - 'pendulum2.l' / 2 * sin('pendulum2.phi');
  'pendulum2.frame_b.phi' = 'pendulum2.phi';
  'pendulum2.frame_b.x' = 'pendulum2.x' + 'pendulum2.l' / 2 * cos('pendulum2.phi');
  'pendulum2.frame_b.y' = 'pendulum2.y' + 'pendulum2.l' / 2 * sin('pendulum2.phi');
  'pendulum2.m' * 'pendulum2.ax' = 'pendulum2.frame_a.fx' + 'pendulum2.frame_b.fx';
  'pendulum2.m' * 'pendulum2.ay' = 'pendulum2.frame_a.fy' + 'pendulum2.frame_b.fy' - 'pendulum2.m' * g;
  ('pendulum2.I' + 'pendulum2.l' ^ 2 * ('pendulum2.M' - 'pendulum2.m' / 4)) * 'pendulum2.z'
    + 'pendulum2.l' * ('pendulum2.M' * g * cos('pendulum2.phi')
      + 'rod2.M' * 'rod2.l' * ('rod2.z' * cos('rod2.phi' - 'pendulum2.phi')
        - 'rod2.w' ^ 2 * sin('rod2.phi' - 'pendulum2.phi')))
    = 'pendulum2.frame_a.t' + 'pendulum2.frame_b.t'
    + 'pendulum2.l' * (cos('pendulum2.phi') * ('rod2.frame_b.fy' - 'rod1.frame_b.fy')
      - sin('pendulum2.phi') * ('rod2.frame_b.fx' - 'rod1.frame_b.fx'));
  // pendulum3
  'pendulum3.w' = der('pendulum3.phi');
  'pendulum3.z' = der('pendulum3.w');
  'pendulum3.vx' = der('pendulum3.x');
  'pendulum3.ax' = der('pendulum3.vx');
  'pendulum3.vy' = der('pendulum3.y');
  'pendulum3.ay' = der('pendulum3.vy');
  'pendulum3.frame_a.phi' = 'pendulum3.phi';
  'pendulum3.frame_a.x' = 'pendulum3.x' - 'pendulum3.l' / 2 * cos('pendulum3.phi');
  'pendulum3.frame_a.y' = 'pendulum3.y' - 'pendulum3.l' / 2 * sin('pendulum3.phi');
  'pendulum3.frame_b.phi' = 'pendulum3.phi';
  'pendulum3.frame_b.x' = 'pendulum3.x' + 'pendulum3.l' / 2 * cos('pendulum3.phi');
  'pendulum3.frame_b.y' = 'pendulum3.y' + 'pendulum3.l' / 2 * sin('pendulum3.phi');
  'pendulum3.m' * 'pendulum3.ax' = 'pendulum3.frame_a.fx' + 'pendulum3.frame_b.fx';
  'pendulum3.m' * 'pendulum3.ay' = 'pendulum3.frame_a.fy' + 'pendulum3.frame_b.fy' - 'pendulum3.m' * g;
  ('pendulum3.I' + 'pendulum3.l' ^ 2 * ('pendulum3.M' - 'pendulum3.m' / 4)) * 'pendulum3.z'
    + 'pendulum3.l' * ('pendulum3.M' * g * cos('pendulum3.phi'))
    = 'pendulum3.frame_a.t' + 'pendulum3.frame_b.t'
    + 'pendulum3.l' * (cos('pendulum3.phi') * 'pendulum3.frame_b.fy'
      - sin('pendulum3.phi') * 'pendulum3.frame_b.fx');
  // rod1
  'rod1.w' = der('rod1.phi');
  'rod1.z' = der('rod1.w');
  'rod1.vx' = der('rod1.x');
  'rod1.ax' = der('rod1.vx');
  'rod1.vy' = der('rod1.y');
  'rod1.ay' = der('rod1.vy');
  'rod1.frame_a.phi' = 'rod1.phi';
  'rod1.frame_a.x' = 'rod1.x' - 'rod1.l' / 2 * cos('rod1.phi');
  'rod1.frame_a.y' = 'rod1.y' - 'rod1.l' / 2 * sin('rod1.phi');
  'rod1.frame_b.phi' = 'rod1.phi';
  'rod1.frame_b.x' = 'rod1.x' + 'rod1.l' / 2 * cos('rod1.phi');
  'rod1.frame_b.y' = 'rod1.y' + 'rod1.l' / 2 * sin('rod1.phi');
  'rod1.m' * 'rod1.ax' = 'rod1.frame_a.fx' + 'rod1.frame_b.fx';
  'rod1.m' * 'rod1.ay' = 'rod1.frame_a.fy' + 'rod1.frame_b.fy' - 'rod1.m' * g;
  ('rod1.I' + 'rod1.l' ^ 2 * ('rod1.M' - 'rod1.m' / 4)) * 'rod1.z'
    + 'rod1.l' * ('rod1.M' * g * cos('rod1.phi')
      + 'rod1.M' * 'pendulum1.l' * ('pendulum1.z' * cos('pendulum1.phi' - 'rod1.phi')
        - 'pendulum1.w' ^ 2 * sin('pendulum1.phi' - 'rod1.phi')))
    = 'rod1.frame_a.t' + 'rod1.frame_b.t'
    + 'rod1.l' * (cos('rod1.phi') * 'rod1.frame_b.fy'
      - sin('rod1.phi') * 'rod1.frame_b.fx');
  // rod2
  'rod2.w' = der('rod2.phi');
  'rod2.z' = der('rod2.w');
  'rod2.vx' = der('rod2.x');
  'rod2.ax' = der('rod2.vx');
  'rod2.vy' = der('rod2.y');
  'rod2.ay' = der('rod2.vy');
  'rod2.frame_a.phi' = 'rod2.phi';
  'rod2.frame_a.x' = 'rod2.x' - 'rod2.l' / 2 * cos('rod2.phi');
  'rod2.frame_a.y' = 'rod2.y' - 'rod2.l' / 2 * sin('rod2.phi');
  'rod2.frame_b.phi' = 'rod2.phi';
  'rod2.frame_b.x' = 'rod2.x' + 'rod2.l' / 2 * cos('rod2.phi');
  'rod2.frame_b.y' = 'rod2.y' + 'rod2.l' / 2 * sin('rod2.phi');
  'rod2.m' * 'rod2.ax' = 'rod2.frame_a.fx' + 'rod2.frame_b.fx';
  'rod2.m' * 'rod2.ay' = 'rod2.frame_a.fy' + 'rod2.frame_b.fy' - 'rod2.m' * g;
  ('rod2.I' + 'rod2.l' ^ 2 * ('rod2.M' - 'rod2.m' / 4)) * 'rod2.z'
    + 'rod2.l' * ('rod2.M' * g * cos('rod2.phi')
      + 'rod2.M' * 'pendulum2.l' * ('pendulum2.z' * cos('pendulum2.phi' - 'rod2.phi')
        - 'pendulum2.w' ^ 2 * sin('pendulum2.phi' - 'rod2.phi')))
    = 'rod2.frame_a.t' + 'rod2.frame_b.t'
    + 'rod2.l' * (cos('rod2.phi') * 'rod2.frame_b.fy'
      - sin('rod2.phi') * 'rod2.frame_b.fx');
  // pin1
  'pendulum1.frame_a.x' = 'support1.x';
  'pendulum1.frame_a.y' = 'support1.y';
  'support1.fx' + 'pendulum1.frame_a.fx' = 0;
  'support1.fy' + 'pendulum1.frame_a.fy' = 0;
  'pin1.phi' = 'pendulum1.frame_a.phi' - 'support1.phi';
  'pin1.w' = der('pin1.phi');
  'pin1.t' = 0;
  'support1.t' = 'pin1.t';
  'pendulum1.frame_a.t' = -'pin1.t';
  // pin2
  'pendulum2.frame_a.x' = 'support2.x';
  'pendulum2.frame_a.y' = 'support2.y';
  'support2.fx' + 'pendulum2.frame_a.fx' = 0;
  'support2.fy' + 'pendulum2.frame_a.fy' = 0;
  'pin2.phi' = 'pendulum2.frame_a.phi' - 'support2.phi';
  'pin2.w' = der('pin2.phi');
  'pin2.t' = 'pin2.d' * 'pin2.w';
  'support2.t' = 'pin2.t';
  'pendulum2.frame_a.t' = -'pin2.t';
  // pin3
  'pendulum3.frame_a.x' = 'support3.x';
  'pendulum3.frame_a.y' = 'support3.y';
  'support3.fx' + 'pendulum3.frame_a.fx' = 0;
  'support3.fy' + 'pendulum3.frame_a.fy' = 0;
  'pin3.phi' = 'pendulum3.frame_a.phi' - 'support3.phi';
  'pin3.w' = der('pin3.phi');
  'pin3.t' = 0;
  'support3.t' = 'pin3.t';
  'pendulum3.frame_a.t' = -'pin3.t';
  // pin4
  'rod1.frame_a.x' = 'pendulum1.frame_b.x';
  'rod1.frame_a.y' = 'pendulum1.frame_b.y';
  'pendulum1.frame_b.fx' + 'rod1.frame_a.fx' = 0;
  'pendulum1.frame_b.fy' + 'rod1.frame_a.fy' = 0;
  'pin4.phi' = 'rod1.frame_a.phi' - 'pendulum1.frame_b.phi';
  'pin4.w' = der('pin4.phi');
  'pin4.t' = 0;
  'pendulum1.frame_b.t' = 'pin4.t';
  'rod1.frame_a.t' = -'pin4.t';
  // pin5
  'support1.x' + 'pendulum1.l' * cos('pendulum1.phi') + 'rod1.l' * cos('rod1.phi')
    = 'support2.x' + 'pendulum2.l' * cos('pendulum2.phi');
  'support1.y' + 'pendulum1.l' * sin('pendulum1.phi') + 'rod1.l' * sin('rod1.phi')
    = 'support2.y' + 'pendulum2.l' * sin('pendulum2.phi');
  'rod2.frame_a.x' = 'pendulum2.frame_b.x';
  'rod2.frame_a.y' = 'pendulum2.frame_b.y';
  'pendulum2.frame_b.fx' + 'rod1.frame_b.fx' + 'rod2.frame_a.fx' = 0;
  'pendulum2.frame_b.fy' + 'rod1.frame_b.fy' + 'rod2.frame_a.fy' = 0;
  'pendulum2.frame_b.t' = 0;
  'rod1.frame_b.t' = 0;
  'rod2.frame_a.t' = 0;
  // pin6
  'support2.x' + 'pendulum2.l' * cos('pendulum2.phi') + 'rod2.l' * cos('rod2.phi')
    = 'support3.x' + 'pendulum3.l' * cos('pendulum3.phi');
  'support2.y' + 'pendulum2.l' * sin('pendulum2.phi') + 'rod2.l' * sin('rod2.phi')
    = 'support3.y' + 'pendulum3.l' * sin('pendulum3.phi');
  'pendulum3.frame_b.fx' + 'rod2.frame_b.fx' = 0;
  'pendulum3.frame_b.fy' + 'rod2.frame_b.fy' = 0;
  'pin6.phi' = 'rod2.frame_b.phi' - 'pendulum3.frame_b.phi';
  'pin6.w' = der('pin6.phi');
  'pin6.t' = 0;
  'pendulum3.frame_b.t' = 'pin6.t';
  'rod2.frame_b.t' = -'pin6.t';
  annotation(
    experiment(StartTime = 0, StopTime = 2, Interval = 0.02),
    Documentation(info = "<p>Equations of our own in coordinates of joints: torques for all angles at once and forces where loops are
      cut; places and other forces follow from them. Parameters of our own.</p>"));
end PendulaTwoLoops;
