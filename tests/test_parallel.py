"""Runs on the ranks of MPI: they agree with serial ones, say the same once, and refuse what cannot work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from launcher import PROGRAMS, Launcher, locked
from pySDC.core.collocation import CollBase

import dae_sdc as ds
from dae_sdc.cli import find_verbs
from dae_sdc.run.processes import is_root
from dae_sdc.sweepers.collocation import diagonal
from dae_sdc.sweepers.parallel import WAYS
from dae_sdc.sweepers.sdc import INITIAL_GUESSES, RESIDUAL_TYPES

Records = list[dict[str, Any]]
SDC = ("fully-implicit", "semi-implicit", "constrained")
INDEX = ("hessenberg-1", "hessenberg-2", "hessenberg-3")


def chosen(records: Records, **values: Any) -> Records:
    found = [record for record in records if all(record[name] == value for name, value in values.items())]
    assert found, f"nothing was tried with {values}"
    return found


# --- Nodes on several ranks --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def agreement(mpirun: Launcher, shared: Path) -> Records:
    """Each case on each rank beside the serial run."""
    path = shared / "agreement.json"
    with locked(shared / "agreement.lock"):
        if not path.exists():
            done = mpirun(4, "agreement.py", path, timeout=300)
            assert (done.returncode, done.stderr) == (0, "")
    return list(json.loads(path.read_text(encoding="utf-8")))


def test_two_ranks_agree_with_one_process(mpirun: Launcher, tmp_path: Path) -> None:
    done = mpirun(2, "agreement.py", tmp_path / "found.json", 16)
    assert (done.returncode, done.stderr) == (0, "")
    records = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    for record in records:
        assert record["same"] and record["worst"] <= 1e-13, record
    assert {record["sweeper"] for record in records} == set(SDC)
    assert {record["how"] for record in records} == {"sweeps", "fixed", "tolerance"}
    assert {record["rank"] for record in records} == {0, 1}


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("sweeper", SDC)
def test_node_parallel_sweeps_agree_with_serial_ones(sweeper: str, index: str, agreement: Records) -> None:
    for nodes in (2, 3, 4):
        for ranks in range(1, nodes + 1):
            values = {"how": "sweeps", "sweeper": sweeper, "problem": index, "nodes": nodes, "ranks": ranks}
            for name, choices in (("guess", INITIAL_GUESSES), ("residual", RESIDUAL_TYPES)):
                for choice in choices:
                    for record in chosen(agreement, **values, **{name: choice}):
                        assert record["same"], record
                        assert record["worst"] <= 1e-13, record


def test_every_guess_meets_every_residual_type(agreement: Records) -> None:
    for guess in INITIAL_GUESSES:
        for kind in RESIDUAL_TYPES:
            chosen(agreement, how="sweeps", guess=guess, residual=kind)


@pytest.mark.parametrize("how", ["fixed", "tolerance"])
@pytest.mark.parametrize("sweeper", SDC)
def test_node_parallel_runs_agree_with_serial_ones(sweeper: str, how: str, agreement: Records) -> None:
    for record in chosen(agreement, how=how, sweeper=sweeper):
        # The number of sweeps and what a failed run says are among what must be the same.
        assert record["same"], record
        assert record["worst"] <= 1e-13, record


def test_a_step_that_begins_again_agrees_with_the_serial_one(agreement: Records) -> None:
    for record in chosen(agreement, how="again"):
        assert record["same"], record
        assert record["worst"] <= 1e-13, record


def test_runs_meet_all_choices_on_all_rank_counts_and_succeed(agreement: Records) -> None:
    runs = [record for record in agreement if record["how"] != "sweeps"]
    for sweeper in SDC:
        for ranks in (1, 2, 3, 4):
            own = chosen(runs, sweeper=sweeper, ranks=ranks)
            assert {record["guess"] for record in own} == set(INITIAL_GUESSES)
            assert {record["residual"] for record in own} == set(RESIDUAL_TYPES)
            assert {record["quad"] for record in own} == {"RADAU-RIGHT", "LOBATTO", "GAUSS"}
            assert {record["qdelta"] for record in own} == {"MIN-SR-S", "MIN-SR-FLEX"}
            assert {record["problem"] for record in own} == {
                *INDEX,
                "transmission-line",
                "navier-stokes",
                "simple",
            }
            for problem in ("hessenberg-1", "transmission-line", "navier-stokes", "simple"):
                assert not any(any(record["messages"][0]) for record in chosen(own, problem=problem))
    assert {record["rank"] for record in agreement} == {0, 1, 2, 3}


def test_sweeps_send_one_message_each(three_ranks: Path) -> None:
    for ran in chain(*json.loads((three_ranks / "messages.json").read_text(encoding="utf-8"))):
        starts = [i for i, (what, _) in enumerate(ran["log"]) if what == "step"]
        steps = [ran["log"][a:b] for a, b in pairwise([*starts, None])]
        # Nothing else, least of all what pickles; and nothing before the first step.
        assert {what for what, _ in ran["log"]} == {"step", "sweep", "Allgatherv"}
        assert starts[0] == 0 and len(steps) == 4
        # n = 3: the unknowns that were solved for, and two notes; or the notes alone.
        values, notes = 8 * (3 + 2), 8 * 2
        before = None
        for step in steps:
            sent = [size for what, size in step if what == "Allgatherv"]
            sweeps = sum(what == "sweep" for what, _ in step)
            assert set(sent) <= {values, notes}
            if before is None:
                assert sent == [notes, *[values, notes] * sweeps]
            elif ran["restol"] < 0.0:
                assert sent == [*[values] * sweeps, notes]
            elif sweeps < before:  # a sweep was made in advance that was not needed
                assert sent == [values] * (sweeps + 1)
            else:
                assert sent == [*[values] * before, notes, *[values, notes] * (sweeps - before)]
            before = sweeps


# --- Steps on several ranks --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several_steps(mpirun: Launcher, shared: Path) -> dict[str, Any]:
    path = shared / "steps.json"
    with locked(shared / "steps.lock"):
        if not path.exists():
            done = mpirun(4, "steps.py", path, timeout=300)
            assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("jacobi", [False, True], ids=["Gauss-Seidel", "Jacobi"])
@pytest.mark.parametrize("parallel", ["steps", "both"])
def test_steps_on_ranks_are_the_steps_of_one_process(
    parallel: str, jacobi: bool, several_steps: dict[str, Any]
) -> None:
    for record in chosen(several_steps["runs"], parallel=parallel, jacobi=jacobi):
        assert not record.get("error"), record
        assert record["messages"][0] == record["messages"][1], record
        assert record["steps"][0] == record["steps"][1]
        assert record["sweeps"][0] == record["sweeps"][1], record
        # Jacobi iterations meet starts that differ by what is not yet iterated away, so they end apart by a
        # part of the tolerance 1e-11.
        assert record["emulated"] <= (1e-10 if jacobi else 1e-12), record


def test_steps_on_ranks_lead_to_the_solution_of_one_step_at_a_time(several_steps: dict[str, Any]) -> None:
    for record in several_steps["runs"]:
        if not any(record["messages"]):
            # Tolerance 1e-11, over the steps and, from index 2 on, through the derivatives of constraints.
            assert record["serial"] <= {"hessenberg-1": 1e-10, "hessenberg-2": 2e-9}.get(
                record["problem"], 2e-8
            ), record


def test_all_ranks_return_one_solution_whose_work_adds_up(several_steps: dict[str, Any]) -> None:
    for record in several_steps["runs"]:
        assert record["all the same"], record
        ranks, alone, _ = record["stats"]
        if not any(record["messages"]):
            for name, total in record["sums"].items():
                assert total <= ranks[name], record
            assert record["sums"]["newton"] == ranks["newton"]
        assert (ranks["steps"], ranks["sweeps"]) == (alone["steps"], alone["sweeps"])
        if record["parallel"] == "steps" and not record["jacobi"]:
            assert ranks["newton"] == alone["newton"], record


def test_descriptions_of_pysdc_run_on_nodes_steps_and_both(several_steps: dict[str, Any]) -> None:
    hands = several_steps["by hand"]
    assert [hand["split"] for hand in hands] == [[2, 2, 0, 0], [2, 2, 1, 0], [2, 2, 0, 1], [2, 2, 1, 1]]
    assert [hand["nodes"] for hand in hands[:3]] == [0.0, 0.0, 0.0]
    # Five steps: the last block has one, on the first rank of those with steps. pySDC leaves it there.
    assert max(hands[0]["both"], hands[1]["both"], hands[0]["steps"]) <= 1e-10


# --- The command under mpirun ------------------------------------------------------------------------------

SOLVE = ["solve", "hessenberg-1", "--sweeper", "semi-implicit"]
COMMANDS: dict[str, list[str]] = {
    "solve": [*SOLVE, "--parallel", "nodes", "--nodes", "3", "--dt", "0.1", "--t-end", "0.4"],
    "convergence": [
        *("convergence", "hessenberg-2", "--sweeper", "semi-implicit", "--parallel", "nodes"),
        *("--dt", "0.1,0.05", "--t-end", "0.2"),
    ],
    "iterations": [
        *("iterations", "hessenberg-1", "--sweeper", "semi-implicit", "--parallel", "both"),
        *("--maxiter", "2", "--dt", "0.1", "--t-end", "0.2"),
    ],
    "list": ["list", "problems"],
    "version": ["--version"],
    "help": ["--help"],
    "too many ranks": [*SOLVE, "--parallel", "nodes", "--nodes", "2"],
    "not diagonal": [*SOLVE, "--parallel", "nodes", "--qdelta", "LU"],
    "not diagonal, both": [*SOLVE, "--parallel", "both", "--qdelta", "LU", "--steps", "3"],
    "nothing said": SOLVE,
    "both": [*SOLVE, "--parallel", "both", "--steps", "2"],
    "steps": [*SOLVE, "--parallel", "steps", "--steps", "2"],
    "unknown way": [*SOLVE, "--parallel", "space"],
    "unknown option": [*SOLVE, "--parallel", "nodes", "--frobnicate"],
    "unknown problem": ["solve", "nothing", "--parallel", "nodes"],
    "Runge-Kutta": ["solve", "hessenberg-1", "--sweeper", "backward-euler", "--parallel", "nodes"],
    "no directory": [*SOLVE, "--parallel", "nodes", "--out", "nowhere/a.npy"],
    "order check": ["accuracy", "--nodes", "2"],
    "strict order check": ["strict", "accuracy", "--sweeper", "semi-implicit"],
}


@pytest.fixture(scope="module")
def commands(mpirun: Launcher, shared: Path) -> tuple[Path, dict[str, Records]]:
    """What each rank of three has printed and returned for each of COMMANDS."""
    place = shared / "commands"
    saving = [
        [*words, "--out", f"{name}.npy"] if name in ("solve", "convergence", "iterations") else words
        for name, words in COMMANDS.items()
    ]
    with locked(shared / "commands.lock"):
        if not (place / "found.json").exists():
            place.mkdir(exist_ok=True)
            (place / "commands.json").write_text(json.dumps(saving), encoding="utf-8")
            done = mpirun(3, "commands.py", place, cwd=place)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    by_rank = json.loads((place / "found.json").read_text(encoding="utf-8"))
    return place, {name: [found[i] for found in by_rank] for i, name in enumerate(COMMANDS)}


@pytest.mark.parametrize("rank", range(3))
def test_the_first_rank_is_the_one_that_writes(rank: int) -> None:
    assert is_root(SimpleNamespace(Get_rank=lambda: rank)) == (rank == 0)
    assert is_root(None)


@pytest.mark.parametrize("name", ["solve", "convergence", "iterations", "list", "version", "help"])
def test_rank_0_alone_prints_and_writes(name: str, commands: tuple[Path, dict[str, Records]]) -> None:
    place, found = commands
    ranks = found[name]
    assert [rank["code"] for rank in ranks] == [0, 0, 0]
    assert ranks[0]["out"]
    # No progress bar either: standard error is no terminal.
    assert [rank["err"] for rank in ranks] == ["", "", ""]
    assert [rank["out"] for rank in ranks[1:]] == ["", ""]
    if name in ("solve", "convergence", "iterations"):
        assert ranks[0]["out"].count(f"written to {name}.npy") == 1
        suffixes = ["dense.npz"] * (name == "solve") + ["json", "npy"]
        assert sorted(path.name for path in place.glob(f"{name}*")) == [f"{name}.{one}" for one in suffixes]
        assert len(ds.load(place / f"{name}.npy").data)


def test_no_other_file_is_left(commands: tuple[Path, dict[str, Records]]) -> None:
    saved = {f"{name}.{kind}" for name in ("solve", "convergence", "iterations") for kind in ("npy", "json")}
    saved |= {"solve.dense.npz", "commands.json", "found.json"}
    assert {path.name for path in commands[0].iterdir()} == saved


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("too many ranks", ["--parallel nodes with 2 nodes takes 1 to 2 ranks; started on 3"]),
        ("not diagonal", ["'LU' is not diagonal", "MIN-SR-S", "MIN-SR-FLEX", "MIN-SR-NS", "DNODES", "VDHS"]),
        ("not diagonal, both", ["'LU' is not diagonal", "MIN-SR-S"]),
        ("nothing said", ["started on 3 ranks", "--parallel", *WAYS, "without mpirun"]),
        ("both", ["--parallel both with 3 nodes and 2 steps takes 2, 4, 6 ranks; started on 3"]),
        ("steps", ["2 steps take 2 ranks; started on 3"]),
        ("unknown way", ["'space'", *WAYS]),
        ("unknown option", ["--frobnicate"]),
        ("unknown problem", ["unknown problem 'nothing'", "hessenberg-1"]),
        ("Runge-Kutta", ["'backward-euler' has nothing that ranks could share"]),
        ("no directory", ["nowhere"]),
        ("order check", ["--parallel nodes with 2 nodes takes 1 to 2 ranks; started on 3"]),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_printed_once(
    name: str, parts: list[str], commands: tuple[Path, dict[str, Records]]
) -> None:
    ranks = commands[1][name]
    assert [rank["code"] for rank in ranks] == [2, 2, 2]
    assert [rank["out"] for rank in ranks] == ["", "", ""]
    assert [rank["err"] for rank in ranks[1:]] == ["", ""]
    line = ranks[0]["err"]
    assert line.startswith("dae-sdc: ") and line.count("\n") == 1
    for part in parts:
        assert part in line


RADAU = CollBase(3, 0, 1, node_type="LEGENDRE", quad_type="RADAU-RIGHT")


def test_preconditioners_that_ranks_can_share_are_diagonal() -> None:
    names = diagonal(RADAU)
    for name in ("MIN-SR-S", "MIN-SR-FLEX", "MIN-SR-NS"):
        assert name in names
    assert "LU" not in names and "IE" not in names


def test_the_list_of_diagonal_preconditioners_is_that_of_the_collocation(
    commands: tuple[Path, dict[str, Records]],
) -> None:
    found = commands[1]["not diagonal"][0]["err"].rstrip()
    assert found.endswith(f"use one of {', '.join(diagonal(RADAU))}")


def test_the_order_check_says_what_is_off_and_fails(commands: tuple[Path, dict[str, Records]]) -> None:
    ranks = commands[1]["strict order check"]
    assert [rank["code"] for rank in ranks] == [1, 1, 1]
    lines = ranks[0]["err"].splitlines()
    assert len(lines) == 2 and "all orders" not in ranks[0]["out"]
    for line, group in zip(lines, ("differential", "algebraic"), strict=True):
        assert line.startswith(f"dae-sdc: hessenberg-1, semi-implicit, M=3, MIN-SR-S, {group}: order ")
        assert line.endswith("instead of 5")
    assert [rank["err"] for rank in ranks[1:]] == ["", ""]


ORDERS = [(3, 3), (3, 2), (3, 2, 1)]
"""Of two nodes: differential and algebraic at index 1 and 2; position, velocity, multiplier."""


@pytest.mark.long
def test_the_order_check_passes_on_two_ranks(mpirun: Launcher, tmp_path: Path) -> None:
    out = tmp_path / "orders.npy"  # on 3 ranks it is one of COMMANDS
    done = mpirun(2, "dae-sdc", "accuracy", "--sweeper", ",".join(SDC), "--out", out, timeout=300)
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.count("all orders within 0.3 of theory") == 1
    data = ds.load(out).data
    assert set(data["nodes"]) == {2} and set(data["sweeper"]) == set(SDC)
    for problem, orders in zip(INDEX, ORDERS, strict=True):
        for sweeper in SDC:
            rows = data[(data["problem"] == problem) & (data["sweeper"] == sweeper)]
            for group, order in zip(dict.fromkeys(rows["group"]), orders, strict=True):
                assert abs(rows["slope"][rows["group"] == group] - order).max() <= 0.3, (problem, group)


@pytest.mark.long
def test_more_ranks_than_nodes_are_refused_by_the_command_itself(mpirun: Launcher) -> None:
    done = mpirun(4, "dae-sdc", *SOLVE, "--parallel", "nodes", "--nodes", "3")
    assert done.returncode == 2
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if line.startswith("dae-sdc: ")]
    assert len(said) == 1 and "takes 1 to 3 ranks; started on 4" in said[0]


# --- Without MPI, and with another -------------------------------------------------------------------------


def alone(*commands: list[str], code: str = "", **environment: str) -> Records:
    """Exit code and output of commands in one process, after some Python code."""
    program = (
        f"import json, sys\n{code}\nsys.path.append({str(PROGRAMS)!r})\nfrom commands import carry_out\n"
        f"print(json.dumps([carry_out(arguments) for arguments in {list(commands)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    return list(json.loads(done.stdout))


def test_without_mpi4py_serial_runs_work_and_parallel_ones_say_what_to_install() -> None:
    ways = [[*SOLVE, "--parallel", parallel] for parallel in WAYS]
    code = "sys.modules['mpi4py'] = None"
    serial, *parallel = alone([*SOLVE, "--dt", "0.1", "--t-end", "0.2"], *ways, code=code)
    assert (serial["code"], serial["err"]) == (0, "")
    for done in parallel:
        assert (done["code"], done["out"]) == (2, "")
        assert done["err"].startswith("dae-sdc: parallel runs need mpi4py")
        assert "pip install" in done["err"] and done["err"].count("\n") == 1


def test_one_process_of_a_parallel_run_needs_no_launcher(mpirun: Launcher) -> None:
    run = [*SOLVE, "--dt", "0.1", "--t-end", "0.2", "--qdelta", "MIN-SR-S"]
    # Left alone, a serial step would begin with sweeps that nobody sees.
    parallel, serial = alone([*run, "--parallel", "nodes"], [*run, "--nsweeps", "1"])
    assert (parallel["code"], parallel["err"]) == (0, "")
    assert parallel["out"] == serial["out"]


def test_a_launcher_of_another_mpi_is_noticed(mpirun: Launcher) -> None:
    parallel = [*SOLVE, "--parallel", "nodes"]
    for done in alone(parallel, SOLVE, OMPI_COMM_WORLD_SIZE="3", PMI_SIZE="3"):
        assert done["code"] == 2
        assert done["err"].count("\n") == 1 and done["out"] == ""
    (done,) = alone(parallel, SLURM_STEP_NUM_TASKS="3")
    assert "the launcher started 3 processes, but to mpi4py each is alone" in done["err"]
    assert done["code"] == 2


def test_the_example_of_the_order_check_is_a_command_for_mpirun() -> None:
    assert find_verbs()["accuracy"].example.startswith("mpirun -n ")


def test_a_communicator_is_split_in_two_directions_only_as_it_goes() -> None:
    class Comm:
        def Get_size(self) -> int:
            return 6

        def Get_rank(self) -> int:
            return 4

        def Split(self, color: int, key: int) -> tuple[int, int]:
            return color, key

    nodes, steps = ds.split_communicator(Comm(), 3)
    assert (nodes, steps) == ((1, 4), (1, 4))
    assert [ds.split_communicator(Comm(), k)[0] for k in (1, 2, 6)] == [(4, 4), (2, 4), (0, 4)]
    for k in (0, 4, 5, 7):
        with pytest.raises(ds.InputError, match="use one of 1, 2, 3, 6"):
            ds.split_communicator(Comm(), k)
