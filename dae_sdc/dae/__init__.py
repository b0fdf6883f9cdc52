"""What a DAE is to a computer: state, problem, residual, Jacobian, linear and nonlinear solve."""
