"""Loop configuration: `ti.loop_config` and thread indices."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiTypeError
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
    """Configure the next loop.

    Args:
        block_dim: GPU: threads per block. CPU: iterations that a thread takes at a time.
        serialize: Run the iterations in order, on one thread.
        parallelize: 1 means `serialize`; other values are accepted and ignored. The world sets the number of threads.
        block_dim_adaptive: Accepted and ignored.
        bit_vectorize: Warn if the loop does not handle a word of bits at a time, with the reason. The compiler does so wherever it can.
        simd: Force or forbid vectorization. None lets the compiler decide. An extension to Taichi's API.
    """
    if block_dim is not None and (not isinstance(block_dim, int) or not 1 <= block_dim < 1 << 31):
        raise WujiTypeError(f"`block_dim` must be a positive integer below 2^31, not {block_dim!r}")
    config = context.current().config
    config.serialize = serialize
    config.parallelize = parallelize
    config.block_dim = block_dim
    config.simd = simd
    config.bit_vectorize = bool(bit_vectorize)


@kernel_only
def mesh_local(*attributes: Any) -> None:
    """Accepted and ignored. Hint to cache attributes of a mesh in the next loop over it; the caches of the device do that here."""
    from .field import Field

    for attribute in attributes:
        if not isinstance(attribute, Field):
            raise WujiTypeError(f"`mesh_local` needs attributes of a mesh, such as `mesh.verts.x`, not {attribute!r}")


@kernel_only
def mesh_patch_idx() -> Any:
    """Return the number of the patch that the element of the enclosing loop over a mesh belongs to."""
    from .mesh.elements import patch_index

    return patch_index()


@kernel_only
def global_thread_idx() -> Any:
    """Return the index of the thread among all threads of the loop. GPU only."""
    from ..simt.block import global_thread_idx as number

    return number()
