"""Gradients, quantized types, SIMT, algorithms, linear algebra, meshes, textures, graphs, ahead-of-time compilation."""

from . import Section

s = Section("Gradients")
SQUARE = (
    "x, loss = ti.field(ti.f64, 3, needs_grad=True), ti.field(ti.f64, (), needs_grad=True)\n@ti.kernel\ndef k():\n"
    "    for i in x:\n        loss[None] += x[i] ** 2\nx.fill(3)\n"
)
s.works("ti.ad.Tape", SQUARE + "with {}(loss):\n    k()\nassert x.grad[2] == 6")
s.one("Tape(clear_gradients=)", SQUARE + "x.grad.fill(1)\nwith ti.ad.Tape(loss, clear_gradients=False):\n    k()\nassert x.grad[2] == 7")
s.one("Tape(grad_check=)", SQUARE + "with ti.ad.Tape(loss, grad_check=[x]):\n    k()\nassert x.grad[2] == 6", "also for `ti.f32`; it prints the worst entries")
s.one("Tape(validation=)", SQUARE + "with ti.ad.Tape(loss, validation=True):\n    k()\nassert x.grad[2] == 6", "also without `debug=True`")
s.works("Tape.grad", SQUARE + "with ti.ad.Tape() as tape:\n    k()\nloss.grad[None] = 2\ntape.grad()\nassert x.grad[0] == 12")
s.works("ti.ad.FwdMode", "x, y = ti.field(ti.f64, 2, needs_dual=True), ti.field(ti.f64, (), needs_dual=True)\n@ti.kernel\ndef k():\n    y[None] = x[0] * x[1]\nx.fill(3)\nwith {}(y, x, seed=[1, 0]):\n    k()\nassert y.dual[None] == 3")
s.works("ti.ad.clear_all_gradients", "x = ti.field(ti.f32, 3, needs_grad=True)\nx.grad.fill(1)\n{}()\nassert x.grad[0] == 0")
s.works("ti.stop_grad", SQUARE.replace("x[i] ** 2", "x[i] * ti.stop_grad(x[i])") + "with ti.ad.Tape(loss):\n    k()\nassert x.grad[2] == 3", "of a field, and of a value")

s = Section("Quantized types")
PACK = "pack = ti.BitpackedFields(max_num_bits=32)\npack.place(x)\nti.root.dense(ti.i, 4).place(pack)\n"
s.works("ti.types.quant.int", "x = ti.field({}(5))\n" + PACK + "x[1] = -16\nassert x[1] == -16", "numbers of more than 32 bits are `i64` or `u64` in kernels")
s.works("ti.quant.int", "x = ti.field({}(5))\n" + PACK + "x[1] = 31\nassert x[1] == 31", "the spelling up to Taichi 1.0: unsigned by default")
s.works("ti.types.quant.fixed", "x = ti.field({}(8, max_value=2.0))\n" + PACK + "x[1] = -0.5\nx[2] = 0.51\nassert x[1] == -0.5 and x[2] == 33 / 64", "stores round to the nearest and saturate; Taichi wraps")
s.works("ti.quant.fixed", "x = ti.field({}(frac=8, range=2.0))\n" + PACK + "x[1] = -0.5\nassert x[1] == -0.5", "the spelling up to Taichi 1.0")
s.works("ti.types.quant.float ti.quant.float", "x = ti.field({}(5, 10))\n" + PACK + "x[1] = -0.5\nassert x[1] == -0.5", "subnormal numbers are stored as zero, too large ones as infinity")
s.works("ti.BitpackedFields", "x, y = ti.field(ti.types.quant.float(5, 10)), ti.field(ti.types.quant.float(5, 10))\npack = {}(32)\npack.place(x, y, shared_exponent=True)\nti.root.dense(ti.i, 4).place(pack)\nx[1], y[1] = 1, 0.25\nassert x[1] == 1 and y[1] == 0.25", "also of vectors, matrices and structs")
s.works(".bit_struct", "x, y = ti.field(ti.quant.int(5)), ti.field(ti.quant.int(5))\nti.root.dense(ti.i, 4).bit_struct(num_bits=32).place(x, y)\ny[1] = 3\nassert y[1] == 3 and x[1] == 0", "the spelling up to Taichi 1.0")
s.works(".bit_array", "x = ti.field(ti.quant.int(1))\nti.root.dense(ti.i, 4).bit_array(ti.i, 32, num_bits=32).place(x)\nx[40] = 1\nassert x.to_numpy().sum() == 1", "the spelling up to Taichi 1.0")
s.one("loop_config(bit_vectorize=)", "x = ti.field(ti.types.quant.int(1, False))\nti.root.dense(ti.i, 4).quant_array(ti.i, 32, max_num_bits=32).place(x)\n> ti.loop_config(bit_vectorize=True)\n> for i in x:\n>     x[i] = 1\nassert x.to_numpy().sum() == 128", "the compiler decides; a warning says why a loop is handled bit by bit")

