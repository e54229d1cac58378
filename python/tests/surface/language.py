"""Decorators, the subset of Python, loops, types."""

from . import Section

s = Section("Decorators and callables")
s.works("ti.kernel", "@ti.kernel\ndef k(a: ti.i32, b: ti.f32 = 2.0) -> ti.f32:\n    return a * b\nassert k(3) == 6 and k(a=1, b=0.5) == 0.5")
s.works("ti.func", "@ti.func\ndef f(a, b: ti.template()):\n    b += a\n    return a + b\n> y = 1\n> z = f(2, y)\n> assert z == 5")
s.works("ti.real_func", "@ti.real_func\ndef f(n: ti.i32) -> ti.i32:\n    r = n\n    if n > 1:\n        r = n * f(n - 1)\n    return r\n> assert f(5) == 120")
s.works("ti.experimental.real_func", "@ti.experimental.real_func\ndef f(n: ti.i32) -> ti.i32:\n    return n + 1\n> assert f(5) == 6")
s.works("ti.pyfunc", "@ti.pyfunc\ndef f(a):\n    return a * 2\nassert f(4) == 8\n> assert f(4) == 8")
s.works(
    "ti.data_oriented",
    "@ti.data_oriented\nclass A:\n    def __init__(self):\n        self.x = ti.field(ti.i32, 4)\n    @ti.kernel\n    def fill(self, v: ti.i32):\n"
    "        for i in self.x:\n            self.x[i] = v\na = A()\na.fill(3)\nassert a.x[2] == 3",
)
s.works(
    "ti.dataclass",
    "@ti.dataclass\nclass B:\n    p: ti.math.vec3\n    r: ti.f32\n    @ti.func\n    def area(self):\n        return self.r * 2\n> b = B(ti.math.vec3(0), 2.0)\n> assert b.area() == 4",
)
REPLACED = (
    "x, loss = ti.field(ti.f32, (), needs_grad=True), ti.field(ti.f32, (), needs_grad=True)\n"
    "@ti.ad.grad_replaced\ndef f():\n    pass\n@ti.ad.grad_for(f)\ndef g():\n    x.grad[None] = 7\nwith ti.ad.Tape(loss):\n    f()\nassert x.grad[None] == 7"
)
s.works("ti.ad.grad_replaced ti.ad.grad_for", REPLACED)
s.works("ti.ad.no_grad", "@ti.ad.no_grad\ndef f():\n    return 3\nassert f() == 3")
s.works("ti.aot.export ti.aot.export_as", "mark = {} if '{}'.endswith('export') else {}('name')\n@mark\n@ti.kernel\ndef run(a: ti.i32) -> ti.i32:\n    return a + 1\nassert run(1) == 2")
s.one("kernel arguments: struct", "S = ti.types.struct(a=ti.i32, b=ti.f32)\n@ti.kernel\ndef k(s: S) -> ti.f32:\n    return s.a + s.b\nassert k(S(1, 0.5)) == 1.5")
s.one("kernel arguments: matrix", "@ti.kernel\ndef k(m: ti.math.mat2) -> ti.f32:\n    return m[0, 1]\nassert k(ti.math.mat2(1, 2, 3, 4)) == 2")
s.one("kernel arguments: NumPy array", "@ti.kernel\ndef k(a: ti.types.ndarray()):\n    for i in a:\n        a[i] = i\na = np.zeros(4, np.float32)\nk(a)\nassert a[3] == 3")
s.one("kernel results: several", "@ti.kernel\ndef k() -> (ti.i32, ti.f32):\n    return 1, 2.5\nassert tuple(k()) == (1, 2.5)")
s.one("kernel results: vector", "@ti.kernel\ndef k() -> ti.math.vec2:\n    return ti.Vector([1.0, 2.0])\nassert k()[1] == 2")
s.one("kernel.__wrapped__", "@ti.kernel\ndef k():\n    pass\nassert callable(k.__wrapped__)")
s.works("kernel.grad", "x, y = ti.field(ti.f64, 2, needs_grad=True), ti.field(ti.f64, 2, needs_grad=True)\n@ti.kernel\ndef k(a: ti.f64):\n    for i in x:\n        y[i] = a * x[i]\nk(3.0)\ny.grad.fill(1)\nk.grad(3.0)\nassert x.grad[1] == 3")

