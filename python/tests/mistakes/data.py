"""Mistakes outside kernels: fields, layouts, arrays, values and options."""

from . import mistake

PLACED = "x = ti.field(ti.i32)\nbuilder = ti.FieldsBuilder()\nbuilder.dense(ti.i, 3).place(x)\ntree = builder.finalize()\n"

# Fields and layouts.
mistake("an empty axis", "RuntimeError", "should be positive", "ti.field(ti.i32, (0, 3))")
mistake("a negative extent", "RuntimeError", "should be positive", "ti.field(ti.i32, -1)")
mistake("an empty node", "RuntimeError", "should be positive", "ti.root.dense(ti.i, 0)")
mistake("a float as a shape", "TypeError", "", "ti.field(ti.i32, 2.5)")
mistake("a string as a shape", "TypeError", "", 'ti.field(ti.i32, "3")')
mistake("an axis of 2^31 elements", "TypeError", "", "ti.field(ti.i32, 2**31)")
mistake("too many axes", "RuntimeError", "Too many dimensions", "ti.field(ti.i32, (1,) * 13)")
mistake("an unknown type", "ValueError", "Invalid data type", 'ti.field("f32", 3)')
mistake("a field without a type", "TypeError", "missing 1 required positional argument: 'dtype'", "ti.field(shape=3)")
mistake("an offset of another length", "TaichiSyntaxError", "The dimensionality of shape and offset must be the same (2 != 1)", "ti.field(ti.i32, (3, 3), offset=(1,))")
mistake("an offset without a shape", "TaichiSyntaxError", "shape cannot be None when offset is set", "ti.field(ti.i32, offset=(1,))")
mistake("an order without a shape", "TaichiSyntaxError", "shape cannot be None when order is set", 'ti.field(ti.i32, order="ij")')
mistake("an unknown axis", "TaichiSyntaxError", "Invalid axis k", 'ti.field(ti.i32, (3, 3), order="ik")')
mistake("a field with too few indices", "AssertionError", "Slicing is not supported on ti.field", "ti.field(ti.i32, (3, 3))[0]")
mistake("a slice of a field in Python", "TypeError", "slicing a ti.field is not supported", "ti.field(ti.i32, 3)[0:2]")
mistake("an element that does not exist", "AssertionError", "", "ti.init(arch=ti.cpu, debug=True)\nti.field(ti.i32, 3)[3]")
mistake("a string in a field", "TypeError", "", 'ti.field(ti.i32, 3)[0] = "a"')
mistake("a field that is not placed", "RuntimeError", "field(s) are not placed", "ti.field(ti.i32)[0] = 1")
mistake("a field that is placed twice", "RuntimeError", "This variable has been placed", "x = ti.field(ti.i32, 3)\nti.root.place(x)")
mistake("a number that is placed", "ValueError", "3 cannot be placed", "ti.root.place(3)")
mistake("a gradient that is placed", "ValueError", "None cannot be placed", "x = ti.field(ti.i32)\nti.root.place(x, x.grad)")
mistake("a number as axes", "TypeError", "", "ti.root.dense(0, 3)")
mistake("more extents than axes", "RuntimeError", "axes and sizes must have the same size, but got 2 and 3", "ti.root.dense(ti.ij, (3, 3, 3))")
mistake("a layout that is finalized twice", "TaichiRuntimeError", "FieldsBuilder finalized", PLACED + "builder.finalize()")
mistake("a node after finalizing", "TaichiRuntimeError", "FieldsBuilder finalized", PLACED + "builder.dense(ti.i, 3)")
mistake("a tree that is destroyed twice", "TaichiRuntimeError", "SNode tree has been destroyed", PLACED + "tree.destroy()\ntree.destroy()")
mistake("a field before init", "TaichiRuntimeError", "maybe you forgot to call `ti.init()` first?", "ti.reset()\nti.field(ti.i32, 3)")

