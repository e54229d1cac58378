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
    s.refused(" ".join(f"ti.simt.{group}.{name}" for name in names.split()), "{}()", "loops are shared out among threads of a GPU by the compiler")
s.refused("ti.simt.block.SharedArray", "{}((4,), ti.f32)", "loops are shared out among threads of a GPU by the compiler")

s = Section("Algorithms and linear algebra")
s.works("ti.algorithms.parallel_sort", "k = ti.field(ti.i32, 5)\nk.from_numpy(np.array([5, 1, 4, 2, 3], np.int32))\n{}(k)\nassert k.to_numpy().tolist() == [1, 2, 3, 4, 5]")
s.works("ti.algorithms.PrefixSumExecutor", "k = ti.field(ti.i32, 5)\nk.fill(1)\n{}(5).run(k)\nassert k.to_numpy().tolist() == [1, 2, 3, 4, 5]")

BUILD = "b = ti.linalg.SparseMatrixBuilder(3, 3, max_num_triplets=9, dtype=ti.f32)\n@ti.kernel\ndef fill(b: ti.types.sparse_matrix_builder()):\n    for i in range(3):\n        b[i, i] += 2.0\nfill(b)\nA = b.build()\n"
s.works("ti.linalg.SparseMatrixBuilder ti.linalg.SparseMatrix", BUILD + "assert A[1, 1] == 2 and A.shape == (3, 3)\nB = (A + A - A) @ A\nassert (2 * B).transpose()[2, 2] == 8")
s.works("ti.linalg.SparseSolver", BUILD + "b = ti.ndarray(ti.f32, 3)\nb.fill(4)\nsolver = ti.linalg.SparseSolver(ti.f32, 'LLT')\nsolver.analyze_pattern(A)\nsolver.factorize(A)\nx = solver.solve(b)\nassert abs(x[1] - 2) < 1e-5 and solver.info()")
s.works("ti.linalg.SparseCG", BUILD + "b = ti.ndarray(ti.f32, 3)\nb.fill(4)\nx, ok = ti.linalg.SparseCG(A, b).solve()\nassert ok and abs(x[1] - 2) < 1e-4")
s.works(
    "ti.linalg.LinearOperator ti.linalg.MatrixFreeCG ti.linalg.MatrixFreeBICGSTAB",
    "@ti.kernel\ndef twice(v: ti.template(), mv: ti.template()):\n    for i in v:\n        mv[i] = 2 * v[i]\nx, b = ti.field(ti.f32, 8), ti.field(ti.f32, 8)\nb.fill(4)\n"
    "run = ti.linalg.MatrixFreeBICGSTAB if 'BIC' in '{}' else ti.linalg.MatrixFreeCG\nrun(ti.linalg.LinearOperator(twice), b, x, maxiter=50, tol=1e-8, quiet=True)\nassert abs(x[3] - 2) < 1e-3",
)

s = Section("Meshes")
s.refused("ti.Mesh.load_meta ti.Mesh.generate_meta", "{}('x')")

s = Section("Textures, graphs, compiling ahead of time")
TEXTURE = "t = ti.Texture(ti.Format.rgba8, (4, 4))\nf = ti.Vector.field(4, ti.f32, (4, 4))\nf.fill(1.0)\nt.from_field(f)\n"
s.works("ti.Texture .from_field", TEXTURE)
s.works(".from_ndarray", "t = ti.Texture(ti.Format.r32f, (4, 4))\na = ti.ndarray(ti.f32, (4, 4))\nt.from_ndarray(a)")
s.works(".to_image .from_image", TEXTURE + "try:\n    import PIL\nexcept ImportError:\n    pass\nelse:\n    t.from_image(t.to_image())", "where Pillow is installed")
s.works(".sample_lod .fetch", TEXTURE + "@ti.kernel\ndef k(t: ti.types.texture(2)) -> ti.f32:\n    return t.sample_lod(ti.Vector([0.5, 0.5]), 0.0).x + t.fetch(ti.Vector([1, 1]), 0).y\nassert abs(k(t) - 2) < 0.01")
s.works(".load .store", "t = ti.Texture(ti.Format.r32f, (4, 4))\n@ti.kernel\ndef k(t: ti.types.rw_texture(2, fmt=ti.Format.r32f, lod=0)) -> ti.f32:\n    t.store(ti.Vector([1, 1]), ti.Vector([0.5, 0, 0, 0]))\n    return t.load(ti.Vector([1, 1])).x\nassert k(t) == 0.5")
s.works("ti.Format", "assert ti.Format.rgba8 is not ti.Format.r32f")
s.works(
    "ti.graph.Arg ti.graph.ArgKind ti.graph.GraphBuilder ti.graph.Graph",
    "@ti.kernel\ndef k(a: ti.types.ndarray(ndim=1), v: ti.f32):\n    for i in a:\n        a[i] += v\na = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, 'a', ti.f32, ndim=1)\n"
    "v = ti.graph.Arg(ti.graph.ArgKind.SCALAR, 'v', ti.f32)\nb = ti.graph.GraphBuilder()\nb.dispatch(k, a, v)\ng = b.compile()\nx = ti.ndarray(ti.f32, 4)\ng.run({'a': x, 'v': 2.0})\nassert x[3] == 2",
)
s.works(
    ".create_sequential .append",
    "@ti.kernel\ndef k(v: ti.f32):\n    pass\nb = ti.graph.GraphBuilder()\ns = b.create_sequential()\ns.dispatch(k, ti.graph.Arg(ti.graph.ArgKind.SCALAR, 'v', ti.f32))\nb.append(s)\nb.compile().run({'v': 1.0})",
)
s.refused("ti.aot.Module ti.aot.GfxRuntime140", "{}()")
s.works("ti.DeviceCapability", "ti.DeviceCapability", "names only", partly=True)
