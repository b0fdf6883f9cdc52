"""The studies and their verbs: what they compute, what they keep when something fails or kills them."""

from __future__ import annotations

import signal
import sys
import time

import numpy as np
import pytest
from helpers.nursery import needs_fork, nursery
from qmat.qdelta.diag import MIN_SR_S

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.run.convergence import fit_order
from dae_sdc.run.playground import PLAYGROUNDS


class Explosion(ds.ProblemDAE):
    """y' = y^2 from y(0) = 1 has no solution beyond t = 1."""

    index = 1

    def __init__(self, **settings):
        super().__init__(1, 1, **settings)

    def eval_f(self, u, du, t):
        return [du[0] - u[1], u[1] - u[0] ** 2]

    def u_exact(self, t):
        y = 1.0 / (1.0 - t)
        return [y, y * y]


def test_a_fit_finds_the_order_and_leaves_out_round_off():
    dts = np.array([0.1, 0.05, 0.025, 0.0125, 0.00625])
    exact = 3.0 * dts**4
    slope, fit = fit_order(dts, exact)
    assert slope == pytest.approx(4.0, abs=1e-10)
    assert fit < 1e-10
    rough = exact.copy()
    rough[3:] = (2e-9, 3e-9)
    assert fit_order(dts, rough, floor=4e-9)[0] == pytest.approx(4.0, abs=1e-10)
    stalled = exact.copy()
    stalled[3:] = stalled[2]
    assert fit_order(dts, stalled)[0] == pytest.approx(4.0, abs=1e-10)
    assert fit_order(dts[::-1], exact[::-1])[0] == pytest.approx(4.0, abs=1e-10)
    assert np.isnan(fit_order(dts[:1], exact[:1])).all()
    gap = exact.copy()
    gap[1] = np.nan
    assert fit_order(dts, gap)[0] == pytest.approx(4.0, abs=1e-10)


def test_a_failed_run_keeps_the_steps_before_it(tmp_path):
    solution = ds.solve(Explosion, dt=0.1, t_end=2.0, sweeper="semi-implicit", out=tmp_path / "run.npy")
    assert not solution.success
    assert "t=" in solution.message
    assert "\n" not in solution.message
    kept = ds.load(tmp_path / "run.partial.npy")
    assert kept.parameters["message"] == solution.message
    assert 5 <= len(kept.data) == len(solution.t) <= 12
    assert kept.data["u"][5, 0] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.filterwarnings("ignore::dae_sdc.errors.DAEWarning")
def test_a_failed_run_leaves_a_gap_in_a_study_and_not_the_end_of_it(tmp_path):
    result = ds.convergence(
        Explosion,
        sweeper="semi-implicit",
        nodes=2,
        dt=[1.0, 0.1, 0.05],
        t_end=1.0 - 1e-12,
        out=tmp_path / "c.npy",
    )
    assert result.parameters["failures"]
    assert np.isnan(result.data["error"]).any()
    assert ds.load(tmp_path / "c.npy").data.tobytes() == result.data.tobytes()


def test_an_interrupted_study_keeps_what_is_finished(tmp_path, monkeypatch):
    from dae_sdc.run import convergence as study_of_orders

    module = sys.modules[study_of_orders.__module__]
    solve, calls = module.solve, []

    def interrupted(*args, **settings):
        calls.append(args)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return solve(*args, **settings)

    monkeypatch.setattr(module, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ds.convergence("hessenberg-1", nodes=[2, 3], dt=[0.1, 0.05], out=tmp_path / "c.npy", t_end=0.2)
        ds.convergence("hessenberg-1", nodes=[2, 3], dt=[0.1, 0.05], out=tmp_path / "d.npy", t_end=0.2)
    assert ds.load(tmp_path / "c.npy").parameters["complete"]
    assert not (tmp_path / "d.npy").exists()
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        ds.convergence("hessenberg-1", nodes=[2, 3, 4], dt=[0.1, 0.05], out=tmp_path / "e.npy", t_end=0.2)
    partial = ds.load(tmp_path / "e.partial.npy")
    assert not partial.parameters["complete"]
    assert set(partial.data["nodes"]) == {2, 3}


def test_iterations_gain_accuracy_until_the_discretisation_is_reached():
    data = ds.iterations("hessenberg-1", sweeper="semi-implicit", nodes=3, maxiter=8, dt=0.1).data
    rows = data[data["group"] == "differential"]
    assert list(rows["sweep"]) == list(range(1, 9))
    residuals = rows["residual"]
    assert (residuals[1:] < 0.3 * residuals[:-1]).all()
    converged = ds.solve("hessenberg-1", sweeper="semi-implicit", nodes=3, dt=0.1, restol=1e-12)
    exact = ds.HessenbergIndex1()
    late = converged.t >= 0.5
    reached = max(
        np.abs(u - exact.u_exact(t))[:2].max()
        for t, u in zip(converged.t[late], converged.u[late], strict=True)
    )
    assert rows["error"][-1] == pytest.approx(reached, rel=0.01)


@pytest.mark.parametrize("name", PLAYGROUNDS)
def test_playgrounds_run_and_are_right(name):
    solution = ds.playground(name)
    assert solution.success
    problem = ds.PROBLEMS[PLAYGROUNDS[name]["problem"]]()
    exact = np.array([problem.u_exact(t) for t in solution.t])
    # The residual tolerance of the playground, times what the constraints make of it.
    assert np.abs(solution.u - exact)[:, : problem.n_diff].max() < 100 * PLAYGROUNDS[name]["restol"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["solve", "hessenberg-1", "--dt", "0.5"], 0, "t = 1 after 2 steps"),
        (["solve", "hessenberg-1", "--sweeper", "radau-iia-5", "--nodes", "3"], 2, "no effect"),
        (["solve", "simple", "--params", "alpha"], 2, "NAME=VALUE"),
        (["solve", "simple", "--params", "beta=1"], 2, "unknown parameter of SimpleDAE 'beta'"),
        (["solve", "simple", "--dt", "0.3"], 2, "dt=0.25 (4 steps)"),
        (["solve", "hessenberg-1", "--qdelta", "IE", "--maxiter", "1"], 1, "above restol"),
        (["convergence", "hessenberg-1", "--dt", "0.5,0.25", "--nodes", "2"], 0, "differential"),
        (["iterations", "hessenberg-1", "--maxiter", "2"], 0, "residual"),
        (["iterations", "hessenberg-1", "--sweeper", "edirk4"], 2, "do not sweep"),
        (["playground", "nowhere"], 2, "unknown playground"),
        (["list", "sweepers"], 0, "radau-iia-9"),
        (["list", "everything"], 2, "unknown kind"),
        (["info", "edirk4"], 0, "orders at index 2: 4, 2"),
        (["info", "simple"], 0, "alpha = 10.0"),
    ],
)
def test_verbs_answer_with_their_exit_code(arguments, code, says, capsys):
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert says in (captured.out if code == 0 else captured.err)
    assert len(captured.err.strip().splitlines()) == (0 if code == 0 else 1)