# Quantized types.
PACKED = "q = ti.types.quant\nx, y, pack = ti.field(q.int(5)), ti.field(q.int(5)), ti.BitpackedFields(max_num_bits=8)\n"
mistake("a fixed-point type that computes with integers", "RuntimeError", "", "ti.types.quant.fixed(10, compute=ti.i32)")
mistake("a quantized float with a large exponent", "RuntimeError", "", "ti.types.quant.float(9, 8)")
mistake("bits that are not an integer", "TypeError", "", "ti.types.quant.int(5.0)")
mistake("a word of 7 bits", "RuntimeError", "7", "ti.BitpackedFields(max_num_bits=7)")
mistake("bits that do not fit a word", "RuntimeError", "", PACKED + "pack.place(x, y)")
mistake("a plain field in a word", "RuntimeError", "", PACKED + "pack.place(ti.field(ti.i32))")
mistake("a number in a word", "AssertionError", "", PACKED + "pack.place(3)")
mistake("integers that share an exponent", "RuntimeError", "", PACKED + "ti.BitpackedFields(max_num_bits=32).place(x, y, shared_exponent=True)")
mistake("exponents of several sizes", "RuntimeError", "", "q = ti.types.quant\nti.BitpackedFields(max_num_bits=32).place(ti.field(q.float(5, 8)), ti.field(q.float(6, 8)), shared_exponent=True)")
mistake("one number that shares an exponent", "TaichiSyntaxError", "At least 2 fields need to be placed when shared_exponent=True", "pack = ti.BitpackedFields(max_num_bits=32)\npack.place(ti.field(ti.types.quant.float(5, 8)), shared_exponent=True)")
mistake("a word that is placed twice", "RuntimeError", "This variable has been placed", PACKED + "pack.place(x)\nti.root.dense(ti.i, 4).place(pack)\nti.root.dense(ti.i, 4).place(pack)")
mistake("a word that is not placed", "RuntimeError", "field(s) are not placed", PACKED + "pack.place(x)\nx[0] = 1")
mistake("a quantized field in a dense node", "RuntimeError", "", PACKED + "ti.root.dense(ti.i, 4).place(x)\nx[0] = 1")
mistake("a quantized field with a shape", "RuntimeError", "", "x = ti.field(ti.types.quant.int(5), shape=4)\nx[0] = 1")
mistake("two fields in a quantized array", "RuntimeError", "", PACKED + "ti.root.dense(ti.i, 4).quant_array(ti.i, 4, max_num_bits=64).place(x, y)\nx[0] = 1")
mistake("a plain field in a quantized array", "RuntimeError", "", "x = ti.field(ti.i8)\nti.root.dense(ti.i, 4).quant_array(ti.i, 4, max_num_bits=32).place(x)\nx[0] = 1")
mistake("a node below a quantized array", "RuntimeError", "", PACKED + "ti.root.dense(ti.i, 4).quant_array(ti.i, 4, max_num_bits=32).dense(ti.i, 2).place(x)\nx[0] = 1")
mistake("an array of a quantized type", "TaichiRuntimeError", "is not supported as ndarray element type", "ti.ndarray(ti.types.quant.int(5), shape=4)")
mistake("components with several compute types", "TaichiRuntimeError", "Member fields of a matrix field must have the same compute type", "ti.Vector.field(2, dtype=[ti.f32, ti.i32])")

# Copies.
mistake("an array of another shape", "ValueError", "does not match the numpy array shape (4,)", "ti.field(ti.i32, 3).from_numpy(np.zeros(4))")
mistake("a copy of a number", "TypeError", "Cannot copy from a non-field object", "ti.field(ti.i32, 3).copy_from(3)")
mistake("a copy of another shape", "ValueError", "does not match the source field shape (4,)", "ti.field(ti.i32, 3).copy_from(ti.field(ti.i32, 4))")

