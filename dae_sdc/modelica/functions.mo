// Functions of the language that are written in it.
function cross
  input Real x[3];
  input Real y[3];
  output Real z[3];
algorithm
  z := {x[2]*y[3] - x[3]*y[2], x[3]*y[1] - x[1]*y[3], x[1]*y[2] - x[2]*y[1]};
end cross;

function transpose
  input Real A[:, :];
  output Real B[size(A, 2), size(A, 1)];
algorithm
  B := {{A[i, j] for i in 1:size(A, 1)} for j in 1:size(A, 2)};
end transpose;

function symmetric
  input Real A[:, :];
  output Real B[size(A, 1), size(A, 1)];
algorithm
  B := {{A[if i < j then i else j, if i < j then j else i] for j in 1:size(A, 1)} for i in 1:size(A, 1)};
end symmetric;

function outerProduct
  input Real x[:];
  input Real y[:];
  output Real A[size(x, 1), size(y, 1)];
algorithm
  A := {{x[i]*y[j] for j in 1:size(y, 1)} for i in 1:size(x, 1)};
end outerProduct;

function diagonal
  input Real x[:];
  output Real A[size(x, 1), size(x, 1)];
algorithm
  A := {{if i == j then x[i] else 0 for j in 1:size(x, 1)} for i in 1:size(x, 1)};
end diagonal;

function skew
  input Real x[3];
  output Real y[3, 3];
algorithm
  y := {{0, -x[3], x[2]}, {x[3], 0, -x[1]}, {-x[2], x[1], 0}};
end skew;

function identity
  input Integer n;
  output Real A[n, n];
algorithm
  A := {{if i == j then 1 else 0 for j in 1:n} for i in 1:n};
end identity;

function linspace
  input Real x1;
  input Real x2;
  input Integer n;
  output Real y[n];
algorithm
  y := {x1 + (x2 - x1)/(n - 1)*(i - 1) for i in 1:n};
end linspace;

function div
  input Real x;
  input Real y;
  output Real quotient "rounded towards zero";
algorithm
  quotient := sign(x/y)*floor(abs(x/y));
end div;

function rem
  input Real x;
  input Real y;
  output Real rest;
algorithm
  rest := x - div(x, y)*y;
end rem;

function semiLinear
  input Real x;
  input Real positiveSlope;
  input Real negativeSlope;
  output Real y;
algorithm
  y := if x >= 0 then positiveSlope*x else negativeSlope*x;
end semiLinear;

package SI = Modelica.Units.SI;

package SIunits = Modelica.Units.SI;

function ndims
  input Real A "an array of any number of dimensions";
  output Integer n;
algorithm
  n := size(size(A), 1);
end ndims;
