"""Short runs of the fuzzers; ``WUJI_FUZZ_SECONDS`` makes each take so long."""

from __future__ import annotations

import os
import sys

import pytest

from fuzz import campaign, hosts, programs, reference
from fuzz.program import Expr, Generator, Stmt, smaller, source

SECONDS = os.environ.get("WUJI_FUZZ_SECONDS")


def _run(attempt: campaign.Callable[[int], None], count: int) -> None:
    limits = campaign.Limits(seconds=float(SECONDS or 120), programs=sys.maxsize if SECONDS else count)
    tally = campaign.run(attempt, limits)
    print(tally)
    assert tally.failures == 0, "the output above has a program that reproduces it"


def test_random_kernels_agree() -> None:
    _run(programs.attempt, 40)


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


def test_programs_depend_on_the_seed_alone() -> None:
    assert Generator(7).body() == Generator(7).body()
    assert Generator(7).body() != Generator(8).body()
    assert hosts.steps(3) == hosts.steps(3)


def test_smaller_programs_are_valid_python() -> None:
    body = Generator(11).body()
    for candidate in smaller(body):
        compile("def f():\n" + source(candidate, "    ") + "\n", "smaller", "exec")


def test_statements_read_as_python() -> None:
    stmt = Stmt("if", expr=Expr("<", (Expr("var", value="a"), Expr("num", value=-1))), body=(Stmt("=", "t0", Expr("num", value=2.0)),))
    assert source((stmt,), "") == "if (a < (-1)):\n    t0 = 2.0"
