model RotatingPendulum "pendulum on a shaft that is turned evenly"
  parameter Real g(unit = "m/s2") = 9.81 "gravity, against z";
  parameter Real l(unit = "m") = 0.5 "length of the pendulum";
  parameter Real m(unit = "kg") = 1.2 "mass of the ball";
  parameter Real 'shaft.J'(unit = "kg.m2") = 0.3 "moment of inertia of the shaft";
  parameter Real 'motor.speed'(unit = "rad/s") = 6 "angular velocity of the motor";
  parameter Real 'hinge.d'(unit = "N.m.s/rad") = 0.05 "friction of the hinge";
  Real 'motor.phi'(unit = "rad") "angle of the motor";
  Real 'motor.w'(unit = "rad/s") "angular velocity of the motor";
  Real 'motor.t'(unit = "N.m") "torque of the motor";
  Real 'shaft.phi'(unit = "rad") "angle of the shaft";
  Real 'shaft.w'(unit = "rad/s") "angular velocity of the shaft";
  Real 'shaft.z'(unit = "rad/s2") "angular acceleration of the shaft";
  Real 'shaft.frame_a.t'(unit = "N.m") "torque of the motor on the shaft";
  Real 'shaft.frame_b.t'(unit = "N.m") "torque of the hinge on the shaft";
  Real 'hinge.phi'(unit = "rad", start = 0.3, fixed = true) "angle from the vertical";
  Real 'hinge.w'(unit = "rad/s", start = 0, fixed = true) "rate of the angle";
  Real 'hinge.t'(unit = "N.m") "torque of the friction";
  Real 'hinge.x'(unit = "m") "place of the hinge";
  Real 'hinge.y'(unit = "m") "place of the hinge";
  Real 'hinge.z'(unit = "m") "height of the hinge";
  Real 'ball.x'(unit = "m") "place of the ball";
  Real 'ball.y'(unit = "m") "place of the ball";
  Real 'ball.z'(unit = "m") "height of the ball";
  Real 'ball.vx'(unit = "m/s") "velocity of the ball";
  Real 'ball.vy'(unit = "m/s") "velocity of the ball";
  Real 'ball.vz'(unit = "m/s") "velocity of the ball";
  Real 'ball.ax'(unit = "m/s2") "acceleration of the ball";
  Real 'ball.ay'(unit = "m/s2") "acceleration of the ball";
  Real 'ball.az'(unit = "m/s2") "acceleration of the ball";
  Real 'ball.fx'(unit = "N") "force of the rod on the ball";
  Real 'ball.fy'(unit = "N") "force of the rod on the ball";
  Real 'ball.fz'(unit = "N") "force of the rod on the ball";
  Real 'rod.f'(unit = "N") "tension of the rod";
  Real 'rod.side'(unit = "N") "force across the rod, along the axis of the hinge";
  Real 'rod.across'(unit = "N") "force across the rod, from the friction";
  Real 'bearing.fx'(unit = "N") "force of the ground on the shaft";
  Real 'bearing.fy'(unit = "N") "force of the ground on the shaft";
  Real 'bearing.fz'(unit = "N") "force of the ground on the shaft";
equation
  'motor.phi' = 'motor.speed' * time;
  'motor.w' = der('motor.phi');
  'motor.phi' = 'shaft.phi';
  'shaft.frame_a.t' = 'motor.t';
  'shaft.w' = der('shaft.phi');
  'shaft.z' = der('shaft.w');
  'shaft.J' * 'shaft.z' = 'shaft.frame_a.t' + 'shaft.frame_b.t';
  'shaft.frame_b.t' = -'rod.side' * l * sin('hinge.phi');
  'hinge.x' = 0;
  'hinge.y' = 0;
  'hinge.z' = 0;
  'hinge.w' = der('hinge.phi');
  'hinge.t' = -'hinge.d' * 'hinge.w';
  'rod.across' * l = 'hinge.t';
  'ball.x' = 'hinge.x' + l * sin('hinge.phi') * cos('shaft.phi');
  'ball.y' = 'hinge.y' + l * sin('hinge.phi') * sin('shaft.phi');
  'ball.z' = 'hinge.z' - l * cos('hinge.phi');
  'ball.vx' = der('ball.x');
  'ball.vy' = der('ball.y');
  'ball.vz' = der('ball.z');
  'ball.ax' = der('ball.vx');
  'ball.ay' = der('ball.vy');
  'ball.az' = der('ball.vz');
  m * 'ball.ax' = 'ball.fx';
  m * 'ball.ay' = 'ball.fy';
  m * 'ball.az' = 'ball.fz' - m * g;
  // torque of the hinge, from which places and forces follow
  m * l ^ 2 * (der('hinge.w') - 'shaft.w' ^ 2 * sin('hinge.phi') * cos('hinge.phi'))
    + m * g * l * sin('hinge.phi') = 'hinge.t';
  'rod.f' = 'ball.fz' * cos('hinge.phi')
    - sin('hinge.phi') * ('ball.fx' * cos('shaft.phi') + 'ball.fy' * sin('shaft.phi'));
  'rod.side' = 'ball.fy' * cos('shaft.phi') - 'ball.fx' * sin('shaft.phi');
  'bearing.fx' = 'ball.fx';
  'bearing.fy' = 'ball.fy';
  'bearing.fz' = 'ball.fz';
  annotation(
    experiment(StartTime = 0, StopTime = 4, Interval = 0.04),
    Documentation(info = "<p>Equations of our own in the coordinate of the hinge. Parameters of our own.</p>"));
end RotatingPendulum;
