"""What is built on the language."""

from . import Section

s = Section("Gradients")
s.refused("ti.ad.Tape ti.ad.clear_all_gradients", "{}()")
s.refused("ti.ad.FwdMode", "{}(None, None)")
s.refused("ti.stop_grad", "> ti.stop_grad(1.0)")

s = Section("Quantized types")
s.refused("ti.types.quant.int ti.types.quant.fixed ti.quant.int ti.quant.fixed", "{}(8)")
s.refused("ti.types.quant.float ti.quant.float", "{}(5, 10)")
s.refused("ti.BitpackedFields", "{}(32)")

s = Section("Groups of threads")
BLOCK = "sync sync_all_nonzero sync_any_nonzero sync_count_nonzero mem_sync thread_idx global_thread_idx"
WARP = "active_mask all_nonzero any_nonzero unique ballot match_all match_any shfl_sync_i32 shfl_sync_f32 shfl_up_i32 shfl_up_f32 shfl_down_i32 shfl_down_f32 shfl_xor_i32 sync"
GROUP = "barrier memory_barrier elect all_true any_true all_equal broadcast broadcast_first group_size invocation_id shuffle shuffle_up shuffle_down shuffle_xor " + " ".join(
    f"{kind}_{op}" for kind in ("reduce", "inclusive", "exclusive") for op in "add mul min max and or xor".split()
)
for group, names in (("block", BLOCK), ("warp", WARP), ("subgroup", GROUP), ("grid", "memfence")):
    s.refused(" ".join(f"ti.simt.{group}.{name}" for name in names.split()), "{}()", "needs a GPU")
s.refused("ti.simt.block.SharedArray", "{}((4,), ti.f32)", "needs a GPU")

s = Section("Algorithms and linear algebra")
s.works("ti.algorithms.parallel_sort", "k = ti.field(ti.i32, 5)\nk.from_numpy(np.array([5, 1, 4, 2, 3], np.int32))\n{}(k)\nassert k.to_numpy().tolist() == [1, 2, 3, 4, 5]")
s.works("ti.algorithms.PrefixSumExecutor", "k = ti.field(ti.i32, 5)\nk.fill(1)\n{}(5).run(k)\nassert k.to_numpy().tolist() == [1, 2, 3, 4, 5]")

s = Section("Meshes")
s.refused("ti.Mesh.load_meta ti.Mesh.generate_meta", "{}('x')")

s = Section("Textures, graphs, compiling ahead of time")
s.works("ti.Texture", "t = ti.Texture(ti.Format.r32f, (4, 4))\nf = ti.field(ti.f32, (4, 4))\nf.fill(0.5)\nt.from_field(f) if hasattr(t, 'from_field') else None")
s.works("ti.Format", "assert ti.Format.rgba8 is not ti.Format.r32f")
s.works(
    "ti.graph.Arg ti.graph.ArgKind ti.graph.GraphBuilder ti.graph.Graph",
    "@ti.kernel\ndef k(a: ti.types.ndarray(ndim=1), v: ti.f32):\n    for i in a:\n        a[i] += v\na = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, 'a', ti.f32, ndim=1)\n"
    "v = ti.graph.Arg(ti.graph.ArgKind.SCALAR, 'v', ti.f32)\nb = ti.graph.GraphBuilder()\nb.dispatch(k, a, v)\ng = b.compile()\nx = ti.ndarray(ti.f32, 4)\ng.run({'a': x, 'v': 2.0})\nassert x[3] == 2",
)
s.refused("ti.aot.Module ti.aot.GfxRuntime140", "{}()")
s.works("ti.DeviceCapability", "ti.DeviceCapability", "names only", partly=True)