s = Section("SIMT: thread blocks and warps")
NOTE = "on a GPU and in the interpreter; compiling for the CPU raises W0350"
START = "x = ti.field(ti.i32, 64)\n"


def lanes(names: str, call: str, expected: str) -> None:
    """Compares the results of 64 threads."""
    trial = START + f"> for i in x:\n>     x[i] = {call}\nassert x.to_numpy().tolist() == {expected}, x.to_numpy()"
    s.works(names, trial, NOTE)


s.works("ti.simt.block.SharedArray", START + "> for i in x:\n>     pad = {}((64,), ti.i32)\n>     pad[63 - i] = i\n>     ti.simt.block.sync()\n>     x[i] = pad[i]\nassert x[3] == 60", NOTE)
s.works(
    "ti.simt.block.sync ti.simt.block.mem_sync ti.simt.grid.memfence ti.simt.subgroup.barrier ti.simt.subgroup.memory_barrier",
    START + "> for i in x:\n>     {}()\n>     x[i] = 1\nassert x[63] == 1",
    NOTE,
)
lanes("ti.simt.block.thread_idx ti.simt.block.global_thread_idx ti.global_thread_idx", "{}()", "list(range(64))")
lanes("ti.simt.block.sync_all_nonzero", "{}(i)", "[0] * 64")
lanes("ti.simt.block.sync_any_nonzero", "{}(i)", "[1] * 64")
lanes("ti.simt.block.sync_count_nonzero", "{}(i)", "[63] * 64")
s.works("ti.simt.warp.active_mask", START + "> for i in x:\n>     x[i] = {}() != 0\nassert x[63] == 1", NOTE + "; the set of active lanes is not defined by the language")
s.works("ti.simt.warp.sync", START + "> for i in x:\n>     {}(ti.u32(0xFFFFFFFF))\n>     x[i] = 1\nassert x[63] == 1", NOTE)
lanes("ti.simt.warp.all_nonzero ti.simt.warp.unique", "{}(0xFFFFFFFF, i)", "[0] * 32 + [1] * 32")
lanes("ti.simt.warp.any_nonzero", "{}(0xFFFFFFFF, i // 32)", "[0] * 32 + [1] * 32")
lanes("ti.simt.warp.ballot", "{}(i % 4 == 1) % 16", "[2] * 64")
lanes("ti.simt.warp.match_any", "{}(0xFF, i % 2)", "[0x55, 0xAA] * 32")
lanes("ti.simt.warp.match_all", "{}(0xFFFFFFFF, i // 32) % 256", "[255] * 64")
lanes("ti.simt.warp.shfl_sync_i32 ti.simt.warp.shfl_sync_f32", "ti.cast({}(0xFFFFFFFF, i, 3), ti.i32)", "[3] * 32 + [35] * 32")
lanes("ti.simt.warp.shfl_up_i32 ti.simt.warp.shfl_up_f32", "ti.cast({}(0xFFFFFFFF, i, 1), ti.i32)", "[0, *range(31), 32, *range(32, 63)]")
lanes("ti.simt.warp.shfl_down_i32 ti.simt.warp.shfl_down_f32", "ti.cast({}(0xFFFFFFFF, i, 1), ti.i32)", "[*range(1, 32), 31, *range(33, 64), 63]")
lanes("ti.simt.warp.shfl_xor_i32", "{}(0xFFFFFFFF, i, 1)", "[k ^ 1 for k in range(64)]")
lanes("ti.simt.subgroup.elect", "{}()", "[1, *[0] * 31] * 2")
lanes("ti.simt.subgroup.all_true", "{}(i)", "[0] * 32 + [1] * 32")
lanes("ti.simt.subgroup.any_true ti.simt.subgroup.all_equal", "{}(i // 32)", "[0 if '{}'.endswith('true') else 1] * 32 + [1] * 32")
lanes("ti.simt.subgroup.broadcast ti.simt.subgroup.shuffle", "{}(i, 3)", "[3] * 32 + [35] * 32")
lanes("ti.simt.subgroup.broadcast_first", "{}(i)", "[0] * 32 + [32] * 32")
lanes("ti.simt.subgroup.group_size", "{}()", "[32] * 64")
lanes("ti.simt.subgroup.invocation_id", "{}()", "[*range(32)] * 2")
lanes("ti.simt.subgroup.shuffle_up", "{}(i, 1)", "[0, *range(31), 32, *range(32, 63)]")
lanes("ti.simt.subgroup.shuffle_down", "{}(i, 1)", "[*range(1, 32), 31, *range(33, 64), 63]")
lanes("ti.simt.subgroup.shuffle_xor", "{}(i, 1)", "[k ^ 1 for k in range(64)]")
for op in "add mul min max and or xor".split():
    of = f"list(__import__('itertools').accumulate(range(n, n + 32), lambda a, b: int(np.int32({ {'add': 'a + b', 'mul': '(a * b + 2**31) % 2**32 - 2**31', 'min': 'min(a, b)', 'max': 'max(a, b)', 'and': 'a & b', 'or': 'a | b', 'xor': 'a ^ b'}[op] }))))"
    none = {"add": 0, "mul": 1, "min": 2**31 - 1, "max": -(2**31), "and": -1, "or": 0, "xor": 0}[op]
    lanes(f"ti.simt.subgroup.inclusive_{op}", "{}(i)", f"[v for n in (0, 32) for v in {of}]")
    lanes(f"ti.simt.subgroup.reduce_{op}", "{}(i)", f"[v for n in (0, 32) for v in [{of}[-1]] * 32]")
    lanes(f"ti.simt.subgroup.exclusive_{op}", "{}(i)", f"[v for n in (0, 32) for v in [{none}, *{of}[:-1]]]")

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
MESH = "mesh = ti.Mesh.from_arrays([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], cells=[[0, 1, 2, 3]])\n"
META = (
    "one = {'num_patches': 1, 'elements': [{'order': 0, 'num': 2, 'max_num_per_patch': 2, 'owned_offsets': [0, 2], 'total_offsets': [0, 2], 'l2g_mapping': [0, 1],"
    " 'g2r_mapping': [1, 0], 'l2r_mapping': [1, 0]}], 'relations': [], 'attrs': {'x': [0, 0, 0, 1, 1, 1]}}\n"
)
s.works("ti.Mesh.load_meta ti.Mesh.generate_meta", META + "import json, tempfile, os\nwith tempfile.TemporaryDirectory() as d:\n    path = os.path.join(d, 'x.json')\n    open(path, 'w').write(json.dumps(one))\n    meta = {}(path if 'load' in '{}' else one)\nassert meta.num_patches == 1")
s.works("ti.lang.mesh._TriMesh ti.lang.mesh._TetMesh ti.lang.mesh.MeshBuilder", META + "b = {}()\nb.verts.place({'n': ti.i32}, reorder=True)\nmesh = b.build(ti.Mesh.generate_meta(one))\n> for v in mesh.verts:\n>     v.n = v.id\nassert mesh.verts.n.to_numpy().tolist() == [0, 1]")
s.one("mesh-for: for v in mesh.verts", MESH + "mesh.verts.place({'n': ti.i32})\n> for v in mesh.verts:\n>     for u in v.verts:\n>         v.n += u.id\nassert mesh.verts.n.to_numpy().tolist() == [6, 5, 4, 3]")
s.works(".place .link .keys", MESH + "mesh.verts.place({'a': ti.f32}, reorder=True, needs_grad=True, layout=ti.Layout.AOS)\nmesh.cells.link({'b': ti.field(ti.f32, 1)})\nassert mesh.verts.keys == ['a'] and mesh.verts.a.grad is not None")
s.one("v.id, v.edges.size, v.faces[j]", MESH + "mesh.verts.place({'n': ti.i32})\n> for v in mesh.verts:\n>     v.n = v.id + 10 * v.edges.size + 100 * v.faces[1].verts.size\nassert mesh.verts.n[2] == 332")
s.one("mesh.get_position_as_numpy", MESH + "assert mesh.get_position_as_numpy().shape == (4, 3)")
s.works("ti.MeshInstance", MESH + "assert isinstance(mesh, ti.MeshInstance)")
s.one("meshes without a patcher: ti.Mesh.from_arrays, ti.Mesh.load", MESH + "assert len(mesh.edges) == 6\nassert mesh.get_relation_as_numpy('CV').shape == (1, 4)", "new: computes all relations itself")

