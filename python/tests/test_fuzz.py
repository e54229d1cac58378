"""Short runs of the fuzzers; ``WUJI_FUZZ_SECONDS`` makes each take so long."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from fuzz import boundaries, campaign, hosts, plain, programs, reference
from fuzz.program import Expr, Generator, Stmt, smaller, source

SECONDS = os.environ.get("WUJI_FUZZ_SECONDS")


def _run(attempt: campaign.Callable[[int], None], count: int) -> None:
    limits = campaign.Limits(seconds=float(SECONDS or 120), programs=sys.maxsize if SECONDS else count)
    tally = campaign.run(attempt, limits)
    print(tally)
    assert tally.failures == 0, "the output above has a program that reproduces it"


def test_random_kernels_agree() -> None:
    _run(programs.attempt, 40)


def test_random_boundaries_agree() -> None:
    _run(boundaries.attempt, 15)


@pytest.mark.skipif(sys.platform != "linux", reason="faults are injected by Linux's means")
def test_random_calls_survive_faults() -> None:
    _run(hosts.attempt, 15)


def test_a_wrong_result_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    right = reference.evaluate

    def wrong(expr: Expr, env: dict[str, object], exactness: reference.Exactness) -> object:
        value = right(expr, env, exactness)
        return value + value.dtype.type(1) if expr.op == "&" else value

    monkeypatch.setattr(reference, "evaluate", wrong)
    tally = campaign.run(programs.attempt, campaign.Limits(programs=60))
    assert tally.failures == 1


def test_a_wrong_boundary_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    # Indices wrap around in Python, down to -n.
    def inside(array: plain.Array, index: int | tuple[int, ...]) -> bool:
        return bool(np.all(np.less(index, array.shape) & (np.add(index, array.shape) >= 0)))

    monkeypatch.setattr(plain.Array, "inside", inside)
    failures: list[campaign.Failed] = []

    def attempt(seed: int) -> None:
        try:
            boundaries.attempt(seed)
        except campaign.Failed as failure:
            failures.append(failure)
            raise

    tally = campaign.run(attempt, campaign.Limits(programs=60))
    assert tally.failures == 1
    why, _, small = failures[0].reproducer.partition("def stencil")
    whole = str(boundaries.StencilGenerator(tally.attempts).stencil()).partition("def stencil")[2]
    assert why.startswith("# interpreter: ") and len(small) < len(whole) / 2, small


def test_programs_depend_on_the_seed_alone() -> None:
    assert Generator(7).body() == Generator(7).body()
    assert Generator(7).body() != Generator(8).body()
    assert boundaries.StencilGenerator(7).stencil() == boundaries.StencilGenerator(7).stencil()
    assert boundaries.StencilGenerator(7).stencil() != boundaries.StencilGenerator(8).stencil()
    assert hosts.steps(3) == hosts.steps(3)


def test_smaller_programs_are_valid_python() -> None:
    body = Generator(11).body()
    for candidate in smaller(body):
        compile("def f():\n" + source(candidate, "    ") + "\n", "smaller", "exec")


def test_statements_read_as_python() -> None:
    stmt = Stmt("if", expr=Expr("<", (Expr("var", value="a"), Expr("num", value=-1))), body=(Stmt("=", "t0", Expr("num", value=2.0)),))
    assert source((stmt,), "") == "if (a < (-1)):\n    t0 = 2.0"
