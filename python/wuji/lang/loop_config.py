"""Loop configuration: `ti.loop_config` and thread indices."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiTypeError
from . import context
from .missing import refuse
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
    """Configure the next loop.

    Args:
        block_dim: GPU: threads per block. CPU: iterations that a thread takes at a time.
        serialize: Run the iterations in order, on one thread.
        parallelize: 1 means `serialize`; other values are accepted and ignored. The world sets the number of threads.
        block_dim_adaptive: Accepted and ignored.
        bit_vectorize: Warn if the loop does not handle a word of bits at a time, with the reason. The compiler does so wherever it can.
        simd: Force or forbid vectorization. None lets the compiler decide. An extension to Taichi's API.
    """
    if block_dim is not None and (not isinstance(block_dim, int) or block_dim < 1):
        raise WujiTypeError(f"`block_dim` must be a positive integer, not {block_dim!r}")
    config = context.current().config
    config.serialize = serialize
    config.parallelize = parallelize
    config.block_dim = block_dim
    config.simd = simd
    config.bit_vectorize = bool(bit_vectorize)


@kernel_only
def mesh_local(*_: Any) -> None:
    """Not implemented yet (meshes)."""
    refuse("mesh_local", "meshes")


@kernel_only
def global_thread_idx() -> Any:
    """Return the index of the thread among all threads of the loop. GPU only."""
    from ..simt.block import global_thread_idx as number

    return number()


mesh_patch_idx = mesh_local
