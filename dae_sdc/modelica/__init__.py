"""Text of Modelica is read to a model."""
