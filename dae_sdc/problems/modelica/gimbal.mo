model Gimbal "spinning rotor in two rings, with a weight on its axis"
  parameter Real 'outer.J'(unit = "kg.m2") = 0.02 "moment of inertia of the outer ring about its axis, z";
  parameter Real 'inner.J1'(unit = "kg.m2") = 0.008 "moment of inertia of the inner ring about its bearings";
  parameter Real 'inner.J2'(unit = "kg.m2") = 0.007 "moment of inertia of the inner ring";
  parameter Real 'inner.J3'(unit = "kg.m2") = 0.012 "moment of inertia of the inner ring about the rotor";
  parameter Real 'rotor.J1'(unit = "kg.m2") = 0.006 "moment of inertia of the rotor across its axis";
  parameter Real 'rotor.J3'(unit = "kg.m2") = 0.01 "moment of inertia of the rotor about its axis";
  parameter Real 'weight.T'(unit = "N.m") = 0.3 "weight times its distance from the centre";
  parameter Real 'bearing1.d'(unit = "N.m.s/rad") = 0.002 "friction of the outer ring";
  parameter Real 'bearing2.d'(unit = "N.m.s/rad") = 0.001 "friction of the inner ring";
  parameter Real 'bearing3.d'(unit = "N.m.s/rad") = 0.0005 "friction of the rotor";
  Real 'ground.phi'(unit = "rad") "angle of the ground";
  Real 'bearing1.phi'(unit = "rad", start = 0, fixed = true) "angle of the outer ring";
  Real 'bearing1.w'(unit = "rad/s", start = 0, fixed = true) "rate of the angle";
  Real 'bearing1.t'(unit = "N.m") "torque of the friction on the outer ring";
  Real 'bearing2.phi'(unit = "rad", start = 0.6, fixed = true) "angle of the inner ring";
  Real 'bearing2.w'(unit = "rad/s", start = 0, fixed = true) "rate of the angle";
  Real 'bearing2.t'(unit = "N.m") "torque of the friction on the inner ring";
  Real 'bearing2.t2'(unit = "N.m") "torque on the inner ring across its axis";
  Real 'bearing2.t3'(unit = "N.m") "torque on the inner ring across its axis";
  Real 'bearing3.phi'(unit = "rad", start = 0, fixed = true) "angle of the rotor";
  Real 'bearing3.w'(unit = "rad/s", start = 40, fixed = true) "rate of the angle";
  Real 'bearing3.t'(unit = "N.m") "torque of the friction on the rotor";
  Real 'bearing3.t1'(unit = "N.m") "torque on the rotor across its axis";
  Real 'bearing3.t2'(unit = "N.m") "torque on the rotor across its axis";
  Real 'outer.phi'(unit = "rad") "angle of the outer ring";
  Real 'outer.w'(unit = "rad/s") "angular velocity of the outer ring";
  Real 'outer.z'(unit = "rad/s2") "angular acceleration of the outer ring";
  Real 'outer.frame_b.t'(unit = "N.m") "torque of the inner ring on the outer";
  Real 'inner.w1'(unit = "rad/s") "angular velocity of the inner ring about its bearings";
  Real 'inner.w2'(unit = "rad/s") "angular velocity of the inner ring";
  Real 'inner.w3'(unit = "rad/s") "angular velocity of the inner ring about the rotor's axis";
  Real 'inner.z1'(unit = "rad/s2") "rate of w1";
  Real 'inner.z2'(unit = "rad/s2") "rate of w2";
  Real 'inner.z3'(unit = "rad/s2") "rate of w3";
  Real 'rotor.w1'(unit = "rad/s") "angular velocity of the rotor, along the axes of the inner ring";
  Real 'rotor.w2'(unit = "rad/s") "angular velocity of the rotor";
  Real 'rotor.w3'(unit = "rad/s") "angular velocity of the rotor about its axis";
  Real 'rotor.z1'(unit = "rad/s2") "rate of w1";
  Real 'rotor.z2'(unit = "rad/s2") "rate of w2";
  Real 'rotor.z3'(unit = "rad/s2") "rate of w3";
  Real 'weight.t'(unit = "N.m") "torque of the weight on the inner ring";
