"""How many models of a collection of Modelica texts are read, started and solved; see :func:`modelica`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring.modelica import STAGES, cases, drawn
from benchmarks.measuring.processes import ask, environment
from benchmarks.study import Layout, Option, Table, require_positive, study
from dae_sdc.errors import InputError, RemoteError
from dae_sdc.run.results import Result

MOST_REASONS = 12  # Most reasons that a report tells
TEXT = Layout("stage:<10|models:>7|share:>7.0%")


@study(
    "modelica",
    "model:U96 reader:U16 stage:i8 unknowns:i8 distance[1] message:U240",
    example="--corpus dae_sdc/problems/modelica --sample 3",
    options={
        "corpus": Option("directory of the texts, or of the scripts that simulate them", metavar="DIR"),
        "library": Option("directory in which libraries such as Modelica/ lie", metavar="DIR"),
        "reader": Option("own or rumoca (the one that reads the text)"),
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
    reader: str | None = None,
    sample: int = 0,
    seed: int = 0,
    time_limit: float = 20.0,
) -> None:
    """Count the models of a collection that are read, analysed, started, solved and right.

    Where the directory has scripts of OpenModelica (.mos) their models are read, with the values that the
    scripts print as what is expected; else the last model of each text, or the examples of a library. Every
    model has a process of its own; one that dies, or raises what is no error of dae_sdc, has crashed. A
    model is right where every value that is expected is met within one per cent.
    """
    folder = Path(corpus)
    if not folder.is_dir():
        raise InputError(f"{corpus} is no directory of Modelica texts")
    for case in rows.each(drawn(list(cases(folder)), sample, seed), "model"):
        libraries = [library] if library and (not case.text or "Modelica." in case.text) else []
        asked = {**case._asdict(), "libraries": libraries, "reader": reader, "limit": time_limit}
        patience = 3 * time_limit + 30.0 + 60.0 * bool(libraries)
        try:
            answer = ask(("-m", "benchmarks.measuring.modelica"), asked, case.name, patience, environment())
        except RemoteError as error:
            slow = "took more than" in str(error)
            answer = {"stage": 0, "unknowns": 0, "message": ("" if slow else "CRASHED ") + str(error)}
        rows.put(model=case.name, reader=reader or "", **answer)


@modelica.reports
def report(result: Result) -> Iterator[str]:
    data = result.data
    yield TEXT.head()
    for stage, word in enumerate(STAGES):
        number = int((data["stage"] >= stage).sum())
        yield TEXT.line({"stage": word, "models": number, "share": number / max(len(data), 1)})
    differ = int((data["distance"] > 0.01).sum())
    yield f"{differ} differ from what is expected"
    reasons = Counter(_reason(row["message"]) for row in data if row["message"])
    for reason, number in reasons.most_common(MOST_REASONS):
        yield f"{number:>7} {reason}"


def _reason(message: str) -> str:
    """A message without what differs from text to text."""
    return re.sub(r"^\S+:\d+: |'[^']*'|`[^`]*`|[\d.]+", "", str(message))[:100]
