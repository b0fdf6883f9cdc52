"""The command dae-sdc: what it prints, where, and with which exit code."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.timing import within

from dae_sdc import cli, errors
from dae_sdc.run import processes

Install = Callable[[Callable[[argparse.Namespace], int]], None]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dae_sdc.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def one_line(text: str) -> str:
    assert text.startswith("dae-sdc: ")
    assert text.count("\n") == 1
    assert text.endswith("\n")
    return text.rstrip("\n")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs the verb ``fake``, whose main is the function given."""

    def install(main: Callable[[argparse.Namespace], int]) -> None:
        module = types.ModuleType("fake_verb")
        module.main = main  # type: ignore[attr-defined]
        module.add_arguments = lambda parser: parser.add_argument("--nodes", type=int)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "fake_verb", module)
        verbs = {
            "fake": cli.Verb("fake_verb", "Do nothing.", "dae-sdc fake --nodes 3", "Do nothing.\n\nAt all.")
        }
        monkeypatch.setattr(cli, "find_verbs", lambda: verbs)

    return install


def failing(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def main(args: argparse.Namespace) -> int:
        raise error

    return main


def test_help_shows_every_verb_with_its_summary_and_an_example() -> None:
    done = run("--help")
    assert done.returncode == 0
    verbs = cli.find_verbs()
    assert verbs
    for name, verb in verbs.items():
        assert f"  {name} " in done.stdout
        assert verb.summary in done.stdout
        assert verb.example in done.stdout


def test_help_answers_in_under_half_a_second() -> None:
    assert within(0.5, lambda: run("--help")).returncode == 0


HEAVY = ["numpy", "scipy", "pySDC.core.step", "matplotlib", "numba", "mpi4py"]


@pytest.mark.parametrize(
    ("module", "absent"),
    [("dae_sdc", HEAVY), ("dae_sdc.cli", HEAVY), ("dae_sdc.run", ["matplotlib.pyplot"])],
)
def test_importing_a_module_does_not_load_what_it_may_never_use(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}\nprint([name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_functions_are_solved_without_what_models_pictures_and_ranks_need() -> None:
    words = ["solve", "simple", "--sweeper", "semi-implicit", "--dt", "0.1", "--t-end", "0.1"]
    code = (
        f"import sys\nfrom dae_sdc import cli\nassert cli.main({words}) == 0\n"
        "assert not {'sympy', 'matplotlib', 'mpi4py'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_verb_has_the_interface_and_an_example_its_own_parser_takes() -> None:
    for name, verb in cli.find_verbs().items():
        module = importlib.import_module(verb.module)
        parser = cli.Parser(prog=f"dae-sdc {name}")
        module.add_arguments(parser)
        command = verb.example.partition("dae-sdc ")[2]
        parser.parse_args(shlex.split(command)[1:])
        assert callable(module.main)
        assert verb.summary.endswith(".")


def test_verbs_are_found_by_their_docstrings_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "run"
    room.mkdir()
    bad = "\nraise SystemExit('imported')\n"
    (room / "two_words.py").write_text('"""Do this.\n\nExample: dae-sdc two-words x\n"""' + bad)
    (room / "no_verb.py").write_text('"""A helper."""' + bad)
    (room / "other.py").write_text('"""Wrong name.\n\nExample: dae-sdc another x\n"""' + bad)
    (room / "_hidden.py").write_text('"""Hidden.\n\nExample: dae-sdc -hidden\n"""' + bad)
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "cli.py"))
    text = "Do this.\n\nExample: dae-sdc two-words x"
    assert cli.find_verbs() == {
        "two-words": cli.Verb("dae_sdc.run.two_words", "Do this.", "dae-sdc two-words x", text)
    }


def test_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"dae-sdc {version('dae_sdc')}\n")


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_only_the_first_of_several_ranks_prints(
    rank: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "launched", lambda: 3)
    monkeypatch.setattr(processes, "world", lambda: types.SimpleNamespace(Get_rank=lambda: rank))
    assert cli.main(["--version"]) == 0
    assert bool(capsys.readouterr().out) == (rank == 0)


def test_a_verb_gets_its_arguments_and_gives_the_exit_code(
    fake: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda args: int(args.nodes))
    assert cli.main(["fake", "--nodes", "3"]) == 3
    assert cli.main(["--debug", "fake", "--nodes", "0"]) == 0
    assert capsys.readouterr().err == ""


def test_help_of_a_verb_shows_its_docstring(fake: Install, capsys: pytest.CaptureFixture[str]) -> None:
    fake(lambda args: 0)
    with pytest.raises(SystemExit) as stop:
        cli.main(["fake", "--help"])
    assert stop.value.code == 0
    assert "At all." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "no verb given; see 'dae-sdc --help'"),
        (["--vesion"], "did you mean --version?"),
        (["fake", "--node", "3"], "did you mean --nodes?"),
        (
            ["fake", "--nodes", "x"],
            "fake: argument --nodes: invalid int value: 'x'; see 'dae-sdc fake --help'",
        ),
        (["fake", "stray"], "stray"),
    ],
)
def test_arguments_that_cannot_be_parsed_end_in_one_line_and_code_2(
    arguments: list[str], hint: str, fake: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda args: 0)
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert hint in one_line(captured.err)
    assert captured.out == ""


