"""Models whose expressions, names and starts nobody means, and damaged texts of Modelica."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp

import dae_sdc as ds
from benchmarks.studies.faults.cases import VALUES, Case, Random, called, choice, kind

NAMES = (
    *("", " ", "a b", "a\nb", "x y", "\udcff", "x" * 5000, "\\", "x'", 'x"'),
    *"a/b .. t time der der(x) 1 nan lambda import \u03bb self __class__ x[1] x.y $ %s {0} # None u".split(),
)

T = sp.Symbol("t")
F = sp.Function("f")


def _nested(x: Any, depth: int) -> Any:
    for _ in range(depth):
        x = sp.sin(x, evaluate=False)
    return x


EXPRESSIONS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "power 10**6": lambda m, x, y: x**1_000_000,
    "power 10**30": lambda m, x, y: x ** (10**30),
    "power of powers": lambda m, x, y: x ** (y ** (x**y)),
    "root": lambda m, x, y: (x - 5) ** sp.Rational(1, 3),
    "number of 400 digits": lambda m, x, y: x + 10**400,
    "deep": lambda m, x, y: _nested(x, 200),
    "very deep": lambda m, x, y: _nested(x, 400),
    "long": lambda m, x, y: sum(sp.sin(k * x) for k in range(200)),
    "zoo": lambda m, x, y: x + sp.zoo,
    "nan": lambda m, x, y: sp.nan,
    "oo": lambda m, x, y: x * sp.oo,
    "number nan": lambda m, x, y: float("nan"),
    "I": lambda m, x, y: x * sp.I,
    "None": lambda m, x, y: None,
    "text": lambda m, x, y: "x + y",
    "text of lines": lambda m, x, y: "x +\ny",
    "list": lambda m, x, y: [x, y],
    "matrix": lambda m, x, y: sp.Matrix([x, y]),
    "matrix symbol": lambda m, x, y: sp.MatrixSymbol("A", 2, 2),
    "relation": lambda m, x, y: x < y,
    "true": lambda m, x, y: sp.true,
    "Eq of a constant": lambda m, x, y: sp.Eq(1, 2),
    "0": lambda m, x, y: 0,
    "1": lambda m, x, y: 1,
    "unknown function": lambda m, x, y: F(x),
    "function without call": lambda m, x, y: sp.sin,
    "other symbol": lambda m, x, y: x + sp.Symbol("nobody"),
    "symbol of that name": lambda m, x, y: x - sp.Symbol("x"),
    "other model": lambda m, x, y: x + ds.Model("other").variable("x"),
    "piecewise with a gap": lambda m, x, y: sp.Piecewise((x, x > 5)),
    "piecewise": lambda m, x, y: sp.Piecewise((x, sp.Eq(x, 1)), (y, True)),
    "integral": lambda m, x, y: sp.Integral(sp.exp(-(T**2)), (T, 0, x)),
    "sum": lambda m, x, y: sp.Sum(T, (T, 0, 5)) + x,
    "derivative": lambda m, x, y: sp.Derivative(x, T),
    "derivative of f": lambda m, x, y: F(T).diff(T) + x,
    "gamma": lambda m, x, y: sp.gamma(x) + sp.zeta(y),
    "Heaviside": lambda m, x, y: sp.Heaviside(x) + sp.DiracDelta(y),
    "abs of log": lambda m, x, y: sp.Abs(sp.log(x - 3)),
    "division by zero": lambda m, x, y: y / (x - x + sp.Symbol("x") * 0 + 1e-320),
    "pole": lambda m, x, y: 1 / (x - 1),
    "der 5": lambda m, x, y: m.der(x, 5) - y,
    "der 10**6": lambda m, x, y: m.der(x, 10**6),
    "der -1": lambda m, x, y: m.der(x, -1),
    "der 0.5": lambda m, x, y: m.der(x, 0.5),
    "der of a constant": lambda m, x, y: m.der(3),
    "der of der": lambda m, x, y: m.der(m.der(x) * y),
    "der of None": lambda m, x, y: m.der(None),
    "twice": lambda m, x, y: m.der(x) + x,
    "huge": lambda m, x, y: x * 1e308 * 10,
    "tiny": lambda m, x, y: x * 5e-324,
    "overflow": lambda m, x, y: sp.exp(sp.exp(sp.exp(x + 10))),
}

ACTIONS: Mapping[str, Callable[[Any], Any]] = {
    "structure": ds.structure,
    "repair": ds.repair,
    "reduce": ds.reduce,
    "reduce to stages": lambda m: ds.reduce(m, method="stages"),
    "simplify": ds.simplify,
    "initial": ds.initial,
    "problem": lambda m: m.problem(),
    "latex": lambda m: m.latex(),
    "solve": lambda m: ds.solve(m, dt=0.1, t_end=0.2, sweeper="radau-iia-5"),
    "solve to a tolerance": lambda m: ds.solve(m, rtol=1e-3, t_end=0.1, time_limit=10.0),
    "solve reduced": lambda m: ds.solve(m, rtol=1e-3, t_end=0.1, reduce=True, time_limit=10.0),
}


def _built(name: str, start: Any, parameter: Any, expression: str, place: int) -> Any:
    m = ds.Model("m" if name == "x" else name)
    x, y, k = m.variable(name, start=start), m.variable("y_", start=1.0), m.parameter("k", parameter)
    equations = [m.der(x) + k * x, y - x]
    if expression:
        term = EXPRESSIONS[expression](m, x, y)
        if place < 2:
            alone = not isinstance(term, sp.Expr) or term.is_Matrix  # nothing can be added to it
            equations[place] = term if alone else equations[place] + term
        elif place == 2:
            equations.append(term)
        else:
            equations = [term]
    m.equations(*equations)
    return m


SOURCES = (
    "model M parameter Real k=1; Real x(start=1), y; equation der(x)=-k*x; y=2*x; end M;",
    "model P parameter Real L=1, g=9.81; Real x(start=0.6,fixed=true), y(start=-0.8), vx, vy, F; equation"
    " der(x)=vx; der(y)=vy; der(vx)=F*x; der(vy)=F*y-g; x^2+y^2=L^2; end P;",
    "model A parameter Integer n=3; Real x[n](each start=1); equation for i in 1:n loop der(x[i])=-i*x[i];"
    " end for; end A;",
    "model S Real x(start=0), y; equation der(x)=if x<1 then 1 else -0.5; y=sin(time)*max(x,0); end S;",
    "function f input Real a; output Real b; algorithm b:=a^2; end f; model Q Real x(start=1); equation"
    " der(x)=-f(x); end Q;",
    "connector C Real v; flow Real i; end C; model R C p, n; parameter Real R=1; equation p.v-n.v=R*p.i;"
    " p.i+n.i=0; end R; model G C p; equation p.v=0; end G; model V C p,n; equation p.v-n.v=1; p.i+n.i=0; end"
    " V; model K R r; G g; V v; equation connect(r.p,v.p); connect(r.n,g.p); connect(v.n,g.p); end K;",
)

TOKENS = """
model end equation der ( ) [ ] { } ; , = := + - * / ^ .^ <> < >= : . ' " // /* */ if then else elseif for
loop when connect parameter constant Real Integer Boolean String extends import function algorithm time x y n
1 0 -1 1e400 1e-400 99999999999999999999 \u00e9 \0 \ufeff true false and or not each fill zeros
sum max sin sqrt log pre reinit assert annotation within package record outer inner redeclare
final 3.4.5 0/0 x.y.z x[0] x[1:3]
""".split()


def _damaged(rng: Random, text: str) -> str:
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.35:
            at = int(rng.integers(len(text) or 1))
            before, behind, token = text[:at], text[at:], choice(rng, TOKENS)
            text = choice(rng, [before + behind[1:], before + token[0] + behind, before])
            continue
        parts = re.findall(r"\s+|\w+|.", text) or [" "]
        at, other = int(rng.integers(len(parts))), int(rng.integers(len(parts)))
        way = int(rng.integers(4))
        if way == 0:
            parts[at] = choice(rng, TOKENS)
        elif way == 1:
            parts[at : at + 1] = []
        elif way == 2:
            parts[at], parts[other] = parts[other], parts[at]
        else:
            parts[at:at] = parts[min(at, other) : max(at, other)]
        text = "".join(parts)
    return text


@kind("model", 15.0)
def model(rng: Random) -> Case:
    """A model with one or two mistakes, or a text of Modelica with up to three."""
    action = choice(rng, ACTIONS)
    act = ACTIONS[action]
    if rng.random() < 0.5:
        text = _damaged(rng, choice(rng, SOURCES))
        return Case(f"{action} of {text!r}", lambda: called(lambda: act(ds.read_modelica_text(text))))
    what = rng.random()
    name = choice(rng, NAMES) if what < 0.25 else "x"
    start = choice(rng, VALUES) if 0.25 <= what < 0.4 else ""
    parameter = choice(rng, VALUES) if 0.4 <= what < 0.5 else ""
    expression = choice(rng, EXPRESSIONS) if what >= 0.5 or rng.random() < 0.2 else ""
    place = int(rng.integers(4))
    first, second = (VALUES[value]() if value else 1.0 for value in (start, parameter))
    meant = start not in ("nan", "text", "object", "complex", "nan of SymPy")
    nonsense = "" if meant else "a start that is not a number"
    mistakes = f"name {name!r}, start {start}, parameter {parameter}, {expression} at {place}"

    def call() -> Any:
        return act(_built(name, first, second, expression, place))

    return Case(f"{action} of a model with {mistakes}", lambda: called(call, nonsense=nonsense))
