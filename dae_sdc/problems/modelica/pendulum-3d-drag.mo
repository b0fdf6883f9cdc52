model Pendulum3DDrag "ball on a rod that swings in space against the drag of the air"
  parameter Real m(unit = "kg") = 0.5 "mass of the ball";
  parameter Real L(unit = "m") = 1.2 "length of the rod";
  parameter Real g(unit = "m/s2") = 9.81 "acceleration of gravity";
  parameter Real rho(unit = "kg/m3") = 1.2 "density of the air";
  parameter Real A(unit = "m2") = 0.02 "cross section of the ball";
  parameter Real c_d = 0.9 "drag coefficient";
  Real 'joint.phi1'(unit = "rad", start = 0.64350110879328437, fixed = true) "angle of the universal joint, about y";
  Real 'joint.w1'(unit = "rad/s", start = 0, fixed = true) "rate of this angle";
  Real 'joint.phi2'(unit = "rad", start = 0, fixed = true) "angle of the universal joint towards y";
  Real 'joint.w2'(unit = "rad/s", start = 1.25, fixed = true) "rate of this angle";
  Real x(unit = "m") "place of the ball";
  Real y(unit = "m") "place of the ball";
  Real z(unit = "m") "place of the ball, upwards";
  Real lambda(unit = "N/m") "force of the rod per length";
  Real v_x(unit = "m/s");
  Real v_y(unit = "m/s");
  Real v_z(unit = "m/s");
  Real a_x(unit = "m/s2");
  Real a_y(unit = "m/s2");
  Real a_z(unit = "m/s2");
  Real 'joint.x'(unit = "m") "place of the bearing";
  Real 'joint.y'(unit = "m") "place of the bearing";
  Real 'joint.z'(unit = "m") "place of the bearing";
  Real 'rod.x'(unit = "m") "from the bearing to the ball";
  Real 'rod.y'(unit = "m") "from the bearing to the ball";
  Real 'rod.z'(unit = "m") "from the bearing to the ball";
  Real 'rod.F_x'(unit = "N") "force on the ball";
  Real 'rod.F_y'(unit = "N") "force on the ball";
  Real 'rod.F_z'(unit = "N") "force on the ball";
  Real 'joint.F_x'(unit = "N") "force on the bearing";
  Real 'joint.F_y'(unit = "N") "force on the bearing";
  Real 'joint.F_z'(unit = "N") "force on the bearing";
  Real speed(unit = "m/s") "speed of the ball";
  Real 'drag.k'(unit = "N.s2/m2") "drag per squared speed";
  Real 'drag.F_x'(unit = "N") "force on the ball";
  Real 'drag.F_y'(unit = "N") "force on the ball";
  Real 'drag.F_z'(unit = "N") "force on the ball";
  Real weight(unit = "N") "weight of the ball";
equation
  'joint.x' = 0;
  'joint.y' = 0;
  'joint.z' = 0;
  'rod.x' = x - 'joint.x';
  'rod.y' = y - 'joint.y';
  'rod.z' = z - 'joint.z';
  'joint.w1' = der('joint.phi1');
  'joint.w2' = der('joint.phi2');
  'rod.x' = L * sin('joint.phi1') * cos('joint.phi2');
  'rod.y' = L * sin('joint.phi2');
  'rod.z' = -L * cos('joint.phi1') * cos('joint.phi2');
  // torques of the joint, from which places and forces follow
  m * L * (der('joint.w1') * cos('joint.phi2') - 2 * 'joint.w1' * 'joint.w2' * sin('joint.phi2'))
    + m * g * sin('joint.phi1') = -'drag.k' * speed * L * 'joint.w1' * cos('joint.phi2');
  m * L * (der('joint.w2') + 'joint.w1' ^ 2 * sin('joint.phi2') * cos('joint.phi2'))
    + m * g * cos('joint.phi1') * sin('joint.phi2') = -'drag.k' * speed * L * 'joint.w2';
  lambda * L ^ 2 = -('rod.F_x' * 'rod.x' + 'rod.F_y' * 'rod.y' + 'rod.F_z' * 'rod.z');
  'joint.F_x' = -'rod.F_x';
  'joint.F_y' = -'rod.F_y';
  'joint.F_z' = -'rod.F_z';
  v_x = der(x);
  v_y = der(y);
  v_z = der(z);
  a_x = der(v_x);
  a_y = der(v_y);
  a_z = der(v_z);
  speed = L * sqrt('joint.w2' ^ 2 + ('joint.w1' * cos('joint.phi2')) ^ 2);
  'drag.k' = c_d * rho * A / 2;
  'drag.F_x' = -'drag.k' * speed * v_x;
  'drag.F_y' = -'drag.k' * speed * v_y;
  'drag.F_z' = -'drag.k' * speed * v_z;
  weight = m * g;
  m * a_x = 'rod.F_x' + 'drag.F_x';
  m * a_y = 'rod.F_y' + 'drag.F_y';
  m * a_z = 'rod.F_z' + 'drag.F_z' - weight;
  annotation(
    experiment(StartTime = 0, StopTime = 8, Interval = 0.02),
    Documentation(info = "Pendulum on a universal joint with quadratic drag, equations in its coordinates and parameters of our own. The ball never hangs at rest in the interval, where its drag has no second derivative."));
end Pendulum3DDrag;