def test_an_unknown_verb_lists_the_verbs_and_the_nearest(
    fake: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda args: 0)
    assert cli.main(["fakes"]) == 2
    assert (
        one_line(capsys.readouterr().err)
        == "dae-sdc: unknown verb 'fakes'; did you mean 'fake'? Available: fake"
    )
    assert cli.main(["xyz"]) == 2
    assert one_line(capsys.readouterr().err) == "dae-sdc: unknown verb 'xyz'; available: fake"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.InputError("dt must be positive;\n got -1"), 2, "dae-sdc: dt must be positive; got -1"),
        (errors.ResultFileError("a.npy is no result"), 2, "dae-sdc: a.npy is no result"),
        (errors.SolveError("the step failed"), 1, "dae-sdc: the step failed"),
        (FileNotFoundError(2, "No such file", "a.npy"), 2, "dae-sdc: a.npy: No such file"),
        (
            KeyError("x"),
            1,
            "dae-sdc: KeyError: 'x'; this is a defect in dae_sdc or in the problem; "
            "run again with --debug to see the trace",
        ),
        (KeyboardInterrupt(), 130, "dae-sdc: interrupted; files of finished results are kept"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_ends_in_one_line_and_its_code(
    error: BaseException, code: int, line: str, fake: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(failing(error))
    assert cli.main(["fake"]) == code
    assert one_line(capsys.readouterr().err) == line


@pytest.mark.parametrize(
    ("name", "code"),
    [("ParameterError", 2), ("ControllerError", 2), ("CollocationError", 2), ("ConvergenceError", 1)],
)
def test_errors_of_pysdc_are_told_like_our_own(
    name: str, code: int, fake: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    import pySDC.core.errors

    fake(failing(getattr(pySDC.core.errors, name)("need a number of nodes")))
    assert cli.main(["fake"]) == code
    assert one_line(capsys.readouterr().err) == "dae-sdc: need a number of nodes"


def test_the_trace_is_shown_on_request_only(
    fake: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(failing(KeyError("x")))
    cli.main(["fake", "--debug"])
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("DAE_SDC_DEBUG", "1")
    cli.main(["fake"])
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("DAE_SDC_DEBUG", "0")
    cli.main(["fake"])
    assert "Traceback" not in capsys.readouterr().err


def test_our_warnings_are_one_line_each_and_others_stay_as_they_are(
    fake: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(args: argparse.Namespace) -> int:
        for _ in range(2):
            warnings.warn("LU is made\nfor nodes", errors.DAEWarning, stacklevel=1)
        return 0

    fake(main)
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("once")
        assert cli.main(["fake"]) == 0
    assert one_line(capsys.readouterr().err) == "dae-sdc: warning: LU is made for nodes"
    assert warnings.showwarning is before


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    script = tmp_path / "noisy.py"
    script.write_text(
        "import sys, types\n"
        "from dae_sdc import cli\n"
        "noisy = types.ModuleType('noisy_verb')\n"
        "noisy.add_arguments = lambda parser: None\n"
        "noisy.main = lambda args: [print('x' * 999) for _ in range(999)] and 0\n"
        "sys.modules['noisy_verb'] = noisy\n"
        "cli.find_verbs = lambda: {'noisy': cli.Verb('noisy_verb', '', '', '')}\n"
        "sys.exit(cli.main(['noisy']))\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    with process.stderr as stream:
        assert stream.read() == b""
    assert process.wait(timeout=300) == 141


def test_what_a_file_of_python_raises_and_words_without_a_value_are_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("cut", "def model(:"), ("zero", "1 / 0")):
        (tmp_path / f"{name}.py").write_text(text)
        assert cli.main(["structure", str(tmp_path / f"{name}.py")]) == 2
        assert re.fullmatch(rf".*{name}\.py raised \w+Error: .*\n", capsys.readouterr().err)
    with pytest.raises(SystemExit) as end:
        cli.main(["simplify", "pendulum", "--params=--"])
    assert end.value.code == 2 and "--params: expected a value; got '--'" in capsys.readouterr().err
    assert cli.main(["playground", "synchronous-machine", "--t-end", "0.02", "--maxiter", "1"]) == 1
    assert re.fullmatch(r"dae-sdc: the sweeps of the step .*\n", capsys.readouterr().err)


def test_lists_need_no_docstrings() -> None:
    command = [sys.executable, "-OO", "-m", "dae_sdc", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "") and "pendulum" in done.stdout