s = Section("Textures, graphs, ahead-of-time compilation")
TEXTURE = "t = ti.Texture(ti.Format.rgba8, (4, 4))\nf = ti.Vector.field(4, ti.f32, (4, 4))\nf.fill(1.0)\nt.from_field(f)\n"
s.works("ti.Texture .from_field", TEXTURE)
s.works(".from_ndarray", "t = ti.Texture(ti.Format.r32f, (4, 4))\na = ti.ndarray(ti.f32, (4, 4))\nt.from_ndarray(a)")
s.works(".to_image .from_image", TEXTURE + "try:\n    import PIL\nexcept ImportError:\n    pass\nelse:\n    t.from_image(t.to_image())", "requires Pillow")
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
SAVED = "import tempfile, os\nx = ti.field(ti.i32, 4)\n@ti.kernel\ndef put(v: ti.i32):\n    for i in x:\n        x[i] = v\nm = ti.aot.Module()\nm.add_field('x', x)\n"
LOAD = "with tempfile.TemporaryDirectory() as d:\n    path = os.path.join(d, 'a.tcm')\n    m.archive(path)\n    a = ti.aot.load(path)\n    m.save(os.path.join(d, 'b'))\n    b = ti.aot.load(os.path.join(d, 'b'))\n"
s.works("ti.aot.Module .add_kernel .add_field .save .archive", SAVED + "m.add_kernel(put)\n" + LOAD + "b.kernels['put'](3)\nassert b.fields['x'][2] == 3 and a.fields['x'][2] == 0", "no fields with quantized types, no textures and argument packs; saved as textual IR, which runs on every backend")
s.works(
    ".add_kernel_template .instantiate",
    SAVED + "@ti.kernel\ndef fill(f: ti.template(), v: ti.template()):\n    for i in f:\n        f[i] = v\nwith m.add_kernel_template(fill) as t:\n    t.instantiate(f=x, v=7)\n" + LOAD + "a.kernels['fill(f=x, v=7)']()\nassert a.fields['x'][0] == 7",
)
s.works(".add_graph", SAVED + "g = ti.graph.GraphBuilder()\ng.dispatch(put, ti.graph.Arg(ti.graph.ArgKind.SCALAR, 'v', ti.i32))\nm.add_graph('g', g.compile())\n" + LOAD + "a.graphs['g'].run({'v': 5})\nassert a.fields['x'][1] == 5")
s.one("ti.aot.load: run a saved module", SAVED + "m.add_kernel(put)\n" + LOAD + "assert list(a.kernels) == ['put']", "new: Taichi loads modules in C++ only")
s.refused("ti.aot.GfxRuntime140", "{}()", "metadata of SPIR-V modules")
s.works("ti.DeviceCapability", "ti.DeviceCapability", "names only", partly=True)
