"""Ctrl-C at a random moment of a call: it ends the call, and the next one gives what it gave before."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from threading import Timer
from time import process_time
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import Finding
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import DONE, HANG, LOST, NONSENSE, RAW, TOLD, Case, Random, choice, kind

PROMPT = 5.0  # Seconds on a processor within which a call ends that is interrupted


def new_equations(rng: Random) -> Any:
    """A function with constants that no other has, so that it is read and compiled anew."""
    a, b = rng.uniform(0.5, 2.0, 2)
    text = f"[du[0] + {a} * u[0] * u[1], u[1] - np.cos({b} * u[0])]"
    return cases.functions_of({"f": text}, "t, u, du")["f"]


CALLS = cases.functions_of(cases.tables()["interrupted"], "rng", ds=ds, new_equations=new_equations)


@cache
def expected() -> bytes:
    """A run as it is without interrupts."""
    return ds.solve("simple", rtol=1e-6, t_end=0.2).u.tobytes()


def judged(call: Callable[[], Any], delay: float) -> Finding:
    """What comes of a call that is interrupted after a while in seconds."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(process_time())
        os.kill(os.getpid(), signal.SIGINT)

    expected()
    answer, said, timer = None, io.StringIO(), Timer(delay, interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            timer.start()
            answer = call()
            timer.cancel()
            timer.join()
    except KeyboardInterrupt:
        answer = None
    except ds.DAEError as error:
        return cases.told(str(error))
    except BaseException as error:
        return cases.raw(error)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    if sent and process_time() - sent[0] > PROMPT:
        return Finding(HANG, f"ended {process_time() - sent[0]:.1f} s after the interrupt")
    if "ignored" in said.getvalue():
        return Finding(RAW, said.getvalue()[:300])
    if ds.solve("simple", rtol=1e-6, t_end=0.2).u.tobytes() != expected():
        return Finding(NONSENSE, "the next run gives other digits")
    if sent and answer is not None:
        return Finding(LOST, "the interrupt is swallowed")
    return Finding(TOLD if sent else DONE)


@kind("interrupt", 3.0)
def interrupt(rng: Random) -> Case:
    name, delay = choice(rng, CALLS), float(10 ** rng.uniform(-2.5, 0.5))
    own = np.random.default_rng(int(rng.integers(2**32)))
    return Case(f"SIGINT {delay:.3f} s into {name}", lambda: judged(lambda: CALLS[name](own), delay))
