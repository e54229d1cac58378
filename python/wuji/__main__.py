"""Command-line entry point: ``wuji``, or ``python -m wuji``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .cli import files, programs, tune

# Taichi subcommands without a counterpart: developer tools, and features that Wuji does not have yet.
_TAICHI_ONLY = {
    "changelog": "printed what was new in Taichi; Wuji's changelog is in its repository",
    "release": "made a release of Taichi",
    "format": "formatted Taichi's sources; use `ruff format` for your own",
    "format_all": "formatted all of Taichi's sources; use `ruff format` for your own",
    "regression": "compared Taichi's benchmarks; run Wuji's with `cargo xtask bench`",
    "baseline": "stored Taichi's benchmark results; run Wuji's benchmarks with `cargo xtask bench`",
    "test": "ran Taichi's tests; run Wuji's with `cargo xtask test`",
    "lint": "linted Taichi's sources; use `ruff check` for your own",
    "module": "generated C++ headers for AOT modules of Taichi; save modules with `ti.aot.Module`, load them with `ti.aot.load`",
}

_EXAMPLES = """examples:
  wuji run simulation.py             run a program; `import taichi` resolves to Wuji
  wuji debug simulation.py           the same, in debug mode with all checks
  wuji example                       list the examples; `wuji example julia` runs one
  wuji diagnose                      print system information for a bug report
  wuji tune quant simulation.py --error 1e-3    choose the bits of its fields
  wuji cache info                    show the cache of compiled kernels
  wuji video frame-*.png -o a.mp4    encode frames as a video
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
    tune.add_to(commands)
    return parser


# The status of a process that SIGPIPE ended, as of other commands in front of `| head`.
_CLOSED_PIPE = 128 + 13


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 success, 1 failure, 2 usage error."""
    try:
        status = _run(arguments)
        if sys.stdout is not None:  # as in `wuji run program.py >&-`
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of the output is gone.
        _discard_output()
        return _CLOSED_PIPE
    except OSError as error:
        # Such as a full disk.
        _discard_output()
        print(f"wuji: {error}", file=sys.stderr)
        return 1


def _discard_output() -> None:
    """Discard what is buffered for standard output: Python flushes it once more at exit."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())


def _run(arguments: Sequence[str] | None) -> int:
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv and argv[0] in _TAICHI_ONLY:
        print(f"wuji: `{argv[0]}` {_TAICHI_ONLY[argv[0]]}", file=sys.stderr)
        return 2
    parser = _parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    if args.version:
        from . import __version__

        print(f"wuji {__version__}")
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    try:
        return int(args.handler(args) or 0)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        if getattr(args, "catch_errors", True):
            print(f"wuji: {error}", file=sys.stderr)
            return 1
        raise


if __name__ == "__main__":
    sys.exit(main())