equation
  'ground.phi' = 0;
  'bearing1.phi' = 'outer.phi' - 'ground.phi';
  'bearing1.w' = der('bearing1.phi');
  'bearing1.t' = -'bearing1.d' * 'bearing1.w';
  'bearing2.w' = der('bearing2.phi');
  'bearing2.t' = -'bearing2.d' * 'bearing2.w';
  'bearing3.w' = der('bearing3.phi');
  'bearing3.t' = -'bearing3.d' * 'bearing3.w';
  // outer ring
  'outer.w' = der('outer.phi');
  'outer.z' = der('outer.w');
  'outer.J' * 'outer.z' = 'bearing1.t' + 'outer.frame_b.t';
  // outer ring with all that it carries
  ('outer.J' + ('inner.J2' + 'rotor.J1') * sin('bearing2.phi') ^ 2 + 'inner.J3' * cos('bearing2.phi') ^ 2) * 'outer.z'
    + 2 * ('inner.J2' + 'rotor.J1' - 'inner.J3') * 'outer.w' * 'bearing2.w' * sin('bearing2.phi') * cos('bearing2.phi')
    + 'rotor.J3' * (cos('bearing2.phi') * ('outer.z' * cos('bearing2.phi') - 'outer.w' * 'bearing2.w' * sin('bearing2.phi')
        + der('bearing3.w'))
      - 'bearing2.w' * sin('bearing2.phi') * ('outer.w' * cos('bearing2.phi') + 'bearing3.w'))
    = 'bearing1.t';
  // inner ring, with axes along its bearings, across, and along the rotor
  'inner.w1' = 'bearing2.w';
  'inner.w2' = 'outer.w' * sin('bearing2.phi');
  'inner.w3' = 'outer.w' * cos('bearing2.phi');
  'inner.z1' = der('inner.w1');
  'inner.z2' = der('inner.w2');
  'inner.z3' = der('inner.w3');
  'weight.t' = 'weight.T' * sin('bearing2.phi');
  ('inner.J1' + 'rotor.J1') * der('bearing2.w')
    + sin('bearing2.phi') * 'outer.w' * (('inner.J3' - 'inner.J2' - 'rotor.J1') * 'outer.w' * cos('bearing2.phi')
      + 'rotor.J3' * ('outer.w' * cos('bearing2.phi') + 'bearing3.w'))
    - 'weight.T' * sin('bearing2.phi') = 'bearing2.t';
  'inner.J2' * 'inner.z2' + ('inner.J1' - 'inner.J3') * 'inner.w3' * 'inner.w1'
    = 'bearing2.t2' - 'bearing3.t2';
  'inner.J3' * 'inner.z3' + ('inner.J2' - 'inner.J1') * 'inner.w1' * 'inner.w2'
    = 'bearing2.t3' - 'bearing3.t';
  // rotor, with the same axes
  'rotor.w1' = 'inner.w1';
  'rotor.w2' = 'inner.w2';
  'rotor.w3' = 'inner.w3' + 'bearing3.w';
  'rotor.z1' = der('rotor.w1');
  'rotor.z2' = der('rotor.w2');
  'rotor.z3' = der('rotor.w3');
  'rotor.J1' * 'rotor.z1' + 'rotor.J3' * 'inner.w2' * 'rotor.w3' - 'rotor.J1' * 'inner.w3' * 'rotor.w2'
    = 'bearing3.t1';
  'rotor.J1' * 'rotor.z2' + 'rotor.J1' * 'inner.w3' * 'rotor.w1' - 'rotor.J3' * 'inner.w1' * 'rotor.w3'
    = 'bearing3.t2';
  'rotor.J3' * ('outer.z' * cos('bearing2.phi') - 'outer.w' * 'bearing2.w' * sin('bearing2.phi') + der('bearing3.w'))
    = 'bearing3.t';
  annotation(
    experiment(StartTime = 0, StopTime = 2, Interval = 0.02),
    Documentation(info = "<p>Equations of our own in coordinates of joints: torques for the three bearings at once, from
      which the other torques follow. Parameters of our own.</p>"));
end Gimbal;