s = Section("Python in kernels")
s.one("tuples, lists, comprehensions", "> a = [i * 2 for i in ti.static(range(3))]\n> b, (c, d) = 1, (2, 3)\n> assert a[2] + b + c + d == 10")
s.one("dicts", "> d = {'a': 1, 'b': 2}\n> assert d['a'] + d['b'] == 3", partly=False)
s.one("f-strings and format in print", "> x = 1.5\n> print(f'{x:.2f} {x}', 'a', sep='-', end='')\n> print('{} {}'.format(x, 2))")
s.one("chained comparisons", "> x = 2\n> assert 1 < x < 3 <= 3")
s.one("conditional expressions", "> x = 2\n> y = 1 if x > 1 else 0\n> assert y == 1")
s.one(":= (NamedExpr)", "> y = (z := 3) + 1\n> assert y == 4 and z == 3")
s.one("while, break, continue", "> i = 0\n> while True:\n>     i += 1\n>     if i < 4:\n>         continue\n>     break\n> assert i == 4")
s.one("assert", "> assert 1 < 2, 'no'")
s.one("matrix slices", "> m = ti.Matrix([[1, 2, 3], [4, 5, 6]])\n> r = m[1, :]\n> assert r[2] == 6 and m[:, 0:2].m == 2")
s.one("and, or without short circuits", "> x = 1\n> assert x > 0 and (x < 2 or x > 5)")
for kind, code in {
    "nested functions": "> def g():\n>     pass",
    "try": "> try:\n>     pass\n> except Exception:\n>     pass",
    "with": "> with open('x'):\n>     pass",
    "sets": "> a = {1, 2}",
    "for-else": "> for i in range(3):\n>     pass\n> else:\n>     pass",
    "import": "> import os",
    "del": "> a = 1\n> del a",
    "range of three arguments": "> for i in range(0, 4, 2):\n>     pass",
}.items():
    s.refused(kind, code, "as in Taichi: TaichiSyntaxError", code="W0601", sep="\0")
s.refused("names that nothing has", "> nothing_at_all()", "as in Taichi: TaichiNameError", code="W0602", sep="\0")
s.one("min, max, abs, pow, int, float, bool, len", "> v = ti.Vector([1, 2, 3])\n> assert min(3, 1, 2) + max(1, 2) + abs(-3) + len(v) == 9\n> assert int(2.7) + float(1) == 3.0 and bool(3) and pow(2, 3) == 8")
s.one("any, all", "> v = ti.Vector([0, 1])\n> assert any(v) and not all(v)")
s.one("types as conversions: ti.u8(3)", "> a = ti.u8(200) + ti.u8(100)\n> assert a == 44\n> assert ti.cast(300, ti.u8) == 44")
s.works("ti.static", "> for i in ti.static(range(3)):\n>     if ti.static(i > 1):\n>         assert i == 2\n> a, b = ti.static(1, 2)")
s.works("ti.static_assert", "> ti.static_assert(1 < 2, 'no')")
s.works("ti.static_print", "> ti.static_print('seen', 1)")

