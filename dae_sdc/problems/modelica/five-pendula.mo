model FivePendula "chain of five bars that hang from each other"
  parameter Real g(unit = "m/s2") = 9.81 "gravity";
  parameter Real 'support.place'(unit = "m") = 0.0 "place of the support";
  parameter Real 'support.height'(unit = "m") = 0.0 "height of the support";
  parameter Real 'bar1.m'(unit = "kg") = 1.0 "mass";
  parameter Real 'bar1.I'(unit = "kg.m2") = 0.025 "moment of inertia about the centre";
  parameter Real 'bar1.l'(unit = "m") = 0.5 "length";
  parameter Real 'bar1.M'(unit = "kg") = 'bar1.m' / 2 + 'bar2.m' + 'bar3.m' + 'bar4.m' + 'bar5.m' "mass at its second end";
  parameter Real 'bar2.m'(unit = "kg") = 0.8 "mass";
  parameter Real 'bar2.I'(unit = "kg.m2") = 0.0128 "moment of inertia about the centre";
  parameter Real 'bar2.l'(unit = "m") = 0.4 "length";
  parameter Real 'bar2.M'(unit = "kg") = 'bar2.m' / 2 + 'bar3.m' + 'bar4.m' + 'bar5.m' "mass at its second end";
  parameter Real 'bar3.m'(unit = "kg") = 0.6 "mass";
  parameter Real 'bar3.I'(unit = "kg.m2") = 0.0096 "moment of inertia about the centre";
  parameter Real 'bar3.l'(unit = "m") = 0.4 "length";
  parameter Real 'bar3.M'(unit = "kg") = 'bar3.m' / 2 + 'bar4.m' + 'bar5.m' "mass at its second end";
  parameter Real 'bar4.m'(unit = "kg") = 0.5 "mass";
  parameter Real 'bar4.I'(unit = "kg.m2") = 0.0045 "moment of inertia about the centre";
  parameter Real 'bar4.l'(unit = "m") = 0.3 "length";
  parameter Real 'bar4.M'(unit = "kg") = 'bar4.m' / 2 + 'bar5.m' "mass at its second end";
  parameter Real 'bar5.m'(unit = "kg") = 0.4 "mass";
  parameter Real 'bar5.I'(unit = "kg.m2") = 0.0036 "moment of inertia about the centre";
  parameter Real 'bar5.l'(unit = "m") = 0.3 "length";
  parameter Real 'bar5.M'(unit = "kg") = 'bar5.m' / 2 "mass at its second end";
  Real 'support.x'(unit = "m") "place";
  Real 'support.y'(unit = "m") "height";
  Real 'support.phi'(unit = "rad") "angle";
  Real 'support.fx'(unit = "N") "force on the support";
  Real 'support.fy'(unit = "N") "force on the support";
  Real 'support.t'(unit = "N.m") "torque on the support";
  Real 'bar1.phi'(unit = "rad", start = -1.071, fixed = true) "angle to the x-axis";
  Real 'bar1.w'(unit = "rad/s", start = 0.0, fixed = true) "angular velocity";
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
  Real 'pin1.phi'(unit = "rad") "angle between the two";
  Real 'pin1.w'(unit = "rad/s") "rate of the angle";
  Real 'pin1.t'(unit = "N.m") "torque of spring and friction";
  Real 'bar2.phi'(unit = "rad", start = -1.171, fixed = true) "angle to the x-axis";
  Real 'bar2.w'(unit = "rad/s", start = 0.0, fixed = true) "angular velocity";
  Real 'bar2.z'(unit = "rad/s2") "angular acceleration";
  Real 'bar2.x'(unit = "m") "place of the centre";
  Real 'bar2.y'(unit = "m") "height of the centre";
  Real 'bar2.vx'(unit = "m/s") "velocity of the centre";
  Real 'bar2.vy'(unit = "m/s") "velocity of the centre";
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
  Real 'pin2.phi'(unit = "rad") "angle between the two";
  Real 'pin2.w'(unit = "rad/s") "rate of the angle";
  Real 'pin2.t'(unit = "N.m") "torque of spring and friction";
  Real 'bar3.phi'(unit = "rad", start = -1.371, fixed = true) "angle to the x-axis";
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
  Real 'pin3.phi'(unit = "rad") "angle between the two";
  Real 'pin3.w'(unit = "rad/s") "rate of the angle";
  Real 'pin3.t'(unit = "N.m") "torque of spring and friction";
  Real 'bar4.phi'(unit = "rad", start = -1.671, fixed = true) "angle to the x-axis";
  Real 'bar4.w'(unit = "rad/s", start = 0.0, fixed = true) "angular velocity";
  Real 'bar4.z'(unit = "rad/s2") "angular acceleration";
  Real 'bar4.x'(unit = "m") "place of the centre";
  Real 'bar4.y'(unit = "m") "height of the centre";
  Real 'bar4.vx'(unit = "m/s") "velocity of the centre";
  Real 'bar4.vy'(unit = "m/s") "velocity of the centre";
  Real 'bar4.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'bar4.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'bar4.frame_a.x'(unit = "m") "place of the first end";
  Real 'bar4.frame_a.y'(unit = "m") "height of the first end";
  Real 'bar4.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'bar4.frame_a.fx'(unit = "N") "force on the first end";
  Real 'bar4.frame_a.fy'(unit = "N") "force on the first end";
  Real 'bar4.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'bar4.frame_b.x'(unit = "m") "place of the second end";
  Real 'bar4.frame_b.y'(unit = "m") "height of the second end";
  Real 'bar4.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'bar4.frame_b.fx'(unit = "N") "force on the second end";
  Real 'bar4.frame_b.fy'(unit = "N") "force on the second end";
  Real 'bar4.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'pin4.phi'(unit = "rad") "angle between the two";
  Real 'pin4.w'(unit = "rad/s") "rate of the angle";
  Real 'pin4.t'(unit = "N.m") "torque of spring and friction";
  Real 'bar5.phi'(unit = "rad", start = -1.871, fixed = true) "angle to the x-axis";
  Real 'bar5.w'(unit = "rad/s", start = 0.0, fixed = true) "angular velocity";
  Real 'bar5.z'(unit = "rad/s2") "angular acceleration";
  Real 'bar5.x'(unit = "m") "place of the centre";
  Real 'bar5.y'(unit = "m") "height of the centre";
  Real 'bar5.vx'(unit = "m/s") "velocity of the centre";
  Real 'bar5.vy'(unit = "m/s") "velocity of the centre";
  Real 'bar5.ax'(unit = "m/s2") "acceleration of the centre";
  Real 'bar5.ay'(unit = "m/s2") "acceleration of the centre";
  Real 'bar5.frame_a.x'(unit = "m") "place of the first end";
  Real 'bar5.frame_a.y'(unit = "m") "height of the first end";
  Real 'bar5.frame_a.phi'(unit = "rad") "angle of the first end";
  Real 'bar5.frame_a.fx'(unit = "N") "force on the first end";
  Real 'bar5.frame_a.fy'(unit = "N") "force on the first end";
  Real 'bar5.frame_a.t'(unit = "N.m") "torque on the first end";
  Real 'bar5.frame_b.x'(unit = "m") "place of the second end";
  Real 'bar5.frame_b.y'(unit = "m") "height of the second end";
  Real 'bar5.frame_b.phi'(unit = "rad") "angle of the second end";
  Real 'bar5.frame_b.fx'(unit = "N") "force on the second end";
  Real 'bar5.frame_b.fy'(unit = "N") "force on the second end";
  Real 'bar5.frame_b.t'(unit = "N.m") "torque on the second end";
  Real 'pin5.phi'(unit = "rad") "angle between the two";
  Real 'pin5.w'(unit = "rad/s") "rate of the angle";
  Real 'pin5.t'(unit = "N.m") "torque of spring and friction";
