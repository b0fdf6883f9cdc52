"""How many models of a collection of Modelica texts are read, started and solved; see :func:`modelica`."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring.modelica import STAGES, cases
from benchmarks.measuring.processes import ask, environment
from benchmarks.study import Layout, Option, Table, require_positive, study
from dae_sdc.errors import InputError, RemoteError
from dae_sdc.run.results import Result

MEASURING = ("-W", "ignore", "-m", "benchmarks.measuring.modelica")
TEXT = Layout("stage:<10|models:>7|share:>7.0%")


@study(
    "modelica",
    "model:U96 stage:i8 unknowns:i8 check:U8 distance[1] message:U240",
    example="--corpus dae_sdc/problems/modelica --sample 3",
    options={
        "corpus": Option("directory of the texts, or of the scripts that simulate them", metavar="DIR"),
        "library": Option("directory in which libraries such as Modelica/ lie", metavar="DIR"),
        "sample": Option("so many of the models, drawn by the seed; 0: all"),
        "time_limit": Option("longest time of a stage in seconds", check=require_positive),
    },
    bad=lambda result: any("CRASHED" in message for message in result.data["message"]),
)
def modelica(
    rows: Table,
    *,
    corpus: str = "dae_sdc/problems/modelica",
    library: str | None = None,
    sample: int = 0,
    seed: int = 0,
    time_limit: float = 20.0,
) -> None:
    """Count the models of a collection that are read, analysed, started, solved and right.

    Where the directory has scripts of OpenModelica (.mos) their models are read, with the values that the
    scripts print as what is expected; else the last model of each text, or the examples of a library, and
    values are those of rumoca's own simulation, or of another method where that fails or differs. They are
    solved as files are. Every model has a process of its own; one that dies, or raises no error of dae_sdc,
    has crashed. Right is within 1 %, or 0.1 % of the largest value, at events of that on one of the sides.
    """
    if not Path(corpus).is_dir():
        raise InputError(f"{corpus} is no directory of Modelica texts")
    every = list(cases(Path(corpus)))
    chosen = random.Random(seed).sample(every, sample) if 0 < sample < len(every) else every
    for case in rows.each(chosen, "model"):
        loads = bool(library and case.library)
        asked = {**case._asdict(), "libraries": [library] * loads, "limit": time_limit}
        patience = 4 * time_limit + 30.0 + 60.0 * loads
        try:
            answer = ask(MEASURING, asked, case.name, patience, environment())
        except RemoteError as error:
            answer = {"stage": 0, "message": f"{'CRASHED ' * ('took more than' not in str(error))}{error}"}
        rows.put(model=case.name, **answer)


@modelica.reports
def report(result: Result) -> Iterator[str]:
    data = result.data
    yield TEXT.head()
    for stage, word in enumerate(STAGES):
        number = int((data["stage"] >= stage).sum())
        yield TEXT.line({"stage": word, "models": number, "share": number / max(len(data), 1)})
    for check, number in Counter(data["check"][data["stage"] == len(STAGES) - 1]).items():
        yield f"{number} right, by {check}"
    yield f"{int((data['distance'] > 0.01).sum())} differ from what is expected"
    different = re.compile(r"^\S+:\d+: |'[^']*'|`[^`]*`|[\d.]+")  # From text to text
    reasons = Counter(different.sub("", str(text))[:100] for text in data["message"] if text)
    for reason, number in reasons.most_common(12):
        yield f"{number:>7} {reason}"
