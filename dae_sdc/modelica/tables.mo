// Tables of the Modelica Standard Library, whose names have "_" in place of dots: a text that has them so long.
function Modelica_Blocks_Tables_value
  input String name;
  input String file;
  input Real table[:, :];
  input Integer column;
  input Real u;
  input Modelica.Blocks.Types.Smoothness smoothness;
  input Modelica.Blocks.Types.Extrapolation extrapolation;
  output Real y;
  external "builtin" y = value(name, file, table, column, u, smoothness, extrapolation);
end Modelica_Blocks_Tables_value;

function Modelica_Blocks_Tables_valueOfTime
  input String name;
  input String file;
  input Real table[:, :];
  input Integer column;
  input Real u;
  input Modelica.Blocks.Types.Smoothness smoothness;
  input Modelica.Blocks.Types.Extrapolation extrapolation;
  output Real y;
  external "builtin" y = valueOfTime(name, file, table, column, u, smoothness, extrapolation);
end Modelica_Blocks_Tables_valueOfTime;

function Modelica_Blocks_Tables_value2
  input String name;
  input String file;
  input Real table[:, :];
  input Real u2;
  input Real u1;
  input Modelica.Blocks.Types.Smoothness smoothness;
  input Modelica.Blocks.Types.Extrapolation extrapolation;
  output Real y;
  external "builtin" y = value2(name, file, table, u2, u1, smoothness, extrapolation);
end Modelica_Blocks_Tables_value2;

partial block Modelica_Blocks_Tables_Data
  constant Boolean tableOnFile = false;
  constant Real table[:, :] = fill(1e60, 1, 2);
  constant String tableName = "NoName";
  constant String fileName = "NoName";
  constant String delimiter = ",";
  constant Integer nHeaderLines = 0;
  constant Boolean verboseRead = true;
  constant Modelica.Blocks.Types.Smoothness smoothness = Modelica.Blocks.Types.Smoothness.LinearSegments;
  constant Modelica.Blocks.Types.Extrapolation extrapolation = Modelica.Blocks.Types.Extrapolation.LastTwoPoints;
  constant Boolean verboseExtrapolation = false;
end Modelica_Blocks_Tables_Data;

block Modelica_Blocks_Tables_CombiTable1Ds
  extends Modelica_Blocks_Tables_Data;
  constant Integer columns[:] = 2:size(table, 2);
  Modelica.Blocks.Interfaces.RealInput u;
  Modelica.Blocks.Interfaces.RealOutput y[size(columns, 1)];
equation
  assert(size(table, 2) > 1, "a table must have rows of x and y, [x1, y1; x2, y2; ...]");
  for k in 1:size(columns, 1) loop
    y[k] = Modelica_Blocks_Tables_value(tableName, if tableOnFile then fileName else "", table, columns[k], u, smoothness, extrapolation);
  end for;
end Modelica_Blocks_Tables_CombiTable1Ds;

block Modelica_Blocks_Tables_CombiTable1Dv
  extends Modelica_Blocks_Tables_Data;
  constant Integer columns[:] = 2:size(table, 2);
  Modelica.Blocks.Interfaces.RealInput u[size(columns, 1)];
  Modelica.Blocks.Interfaces.RealOutput y[size(columns, 1)];
equation
  assert(size(table, 2) > 1, "a table must have rows of x and y, [x1, y1; x2, y2; ...]");
  for k in 1:size(columns, 1) loop
    y[k] = Modelica_Blocks_Tables_value(tableName, if tableOnFile then fileName else "", table, columns[k], u[k], smoothness, extrapolation);
  end for;
end Modelica_Blocks_Tables_CombiTable1Dv;

block Modelica_Blocks_Tables_CombiTable2Ds
  extends Modelica_Blocks_Tables_Data;
  Modelica.Blocks.Interfaces.RealInput u1;
  Modelica.Blocks.Interfaces.RealInput u2;
  Modelica.Blocks.Interfaces.RealOutput y;
equation
  y = Modelica_Blocks_Tables_value2(tableName, if tableOnFile then fileName else "", table, u2, u1, smoothness, extrapolation);
end Modelica_Blocks_Tables_CombiTable2Ds;

block Modelica_Blocks_Sources_CombiTimeTable
  extends Modelica_Blocks_Tables_Data;
  constant Integer columns[:] = 2:size(table, 2);
  parameter Real timeScale(unit="s") = 1;
  parameter Real offset[:] = {0};
  parameter Real startTime(unit="s") = 0;
  parameter Real shiftTime(unit="s") = startTime;
  parameter Integer timeEvents = 1;
  constant Integer nout = max(size(columns, 1), size(offset, 1));
  Modelica.Blocks.Interfaces.RealOutput y[nout];
equation
  for k in 1:nout loop
    y[k] = (if size(offset, 1) == 1 then offset[1] else offset[k])
      + (if time < startTime then 0 else Modelica_Blocks_Tables_valueOfTime(tableName, if tableOnFile then fileName else "", table,
        if size(columns, 1) == 1 then columns[1] else columns[k], (time - shiftTime)/timeScale, smoothness, extrapolation));
  end for;
end Modelica_Blocks_Sources_CombiTimeTable;

block Modelica_Blocks_Tables_CombiTable1D = Modelica_Blocks_Tables_CombiTable1Dv;
block Modelica_Blocks_Tables_CombiTable2D = Modelica_Blocks_Tables_CombiTable2Ds;