# Arrays.
mistake("an empty array", "TaichiRuntimeError", "(0,) is not a valid shape for ndarray", "ti.ndarray(ti.i32, 0)")
mistake("an array with a negative extent", "TaichiRuntimeError", "(-1,) is not a valid shape for ndarray", "ti.ndarray(ti.i32, -1)")
mistake("an array of 2^31 elements", "TaichiRuntimeError", "(2147483648,) is not a valid shape for ndarray", "ti.ndarray(ti.i32, 2**31)")
mistake("an array with a float as a shape", "TaichiRuntimeError", "is not a valid shape", "ti.ndarray(ti.i32, 2.5)")
mistake("an array of nothing", "TaichiRuntimeError", "is not supported as ndarray element type", 'ti.ndarray("f32", 3)')
mistake("an array with too few indices", "TaichiIndexError", "2d ndarray indexed with 1d indices: (0,)", "ti.ndarray(ti.i32, (3, 3))[0]")
mistake("a NumPy array of another shape", "ValueError", "Mismatch shape: (3,) expected, but (4,) provided", "ti.ndarray(ti.i32, 3).from_numpy(np.zeros(4, dtype=np.int32))")
mistake("a list for a NumPy array", "TypeError", "expected, but <class 'list'> provided", "ti.ndarray(ti.i32, 3).from_numpy([1, 2, 3])")
mistake("a copy of another array", "AssertionError", "", "ti.ndarray(ti.i32, 3).copy_from(ti.ndarray(ti.i32, 4))")
mistake("an array before init", "TaichiRuntimeError", "maybe you forgot to call `ti.init()` first?", "ti.reset()\nti.ndarray(ti.i32, 3)")

# Values.
mistake("an unknown member field", "AttributeError", "", "ti.Struct.field({'a': ti.i32}, shape=3).b")
mistake("a member that does not exist", "AttributeError", "", "ti.Struct(a=1).b")
mistake("a component that does not exist", "IndexError", "index 2 is out of", "ti.Vector([1, 2])[2]")
mistake("a sum of vectors that does not fit", "ValueError", "operands could not be broadcast together", "ti.Vector([1, 2]) + ti.Vector([1, 2, 3])")
mistake("rows of different lengths", "ValueError", "", "ti.Matrix([[1, 2], [3]])")
mistake("an attribute of a vector", "AttributeError", "", "ti.Vector([1, 2]).foo")
mistake("a swizzle that does not fit", "TaichiSyntaxError", "vec2 only has attributes=('x', 'y'), got=('x', 'z')", "ti.Vector([1, 2]).xz")

# Options.
mistake("an unknown option", "KeyError", "Unrecognized keyword argument(s) for ti.init: foo", "ti.init(arch=ti.cpu, foo=1)")
mistake("an unknown log level", "RuntimeError", "", 'ti.init(arch=ti.cpu, log_level="loud")')
mistake("a string for a bool", "TypeError", "", 'ti.init(arch=ti.cpu, debug="maybe")')
mistake("a string for a number of threads", "TypeError", "", 'ti.init(arch=ti.cpu, cpu_max_num_threads="all")')
mistake("a string for a seed", "TypeError", "", 'ti.init(arch=ti.cpu, random_seed="x")')
mistake("a version of the future", "Exception", "Taichi version mismatch. Required version >= 9.9.9", 'ti.init(arch=ti.cpu, require_version="9.9.9")')

# The library.
mistake("an image of another size", "AssertionError", "Image resolution does not match GUI resolution", 'ti.GUI("a", (16, 16), show_gui=False).set_image(np.zeros((8, 8, 3), dtype=np.float32))')
mistake("a number as an image", "ValueError", "GUI.set_image only takes a Taichi field or NumPy array, not <class 'int'>", 'ti.GUI("a", (16, 16), show_gui=False).set_image(3)')
mistake("an image that does not exist", "RuntimeError", "Cannot read image file [/nowhere.png]", 'ti.tools.imread("/nowhere.png")')
mistake("a channel of another length", "AssertionError", "", "ti.tools.PLYWriter(num_vertices=3).add_vertex_pos(np.zeros(2), np.zeros(2), np.zeros(2))")
mistake("an unknown solver", "TaichiRuntimeError", "The solver type QR with AMD is not supported", 'ti.linalg.SparseSolver(solver_type="QR")')
mistake("a solver for integers", "RuntimeError", "", "ti.linalg.SparseSolver(dtype=ti.i32)")
mistake("sparse matrices that do not fit", "AssertionError", "Dimension mismatch between sparse matrices (2, 3) and (2, 3)", "ti.linalg.SparseMatrix(n=2, m=3) @ ti.linalg.SparseMatrix(n=2, m=3)")
