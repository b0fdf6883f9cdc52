model SliderCrank3D "slider crank in space: the crank turns about the way of the slider"
  parameter Real g(unit = "m/s2") = 9.81 "gravity, against z";
  parameter Real r(unit = "m") = 0.1 "length of the crank";
  parameter Real L(unit = "m") = 0.3 "length of the rod, a thin bar";
  parameter Real 'crank.m'(unit = "kg") = 0.4 "mass of the crank, at its middle";
  parameter Real 'crank.J'(unit = "kg.m2") = 0.004 "moment of inertia of the crank about its axis";
  parameter Real 'rod.m'(unit = "kg") = 0.3 "mass of the rod";
  parameter Real 'slider.m'(unit = "kg") = 0.8 "mass of the slider";
  parameter Real 'slider.d'(unit = "N.s/m") = 0.5 "friction of the slider";
  parameter Real 'guide.height'(unit = "m") = 0.12 "height of the way of the slider above the axis";
  parameter Real 'motor.T'(unit = "N.m") = 0.6 "torque of the motor at rest";
  parameter Real 'motor.k'(unit = "N.m.s/rad") = 0.05 "loss of torque per angular velocity";
  Real 'crank.phi'(unit = "rad", start = 0.3, fixed = true) "angle of the crank";
  Real 'crank.w'(unit = "rad/s", start = 0, fixed = true) "angular velocity of the crank";
  Real 'crank.z'(unit = "rad/s2") "angular acceleration of the crank";
  Real 'motor.phi'(unit = "rad") "angle of the motor";
  Real 'motor.w'(unit = "rad/s") "angular velocity of the motor";
  Real 'motor.t'(unit = "N.m") "torque of the motor";
  Real 'rod.phi1'(unit = "rad", start = -0.3) "angle of the universal joint of crank and rod about z";
  Real 'rod.w1'(unit = "rad/s") "rate of this angle";
  Real 'rod.z1'(unit = "rad/s2") "its second derivative";
  Real 'rod.phi2'(unit = "rad", start = 0.3) "angle of the universal joint from the plane of x and y";
  Real 'rod.w2'(unit = "rad/s") "rate of this angle";
  Real 'rod.z2'(unit = "rad/s2") "its second derivative";
  Real 'slider.s'(unit = "m", start = 0.28) "place of the slider";
  Real 'slider.v'(unit = "m/s") "velocity of the slider";
  Real 'slider.a'(unit = "m/s2") "acceleration of the slider";
  Real 'slider.friction'(unit = "N") "friction of the slider";
  Real 'guide.fy'(unit = "N") "force of the guide on the slider";
  Real 'guide.fz'(unit = "N") "force of the guide on the slider";
  Real 'ball.x'(unit = "m") "ball joint of rod and slider";
  Real 'ball.y'(unit = "m") "ball joint of rod and slider";
  Real 'ball.z'(unit = "m") "ball joint of rod and slider";
  Real 'ball.fx'(unit = "N") "force of the slider on the rod";
  Real 'ball.fy'(unit = "N") "force of the slider on the rod";
  Real 'ball.fz'(unit = "N") "force of the slider on the rod";
equation
  'motor.phi' = 'crank.phi';
  'motor.w' = der('motor.phi');
  'motor.t' = 'motor.T' - 'motor.k' * 'motor.w';
  // joints
  'crank.w' = der('crank.phi');
  'crank.z' = der('crank.w');
  'rod.w1' = der('rod.phi1');
  'rod.z1' = der('rod.w1');
  'rod.w2' = der('rod.phi2');
  'rod.z2' = der('rod.w2');
  'slider.v' = der('slider.s');
  'slider.a' = der('slider.v');
  'slider.friction' = -'slider.d' * 'slider.v';
  'ball.x' = 'slider.s';
  'ball.y' = 0;
  'ball.z' = 'guide.height';
  // the loop, cut at the ball joint
  L * cos('rod.phi1') * cos('rod.phi2') = 'ball.x';
  r * cos('crank.phi') + L * sin('rod.phi1') * cos('rod.phi2') = 'ball.y';
  r * sin('crank.phi') + L * sin('rod.phi2') = 'ball.z';
  // torque of the crank
  ('crank.J' + 'rod.m' * r ^ 2) * 'crank.z' + 'rod.m' * r * L / 2 * (
      cos('crank.phi') * ('rod.z2' * cos('rod.phi2') - 'rod.w2' ^ 2 * sin('rod.phi2'))
      - sin('crank.phi') * ('rod.z1' * cos('rod.phi1') * cos('rod.phi2')
        - 'rod.z2' * sin('rod.phi1') * sin('rod.phi2')
        - ('rod.w1' ^ 2 + 'rod.w2' ^ 2) * sin('rod.phi1') * cos('rod.phi2')
        - 2 * 'rod.w1' * 'rod.w2' * cos('rod.phi1') * sin('rod.phi2')))
    + ('crank.m' / 2 + 'rod.m') * g * r * cos('crank.phi')
    = 'motor.t' + r * (cos('crank.phi') * 'ball.fz' - sin('crank.phi') * 'ball.fy');
  // torques of the universal joint
  'rod.m' * L / 3 * ('rod.z1' * cos('rod.phi2') - 2 * 'rod.w1' * 'rod.w2' * sin('rod.phi2'))
    - 'rod.m' * r / 2 * cos('rod.phi1') * ('crank.z' * sin('crank.phi') + 'crank.w' ^ 2 * cos('crank.phi'))
    = cos('rod.phi1') * 'ball.fy' - sin('rod.phi1') * 'ball.fx';
  'rod.m' * L / 3 * ('rod.z2' + 'rod.w1' ^ 2 * sin('rod.phi2') * cos('rod.phi2'))
    + 'rod.m' * r / 2 * (
      cos('rod.phi2') * ('crank.z' * cos('crank.phi') - 'crank.w' ^ 2 * sin('crank.phi'))
      + sin('rod.phi1') * sin('rod.phi2') * ('crank.z' * sin('crank.phi') + 'crank.w' ^ 2 * cos('crank.phi')))
    + 'rod.m' * g / 2 * cos('rod.phi2')
    = cos('rod.phi2') * 'ball.fz' - sin('rod.phi2') * (cos('rod.phi1') * 'ball.fx' + sin('rod.phi1') * 'ball.fy');
  // forces of the slider
  'slider.m' * 'slider.a' = 'slider.friction' - 'ball.fx';
  'guide.fy' = 'ball.fy';
  'guide.fz' = 'ball.fz' + 'slider.m' * g;
  annotation(
    experiment(StartTime = 0, StopTime = 2, Interval = 0.02),
    Documentation(info = "<p>Equations of our own in coordinates of joints: crank, two angles of a universal joint,
      slider, with the loop cut at a ball joint. Of 24 equations 7 are not trivial, as in N. Mani: Symbolic-numeric
      analysis of DAEs, thesis, University of Western Ontario 2010. Parameters of our own.</p>"));
end SliderCrank3D;
