"""Tries one seed after another until the time is over or something fails."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable


class Failed(Exception):
    """A wrong result or a wrong error. ``reproducer`` is a program that shows it."""

    def __init__(self, why: str, reproducer: str = "") -> None:
        super().__init__(why)
        self.reproducer = reproducer


@dataclasses.dataclass
class Limits:
    """When a campaign ends."""

    seed: int = 1
    seconds: float = 60.0
    programs: int = sys.maxsize
    keep_going: bool = False
    progress: bool = False
    folder: pathlib.Path | None = None


@dataclasses.dataclass
class Tally:
    """Counts of a campaign."""

    attempts: int = 0
    failures: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        rate = self.attempts / max(self.seconds, 1e-3)
        return f"{self.attempts} tried in {self.seconds:.1f} s, {rate:.1f} a second, {self.failures} failures"


def run(attempt: Callable[[int], None], limits: Limits) -> Tally:
    """Call ``attempt`` with one seed after another. It raises :class:`Failed` for a failure."""
    tally = Tally()
    start = shown = time.monotonic()
    while time.monotonic() - start < limits.seconds and tally.attempts < limits.programs:
        seed = limits.seed + tally.attempts
        tally.attempts += 1
        try:
            attempt(seed)
        except Failed as failure:
            tally.failures += 1
            _report(seed, failure, limits.folder)
            if not limits.keep_going:
                break
        tally.seconds = time.monotonic() - start
        if limits.progress and time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(tally, flush=True)
    tally.seconds = time.monotonic() - start
    return tally


def _report(seed: int, failure: Failed, folder: pathlib.Path | None) -> None:
    print(f"seed {seed}: {failure}")
    if not failure.reproducer:
        return
    if folder is None:
        print(failure.reproducer)
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed_{seed}.py"
    path.write_text(failure.reproducer)
    print(f"  written to {path}")


def main(kinds: dict[str, Callable[[int], None]]) -> None:
    """Run a campaign with the limits of the command line. ``kinds`` has an ``attempt`` for each kind of program."""
    parser = argparse.ArgumentParser()
    if len(kinds) > 1:
        parser.add_argument("--kind", choices=list(kinds), help="kind of programs; without it, each seed makes one of every kind")
    parser.add_argument("--seed", type=int, default=1, help="first seed")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration")
    parser.add_argument("--programs", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("target/fuzz"), help="where failures are written")
    found = parser.parse_args()
    chosen = [kinds[found.kind]] if len(kinds) > 1 and found.kind else list(kinds.values())

    def attempt(seed: int) -> None:
        for one in chosen:
            one(seed)

    tally = run(attempt, Limits(found.seed, found.seconds, found.programs, found.keep_going, True, found.folder))
    print(tally)
    sys.exit(1 if tally.failures else 0)
