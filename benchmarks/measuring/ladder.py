"""A ladder of resistors and capacitors as a text of Modelica, from the text to its solution.

The circuit is that of C. Elrod, Y. Ma: RC circuit, benchmarks of ModelingToolkit, SciMLBenchmarks.jl, in its
form for Modelica: a source of 1 V and 0.05 Hz before n resistors of 1 Ohm and n capacitors of 1 F.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
from scipy.linalg import expm

import dae_sdc as ds

RTOL, END, OMEGA = 1e-6, 10.0, 0.1 * np.pi
CELLS = 60  # Those of the exact solution, to the last of which nothing comes until the end.
COMPONENTS = """package Parts
  connector Pin Real v(unit = "V"); flow Real i(unit = "A"); end Pin;
  partial model Two Real v(unit = "V"); Real i(unit = "A"); Pin p; Pin n;
  equation v = p.v - n.v; 0 = p.i + n.i; i = p.i; end Two;
  model Resistor extends Two; parameter Real R = 1; equation R*i = v; end Resistor;
  model Capacitor extends Two; parameter Real C = 1; equation i = C*der(v); end Capacitor;
  model Source extends Two; parameter Real f = 0.05; equation v = sin(6.283185307179586*f*time); end Source;
  model Ground Pin p; equation p.v = 0; end Ground;
end Parts;
"""


def with_components(n: int) -> str:
    """The circuit as arrays of components and their connections."""
    return f"""{COMPONENTS}model Circuit
  Parts.Source source; Parts.Ground g; Parts.Resistor R[{n}]; Parts.Capacitor C[{n}](each v(fixed = true));
equation
  connect(g.p, source.n); connect(R[1].p, source.p); connect(C[1].p, R[1].n); connect(C[1].n, g.p);
  for i in 2:{n} loop
    connect(R[i].n, C[i].p); connect(R[i].p, R[i - 1].n); connect(C[i].n, g.p);
  end for;
  annotation(experiment(StopTime = {END}));
end Circuit;
"""


def _flat_lines(n: int) -> Iterator[str]:
    own = {"source": "source.v = sin(6.283185307179586*source.f*time)"}
    own |= {f"R[{k}]": f"R[{k}].R*R[{k}].i = R[{k}].v" for k in range(1, n + 1)}
    own |= {f"C[{k}]": f"C[{k}].i = C[{k}].C*der(C[{k}].v)" for k in range(1, n + 1)}
    for part in own:
        for name, unit in (("v", "V"), ("i", "A"), ("p.v", "V"), ("p.i", "A"), ("n.v", "V"), ("n.i", "A")):
            fixed = ", fixed = true" if part[0] == "C" and name == "v" else ""
            yield f'Real {part}.{name}(unit = "{unit}"{fixed});'
        yield f"parameter Real {part}.{part[0].replace('s', 'f')} = {0.05 if part == 'source' else 1};"
    yield "Real g.p.v; Real g.p.i;\nequation\ng.p.v = 0; g.p.v = source.n.v; R[1].p.v = source.p.v;"
    for part, equation in own.items():
        yield f"{part}.v = {part}.p.v - {part}.n.v; 0 = {part}.p.i + {part}.n.i; {part}.i = {part}.p.i;"
        yield f"{equation};"
    yield "R[1].p.i + source.p.i = 0;"
    yield f"g.p.i + source.n.i + {' + '.join(f'C[{k}].n.i' for k in range(1, n + 1))} = 0;"
    for k in range(1, n + 1):
        behind = f" + R[{k + 1}].p.i" if k < n else ""
        yield f"C[{k}].n.v = g.p.v; R[{k}].n.v = C[{k}].p.v; R[{k}].n.i + C[{k}].p.i{behind} = 0;"
        yield f"R[{k + 1}].p.v = R[{k}].n.v;" if k < n else ""


def flat(n: int) -> str:
    """The circuit as a flat text."""
    lines = "\n".join(_flat_lines(n))
    return f"model Circuit\n{lines}\nannotation(experiment(StopTime = {END}));\nend Circuit;\n"


TEXTS = {"own": flat, "rumoca": with_components}


def first_voltage() -> float:
    """The voltage of the first capacitor at the end of a long ladder, by its exponential matrix."""
    matrix = np.diag(np.full(CELLS, -2.0)) + np.diag(np.ones(CELLS - 1), 1) + np.diag(np.ones(CELLS - 1), -1)
    matrix[-1, -1], unit = -1.0, np.eye(CELLS)[0]
    swing = np.linalg.solve(1j * OMEGA * np.eye(CELLS) - matrix, unit)
    return float((np.imag(swing * np.exp(1j * OMEGA * END)) - expm(matrix * END) @ swing.imag)[0])


def measured(reader: str, n: int) -> dict[str, Any]:
    """Seconds of a processor from the text of a ladder to its solution, and the error of this."""
    small, text, front_end = TEXTS[reader](3), TEXTS[reader](n), 0.0
    ds.solve(ds.read_modelica_text(small, reader=reader), rtol=RTOL, simplify=True)
    if reader == "rumoca":
        begin = process_time()
        session = importlib.import_module("rumoca").Session(roots=[])
        [*map(session.loads(text, model="Circuit").to_dict, ("flat", "dae"))]
        front_end = process_time() - begin
    begin = process_time()
    model = ds.read_modelica_text(text, reader=reader)
    read = process_time()
    solution = ds.solve(model, rtol=RTOL, simplify=True)
    end = process_time()
    return {
        **{"unknowns": len(model.names), "read": read - begin, "front_end": front_end, "time": end - begin},
        "memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "error": abs(float(solution.values("C[1].v")[-1]) - first_voltage()),
    }


if __name__ == "__main__":
    print(json.dumps(measured(**json.load(sys.stdin))))
