model EqualBarSliderCrank "slider crank of equal bars, singular where it is stretched upright"
  parameter Real l1(unit = "m") = 1 "length of the crank";
  parameter Real l2(unit = "m") = 1 "length of the rod";
  parameter Real J1(unit = "kg.m2") = 3.25 "moment of inertia of the crank, with the mass of the rod";
  parameter Real J2(unit = "kg.m2") = 6 "moment of inertia of the rod about the crank pin";
  parameter Real J12(unit = "kg.m2") = 3 "coupling of crank and rod";
  parameter Real T1(unit = "N.m") = 24 "weight of crank and rod times their levers";
  parameter Real T2(unit = "N.m") = 29 "weight of the rod times its lever";
  Real 'crank.phi'(unit = "rad", start = 0.78539816339744831, fixed = true) "angle of the crank";
  Real 'crank.w'(unit = "rad/s", start = 0, fixed = true) "angular velocity of the crank";
  Real 'crank.z'(unit = "rad/s2") "angular acceleration of the crank";
  Real 'rod.phi'(unit = "rad", start = -0.7854) "angle of the rod";
  Real 'rod.w'(unit = "rad/s") "angular velocity of the rod";
  Real 'rod.z'(unit = "rad/s2") "angular acceleration of the rod";
  Real 'slider.s'(unit = "m", start = 1) "place of the slider";
  Real 'slider.v'(unit = "m/s") "velocity of the slider";
  Real 'slider.a'(unit = "m/s2") "acceleration of the slider";
  Real 'slider.frame.x'(unit = "m") "place of the pin of the slider";
  Real 'slider.frame.y'(unit = "m") "height of the pin of the slider";
  Real 'slider.frame.phi'(unit = "rad") "angle of the slider";
  Real 'slider.frame.t'(unit = "N.m") "torque on the slider";
  Real 'guide.f_n'(unit = "N") "force of the guide";
  Real 'guide.frame.f_y'(unit = "N") "force on the guide";
  Real 'guide.frame.f_x'(unit = "N") "force on the guide along it";
  Real 'ground.x'(unit = "m") "place of the bearing";
  Real 'ground.y'(unit = "m") "height of the bearing";
  Real 'ground.phi'(unit = "rad") "angle of the ground";
  Real 'bearing.phi'(unit = "rad") "angle of the bearing of the crank";
  Real 'bearing.w'(unit = "rad/s") "rate of the bearing of the crank";
  Real 'bearing.t'(unit = "N.m") "torque of the bearing of the crank";
  Real 'pin.t'(unit = "N.m") "torque of the pin of crank and rod";
equation
  'ground.x' = 0;
  'ground.y' = 0;
  'ground.phi' = 0;
  'bearing.phi' = 'crank.phi' - 'ground.phi';
  'bearing.w' = der('bearing.phi');
  'bearing.t' = 0;
  'pin.t' = 0;
  'crank.w' = der('crank.phi');
  'crank.z' = der('crank.w');
  'rod.w' = der('rod.phi');
  'rod.z' = der('rod.w');
  'slider.v' = der('slider.s');
  'slider.a' = der('slider.v');
  'slider.frame.x' = 'slider.s';
  'slider.frame.y' = 'ground.y';
  'slider.frame.phi' = 'ground.phi';
  'slider.frame.t' = 0;
  'guide.frame.f_y' = -'guide.f_n';
  'guide.frame.f_x' = 0;
  // the loop
  'ground.y' + l1 * sin('crank.phi') + l2 * sin('rod.phi') = 'slider.frame.y';
  'slider.frame.x' = 'ground.x' + l1 * cos('crank.phi') + l2 * cos('rod.phi');
  // torques
  J1 * 'crank.z'
    + J12 * ('rod.z' * cos('crank.phi') * cos('rod.phi') + 'rod.z' * sin('crank.phi') * sin('rod.phi')
    - 'rod.w' ^ 2 * cos('crank.phi') * sin('rod.phi') + 'rod.w' ^ 2 * sin('crank.phi') * cos('rod.phi'))
    + T1 * cos('crank.phi') = l1 * cos('crank.phi') * 'guide.f_n' + 'bearing.t' - 'pin.t';
  J2 * 'rod.z'
    + J12 * ('crank.z' * cos('crank.phi') * cos('rod.phi') + 'crank.z' * sin('crank.phi') * sin('rod.phi')
    - 'crank.w' ^ 2 * sin('crank.phi') * cos('rod.phi') + 'crank.w' ^ 2 * cos('crank.phi') * sin('rod.phi'))
    + T2 * cos('rod.phi') = l2 * cos('rod.phi') * 'guide.f_n' + 'pin.t' + 'slider.frame.t';
  annotation(
    experiment(StartTime = 0, StopTime = 1, Interval = 0.01),
    Documentation(info = "<p>Four equations and numbers of the slider crank of N. Mani: Symbolic-numeric
      analysis of DAEs, thesis, University of Western Ontario 2010, but a rod as long as the crank,
      with the trivial equations that a modelling tool writes around them: 23 equations, as there.</p>"));
end EqualBarSliderCrank;