equation
  // support
  'support.x' = 'support.place';
  'support.y' = 'support.height';
  'support.phi' = 0;
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
  ('bar1.I' + 'bar1.l' ^ 2 * ('bar1.M' - 'bar1.m' / 4)) * 'bar1.z'
    + 'bar1.l' * ('bar1.M' * g * cos('bar1.phi')
      + 'bar2.M' * 'bar2.l' * ('bar2.z' * cos('bar2.phi' - 'bar1.phi')
        - 'bar2.w' ^ 2 * sin('bar2.phi' - 'bar1.phi'))
      + 'bar3.M' * 'bar3.l' * ('bar3.z' * cos('bar3.phi' - 'bar1.phi')
        - 'bar3.w' ^ 2 * sin('bar3.phi' - 'bar1.phi'))
      + 'bar4.M' * 'bar4.l' * ('bar4.z' * cos('bar4.phi' - 'bar1.phi')
        - 'bar4.w' ^ 2 * sin('bar4.phi' - 'bar1.phi'))
      + 'bar5.M' * 'bar5.l' * ('bar5.z' * cos('bar5.phi' - 'bar1.phi')
        - 'bar5.w' ^ 2 * sin('bar5.phi' - 'bar1.phi')))
    = 'bar1.frame_a.t' + 'bar1.frame_b.t';
  // pin1
  'bar1.frame_a.x' = 'support.x';
  'bar1.frame_a.y' = 'support.y';
  'support.fx' + 'bar1.frame_a.fx' = 0;
  'support.fy' + 'bar1.frame_a.fy' = 0;
  'pin1.phi' = 'bar1.frame_a.phi' - 'support.phi';
  'pin1.w' = der('pin1.phi');
  'pin1.t' = 0;
  'support.t' = 'pin1.t';
  'bar1.frame_a.t' = -'pin1.t';
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
  'bar2.m' * 'bar2.ax' = 'bar2.frame_a.fx' + 'bar2.frame_b.fx';
  'bar2.m' * 'bar2.ay' = 'bar2.frame_a.fy' + 'bar2.frame_b.fy' - 'bar2.m' * g;
  ('bar2.I' + 'bar2.l' ^ 2 * ('bar2.M' - 'bar2.m' / 4)) * 'bar2.z'
    + 'bar2.l' * ('bar2.M' * g * cos('bar2.phi')
      + 'bar2.M' * 'bar1.l' * ('bar1.z' * cos('bar1.phi' - 'bar2.phi')
        - 'bar1.w' ^ 2 * sin('bar1.phi' - 'bar2.phi'))
      + 'bar3.M' * 'bar3.l' * ('bar3.z' * cos('bar3.phi' - 'bar2.phi')
        - 'bar3.w' ^ 2 * sin('bar3.phi' - 'bar2.phi'))
      + 'bar4.M' * 'bar4.l' * ('bar4.z' * cos('bar4.phi' - 'bar2.phi')
        - 'bar4.w' ^ 2 * sin('bar4.phi' - 'bar2.phi'))
      + 'bar5.M' * 'bar5.l' * ('bar5.z' * cos('bar5.phi' - 'bar2.phi')
        - 'bar5.w' ^ 2 * sin('bar5.phi' - 'bar2.phi')))
    = 'bar2.frame_a.t' + 'bar2.frame_b.t';
  // pin2
  'bar2.frame_a.x' = 'bar1.frame_b.x';
  'bar2.frame_a.y' = 'bar1.frame_b.y';
  'bar1.frame_b.fx' + 'bar2.frame_a.fx' = 0;
  'bar1.frame_b.fy' + 'bar2.frame_a.fy' = 0;
  'pin2.phi' = 'bar2.frame_a.phi' - 'bar1.frame_b.phi';
  'pin2.w' = der('pin2.phi');
  'pin2.t' = 0;
  'bar1.frame_b.t' = 'pin2.t';
  'bar2.frame_a.t' = -'pin2.t';
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
  ('bar3.I' + 'bar3.l' ^ 2 * ('bar3.M' - 'bar3.m' / 4)) * 'bar3.z'
    + 'bar3.l' * ('bar3.M' * g * cos('bar3.phi')
      + 'bar3.M' * 'bar1.l' * ('bar1.z' * cos('bar1.phi' - 'bar3.phi')
        - 'bar1.w' ^ 2 * sin('bar1.phi' - 'bar3.phi'))
      + 'bar3.M' * 'bar2.l' * ('bar2.z' * cos('bar2.phi' - 'bar3.phi')
        - 'bar2.w' ^ 2 * sin('bar2.phi' - 'bar3.phi'))
      + 'bar4.M' * 'bar4.l' * ('bar4.z' * cos('bar4.phi' - 'bar3.phi')
        - 'bar4.w' ^ 2 * sin('bar4.phi' - 'bar3.phi'))
      + 'bar5.M' * 'bar5.l' * ('bar5.z' * cos('bar5.phi' - 'bar3.phi')
        - 'bar5.w' ^ 2 * sin('bar5.phi' - 'bar3.phi')))
    = 'bar3.frame_a.t' + 'bar3.frame_b.t';
  // pin3
  'bar3.frame_a.x' = 'bar2.frame_b.x';
  'bar3.frame_a.y' = 'bar2.frame_b.y';
  'bar2.frame_b.fx' + 'bar3.frame_a.fx' = 0;
  'bar2.frame_b.fy' + 'bar3.frame_a.fy' = 0;
  'pin3.phi' = 'bar3.frame_a.phi' - 'bar2.frame_b.phi';
  'pin3.w' = der('pin3.phi');
  'pin3.t' = 0;
  'bar2.frame_b.t' = 'pin3.t';
  'bar3.frame_a.t' = -'pin3.t';
  // bar4
  'bar4.w' = der('bar4.phi');
  'bar4.z' = der('bar4.w');
  'bar4.vx' = der('bar4.x');
  'bar4.ax' = der('bar4.vx');
  'bar4.vy' = der('bar4.y');
  'bar4.ay' = der('bar4.vy');
  'bar4.frame_a.phi' = 'bar4.phi';
  'bar4.frame_a.x' = 'bar4.x' - 'bar4.l' / 2 * cos('bar4.phi');
  'bar4.frame_a.y' = 'bar4.y' - 'bar4.l' / 2 * sin('bar4.phi');
  'bar4.frame_b.phi' = 'bar4.phi';
  'bar4.frame_b.x' = 'bar4.x' + 'bar4.l' / 2 * cos('bar4.phi');
  'bar4.frame_b.y' = 'bar4.y' + 'bar4.l' / 2 * sin('bar4.phi');
  'bar4.m' * 'bar4.ax' = 'bar4.frame_a.fx' + 'bar4.frame_b.fx';
  'bar4.m' * 'bar4.ay' = 'bar4.frame_a.fy' + 'bar4.frame_b.fy' - 'bar4.m' * g;
  ('bar4.I' + 'bar4.l' ^ 2 * ('bar4.M' - 'bar4.m' / 4)) * 'bar4.z'
    + 'bar4.l' * ('bar4.M' * g * cos('bar4.phi')
      + 'bar4.M' * 'bar1.l' * ('bar1.z' * cos('bar1.phi' - 'bar4.phi')
        - 'bar1.w' ^ 2 * sin('bar1.phi' - 'bar4.phi'))
      + 'bar4.M' * 'bar2.l' * ('bar2.z' * cos('bar2.phi' - 'bar4.phi')
        - 'bar2.w' ^ 2 * sin('bar2.phi' - 'bar4.phi'))
      + 'bar4.M' * 'bar3.l' * ('bar3.z' * cos('bar3.phi' - 'bar4.phi')
        - 'bar3.w' ^ 2 * sin('bar3.phi' - 'bar4.phi'))
      + 'bar5.M' * 'bar5.l' * ('bar5.z' * cos('bar5.phi' - 'bar4.phi')
        - 'bar5.w' ^ 2 * sin('bar5.phi' - 'bar4.phi')))
    = 'bar4.frame_a.t' + 'bar4.frame_b.t';
  // pin4
  'bar4.frame_a.x' = 'bar3.frame_b.x';
  'bar4.frame_a.y' = 'bar3.frame_b.y';
  'bar3.frame_b.fx' + 'bar4.frame_a.fx' = 0;
  'bar3.frame_b.fy' + 'bar4.frame_a.fy' = 0;
  'pin4.phi' = 'bar4.frame_a.phi' - 'bar3.frame_b.phi';
  'pin4.w' = der('pin4.phi');
  'pin4.t' = 0;
  'bar3.frame_b.t' = 'pin4.t';
  'bar4.frame_a.t' = -'pin4.t';
  // bar5
  'bar5.w' = der('bar5.phi');
  'bar5.z' = der('bar5.w');
  'bar5.vx' = der('bar5.x');
  'bar5.ax' = der('bar5.vx');
  'bar5.vy' = der('bar5.y');
  'bar5.ay' = der('bar5.vy');
  'bar5.frame_a.phi' = 'bar5.phi';
  'bar5.frame_a.x' = 'bar5.x' - 'bar5.l' / 2 * cos('bar5.phi');
  'bar5.frame_a.y' = 'bar5.y' - 'bar5.l' / 2 * sin('bar5.phi');
  'bar5.frame_b.phi' = 'bar5.phi';
  'bar5.frame_b.x' = 'bar5.x' + 'bar5.l' / 2 * cos('bar5.phi');
  'bar5.frame_b.y' = 'bar5.y' + 'bar5.l' / 2 * sin('bar5.phi');
  'bar5.m' * 'bar5.ax' = 'bar5.frame_a.fx' + 'bar5.frame_b.fx';
  'bar5.m' * 'bar5.ay' = 'bar5.frame_a.fy' + 'bar5.frame_b.fy' - 'bar5.m' * g;
  ('bar5.I' + 'bar5.l' ^ 2 * ('bar5.M' - 'bar5.m' / 4)) * 'bar5.z'
    + 'bar5.l' * ('bar5.M' * g * cos('bar5.phi')
      + 'bar5.M' * 'bar1.l' * ('bar1.z' * cos('bar1.phi' - 'bar5.phi')
        - 'bar1.w' ^ 2 * sin('bar1.phi' - 'bar5.phi'))
      + 'bar5.M' * 'bar2.l' * ('bar2.z' * cos('bar2.phi' - 'bar5.phi')
        - 'bar2.w' ^ 2 * sin('bar2.phi' - 'bar5.phi'))
      + 'bar5.M' * 'bar3.l' * ('bar3.z' * cos('bar3.phi' - 'bar5.phi')
        - 'bar3.w' ^ 2 * sin('bar3.phi' - 'bar5.phi'))
      + 'bar5.M' * 'bar4.l' * ('bar4.z' * cos('bar4.phi' - 'bar5.phi')
        - 'bar4.w' ^ 2 * sin('bar4.phi' - 'bar5.phi')))
    = 'bar5.frame_a.t' + 'bar5.frame_b.t';
  // pin5
  'bar5.frame_a.x' = 'bar4.frame_b.x';
  'bar5.frame_a.y' = 'bar4.frame_b.y';
  'bar4.frame_b.fx' + 'bar5.frame_a.fx' = 0;
  'bar4.frame_b.fy' + 'bar5.frame_a.fy' = 0;
  'pin5.phi' = 'bar5.frame_a.phi' - 'bar4.frame_b.phi';
  'pin5.w' = der('pin5.phi');
  'pin5.t' = 0;
  'bar4.frame_b.t' = 'pin5.t';
  'bar5.frame_a.t' = -'pin5.t';
  // free end
  'bar5.frame_b.fx' = 0;
  'bar5.frame_b.fy' = 0;
  'bar5.frame_b.t' = 0;
  annotation(
    experiment(StartTime = 0, StopTime = 1, Interval = 0.01),
    Documentation(info = "<p>Equations of our own in coordinates of joints: torques for all angles at once, from
      which places and forces follow. Parameters of our own.</p>"));
end FivePendula;