s = Section("Loops")
s.one("range", "x = ti.field(ti.i32, ())\n> for i in range(2, 6):\n>     x[None] += i\nassert x[None] == 14")
s.works("ti.ndrange", "x = ti.field(ti.i32, ())\n> for i, j in ti.ndrange(3, (1, 4)):\n>     x[None] += j\nassert x[None] == 18")
s.works("ti.grouped", "f = ti.field(ti.i32, (3, 4))\n> for I in ti.grouped(f):\n>     f[I] = I[0] * 10 + I[1]\n> for I in ti.grouped(ti.ndrange(2, 2)):\n>     f[I] += 1\nassert f[2, 3] == 23")
s.one("loops over fields, nodes, ndarrays", "b = ti.root.bitmasked(ti.i, 8)\nf = ti.field(ti.i32)\nb.place(f)\nf[3] = 1\nn = ti.field(ti.i32, ())\n> for i in f:\n>     n[None] += 1\n> for i in b:\n>     n[None] += 10\nassert n[None] == 11")
s.works("ti.loop_config", "f = ti.field(ti.i32, 8)\n> ti.loop_config(block_dim=64, parallelize=2)\n> for i in f:\n>     f[i] = i\n> ti.loop_config(serialize=True)\n> for i in range(8):\n>     f[i] += 1\nassert f[7] == 8", "block_dim sets the grain size on the CPU and the block size on a GPU")
s.works("ti.block_local ti.cache_read_only", "f = ti.field(ti.i32, 8)\n> {}(f)\n> for i in f:\n>     f[i] = i", "ti.block_local uses a scratchpad where the access pattern allows it")
s.works("ti.assume_in_range", "> for i in range(8):\n>     j = ti.assume_in_range(i, i, 0, 1)")
s.works("ti.no_activate", "b = ti.root.pointer(ti.i, 8)\nf = ti.field(ti.i32)\nb.place(f)\n> ti.no_activate(b)\n> for i in range(8):\n>     f[i] = 1")
s.works("ti.lang.misc.loop_unique", "> for i in range(8):\n>     j = ti.lang.misc.loop_unique(i)", "a hint for lazy worlds (`async_mode`): loops with the same unique indices are fused")
MESH = "mesh = ti.Mesh.from_arrays([[0, 0], [1, 0], [0, 1]], faces=[[0, 1, 2]])\nmesh.verts.place({'n': ti.i32})\n"
s.works("ti.mesh_patch_idx", MESH + "> for v in mesh.verts:\n>     v.n = ti.mesh_patch_idx() + 1\nassert mesh.verts.n[2] == 1")
s.works("ti.mesh_local", MESH + "> ti.mesh_local(mesh.verts.n)\n> for v in mesh.verts:\n>     v.n = 1", "accepted and ignored")


s = Section("Types")
s.works("ti.i8 ti.i16 ti.i32 ti.i64 ti.u8 ti.u16 ti.u32 ti.u64 ti.f16 ti.f32 ti.f64 ti.u1", "f = ti.field({}, 4)\nf.fill(1)\nassert f[2] == 1\n> assert ti.cast(1.0, {}) == {}(1)")
s.works("ti.int8 ti.int16 ti.int32 ti.int64 ti.uint1 ti.uint8 ti.uint16 ti.uint32 ti.uint64 ti.float16 ti.float32 ti.float64", "assert {} is getattr(ti, '{.}'.replace('uint', 'u').replace('int', 'i').replace('float', 'f'))")
s.works("ti.cast", "> assert ti.cast(2.7, ti.i32) == 2")
s.works("ti.bit_cast", "> assert ti.bit_cast(1.0, ti.i32) == 1065353216")
s.works("ti.types.vector ti.types.matrix", "V = ti.types.vector(3, ti.f32)\nM = ti.types.matrix(2, 2, ti.f32)\n> assert V(1, 2, 3).sum() == 6 and M([[1, 2], [3, 4]]).trace() == 5")
s.works("ti.types.struct", "S = ti.types.struct(a=ti.i32, v=ti.math.vec2)\n> x = S(1, ti.math.vec2(2))\n> assert x.v.y == 2")
s.works("ti.types.argpack", "P = ti.types.argpack(a=ti.i32, b=ti.f32)\n@ti.kernel\ndef k(p: P) -> ti.f32:\n    return p.a + p.b\nassert k(P(a=1, b=2.5)) == 3.5")
s.works("ti.types.ndarray", "@ti.kernel\ndef k(a: ti.types.ndarray(dtype=ti.f32, ndim=2)) -> ti.f32:\n    return a[1, 1]\nassert k(np.ones((2, 2), np.float32)) == 1")
s.works("ti.types.template() ti.template() ti.template", "@ti.kernel\ndef k(f: {}):\n    for i in f:\n        f[i] = 1\nf = ti.field(ti.i32, 4)\nk(f)\nassert f[3] == 1")
s.works("ti.ref", "@ti.real_func\ndef f(a: ti.ref(ti.i32)):\n    a = 5\n> x = 1\n> f(x)\n> assert x == 5")
s.works("ti.types.is_integral ti.types.is_real ti.types.is_signed ti.types.is_tensor", "assert isinstance({}(ti.f32), bool)")
s.works("ti.types.sparse_matrix_builder", "{}()")
s.works("ti.types.texture ti.types.rw_texture", "{}(2) if '{}'.endswith('.texture') else {}(2, fmt=ti.Format.r32f, lod=0)")
