"""Hints for loops."""

from __future__ import annotations

from typing import Any

from ..exceptions import NotYet, WujiTypeError
from . import context
from .ops import kernel_only


@kernel_only
def loop_config(
    *,
    block_dim: int | None = None,
    serialize: bool = False,
    parallelize: int | None = None,
    block_dim_adaptive: bool = True,
    bit_vectorize: bool = False,
    simd: bool | None = None,
) -> None:
    """Says how the loop that follows runs.

    ``serialize``: in order, on one thread. ``block_dim``: how many iterations a thread takes at a time. ``simd``: several iterations per
    instruction, or never (Wuji's own). ``parallelize``, ``block_dim_adaptive``: accepted; the number of threads is the world's.
    """
    if bit_vectorize:
        raise NotYet("`bit_vectorize`: quantized types are not yet in this version", "W0607")
    if block_dim is not None and (not isinstance(block_dim, int) or block_dim < 1):
        raise WujiTypeError(f"`block_dim` is a positive integer, not {block_dim!r}")
    config = context.current().config
    config.serialize = serialize
    config.parallelize = parallelize
    config.block_dim = block_dim
    config.simd = simd


@kernel_only
def mesh_local(*_: Any) -> None:
    """Meshes are not yet in this version."""
    raise NotYet("meshes are not yet in this version", "W0607")


@kernel_only
def global_thread_idx() -> Any:
    """The number of the thread among all that run the loop, on a GPU."""
    from ..simt.block import global_thread_idx as number

    return number()


mesh_patch_idx = mesh_local
