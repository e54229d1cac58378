"""The command ``wuji``, or ``python -m wuji``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .cli import files, programs

# Commands of Taichi that were for its own developers, or for parts that are not here.
_OTHERS = {
    "changelog": "printed what was new in Taichi; ours is in the repository",
    "release": "made a release of Taichi",
    "format": "formatted Taichi's sources; `ruff format` does it for yours",
    "format_all": "formatted all of Taichi's sources; `ruff format` does it for yours",
    "regression": "compared Taichi's benchmarks; ours are run by `cargo xtask bench`",
    "baseline": "kept results of Taichi's benchmarks; ours are run by `cargo xtask bench`",
    "test": "ran Taichi's tests; ours are run by `cargo xtask test`",
    "lint": "checked Taichi's sources; `ruff check` does it for yours",
    "module": "made C++ headers of modules that were compiled ahead of time, which is not yet in this version",
}

_EXAMPLES = """examples:
  wuji run simulation.py             runs a program; `import taichi` is Wuji in it
  wuji debug simulation.py           the same, with all checks
  wuji example                       lists the examples; `wuji example julia` runs one
  wuji diagnose                      what to put into a report
  wuji cache info                    where compiled kernels are kept
  wuji video frame-*.png -o a.mp4    makes a video of pictures
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wuji",
        description="A language and compiler for visual computing.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    programs.add_to(commands)
    files.add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the words say. 0: done, 1: it has failed, 2: nobody can do what was asked."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in _OTHERS:
        print(f"wuji: `{words[0]}` {_OTHERS[words[0]]}", file=sys.stderr)
        return 2
    parser = _parser()
    try:
        asked = parser.parse_args(words)
    except SystemExit as stop:
        return int(stop.code or 0)
    if asked.version:
        from . import __version__

        print(f"wuji {__version__}")
        return 0
    if asked.command is None:
        parser.print_help()
        return 2
    try:
        return int(asked.act(asked) or 0)
    except (OSError, ValueError, RuntimeError) as error:
        if getattr(asked, "own_errors", True):
            print(f"wuji: {error}", file=sys.stderr)
            return 1
        raise


if __name__ == "__main__":
    sys.exit(main())
