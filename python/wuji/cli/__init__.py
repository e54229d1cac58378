"""Subcommands of ``wuji``."""