@needs_fork
def test_a_study_killed_at_any_moment_leaves_only_whole_files(tmp_path):
    script = (
        "import itertools\n"
        "for k in itertools.count():\n"
        "    ds.convergence('hessenberg-1', nodes=1, dt=[0.5, 0.25], out=f'c{k % 7}.npy')\n"
    )
    with nursery(script, cwd=tmp_path) as studies:
        for delay in (0.0, 0.05, 0.11, 0.23):
            for path in tmp_path.iterdir():
                path.unlink()
            studies.start()
            limit = time.monotonic() + 300.0
            while not list(tmp_path.glob("c*.npy")) and time.monotonic() < limit:
                time.sleep(0.002)
            time.sleep(delay)
            studies.kill()
            assert studies.wait() == -signal.SIGKILL
            found = list(tmp_path.glob("c*.npy"))
            assert found
            for path in found:
                result = ds.load(path)
                # Two groups for each finished step size; one step size only if the study is not over.
                partial = path.stem.endswith(".partial")
                assert result.parameters["complete"] != partial
                assert len(result.data) == 4 or (len(result.data) == 2 and partial)


def test_coefficients_that_are_fitted_are_those_of_all_runs_with_equal_nodes(monkeypatch):
    made, fit = [], MIN_SR_S.computeQDelta

    def counted(self, k=None):
        made.append((self.size, self.quadType))
        return fit(self, k)

    monkeypatch.setattr(MIN_SR_S, "computeQDelta", counted)
    monkeypatch.setattr("dae_sdc.sweepers.collocation._GENERATORS", {})
    settings = {"sweeper": "semi-implicit", "qdelta": "MIN-SR-S", "nodes": [2, 3], "dt": [0.5, 0.25]}
    for quad in ("LOBATTO", "RADAU-RIGHT"):
        assert np.isfinite(ds.convergence("hessenberg-1", quad=quad, **settings).data["error"]).all()
    assert made == [(nodes, quad) for quad in ("LOBATTO", "RADAU-RIGHT") for nodes in (2, 3)]


class Quadratic(ds.ProblemDAE):
    """u' = -u^2 without du_exact."""

    index = 0

    def __init__(self, **settings):
        super().__init__(1, 0, **settings)

    def eval_f(self, u, du, t):
        return [du[0] + u[0] ** 2]


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_a_node_at_the_start_needs_no_given_derivative(nodes):
    errors = []
    for dt in (0.2, 0.1):
        solution = ds.solve(Quadratic, u0=[1.0], t_end=1.0, dt=dt, quad="LOBATTO", nodes=nodes)
        assert solution.success, solution.message
        errors.append(abs(solution.u[-1, 0] - 0.5))
    assert errors[1] < errors[0] / 2.0 ** (2 * nodes - 2.5) or errors[1] < 1e-10


def test_nothing_to_run_is_said_so():
    with pytest.raises(ds.InputError, match="nothing to run"):
        ds.convergence([])
    with pytest.raises(ds.InputError, match="nothing to run"):
        ds.iterations("simple", qdelta=[])


def test_a_step_size_given_twice_does_not_double_the_rows():
    result = ds.convergence("hessenberg-1", nodes=1, dt=[0.25, 0.5, 0.25])
    algebraic = result.data[result.data["group"] == "algebraic"]
    assert algebraic["dt"].tolist() == [0.25, 0.5, 0.25]
