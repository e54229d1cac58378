"""Mistakes in the bodies of kernels."""

from . import mistake

# Names and statements.
mistake("an undefined name", "TaichiNameError", 'Name "nope" is not defined', "> b = nope")
mistake("a name of an inner block", "TaichiNameError", 'Name "b" is not defined', "> if a > 0:\n>     b = 1\n> c = b")
mistake("a name of a loop", "TaichiNameError", 'Name "b" is not defined', "> for i in range(3):\n>     b = i\n> c = b")
mistake("a lambda", "TaichiSyntaxError", 'Unsupported node "Lambda"', "> g = lambda x: x")
mistake("a nested function", "TaichiSyntaxError", "Function definition is not allowed in 'ti.kernel'", "> def g():\n>     pass")
mistake("try", "TaichiSyntaxError", 'Unsupported node "Try"', "> try:\n>     b = 1\n> except Exception:\n>     pass")
mistake("with", "TaichiSyntaxError", 'Unsupported node "With"', "> with open('x'):\n>     pass")
mistake("raise", "TaichiSyntaxError", 'Unsupported node "Raise"', "> raise ValueError()")
mistake("a set", "TaichiSyntaxError", 'Unsupported node "Set"', "> b = {1, 2}")
mistake("del", "TaichiSyntaxError", 'Unsupported node "Delete"', "> b = 1\n> del b")
mistake("import", "TaichiSyntaxError", 'Unsupported node "Import"', "> import os")
mistake("global", "TaichiSyntaxError", 'Unsupported node "Global"', "> global something\n> something = 1")
mistake("yield", "TaichiSyntaxError", 'Unsupported node "Yield"', "> yield 1")
mistake("else of a for", "TaichiSyntaxError", "'else' clause for 'for' not supported in Taichi kernels", "> for i in range(3):\n>     pass\n> else:\n>     pass")
mistake("else of a while", "TaichiSyntaxError", "'else' clause for 'while' not supported in Taichi kernels", "> while a:\n>     pass\n> else:\n>     pass")
mistake("break in an outermost loop", "TaichiSyntaxError", "Cannot break in the outermost loop", "> for i in range(3):\n>     break")
mistake("return in an outermost loop", "TaichiSyntaxError", "Return inside non-static if/for is not supported", """
    @ti.kernel
    def run() -> ti.i32:
        for i in range(3):
            return 1
        return 0
    run()
""")  # fmt: skip
mistake("a range with a step", "TaichiSyntaxError", "Range should have 1 or 2 arguments, found 3", "> for i in range(0, 10, 2):\n>     pass")
mistake("a loop variable that is taken", "TaichiSyntaxError", "Variable 'i' is already declared in the outer scope", "> i = 1\n> for i in range(3):\n>     pass")
mistake("too few targets", "TaichiSyntaxError", "The number of targets is not equal to value length", "> b, c = 1, 2, 3")
mistake("a scalar that is unpacked", "TaichiSyntaxError", "Cannot unpack type", "> b, c = a")
mistake("is", "TaichiSyntaxError", 'Operator "is" in Taichi scope is not supported', "> b = 2\n> c = a is b")
mistake("in", "TaichiSyntaxError", '"In" is only supported inside `ti.static`', "> c = a in [1, 2]")
mistake("static of a variable", "TaichiCompilationError", "Input to ti.static must be compile-time constants or global pointers", "> if ti.static(a > 1):\n>     pass")
mistake("a static range of a variable", "TypeError", "", "> for i in ti.static(range(a)):\n>     pass")
mistake("a false static assertion", "TaichiCompilationError", "one is not two", '> ti.static_assert(1 == 2, "one is not two")')
mistake("a static assertion of a variable", "TaichiTypeError", "Static assert with non-static condition", '> ti.static_assert(a == 2, "two")')
mistake("an assertion", "TaichiAssertionError", "a is 1", """
    ti.init(arch=ti.cpu, debug=True)
    > assert a == 2, f"a is {a}"
""")  # fmt: skip
mistake("an element out of bounds", "TaichiAssertionError", "", """
    ti.init(arch=ti.cpu, debug=True)
    x = ti.field(ti.i32, 4)
    > x[a + 4] = 1
""")  # fmt: skip
mistake("a component out of bounds", "TaichiAssertionError", "", """
    ti.init(arch=ti.cpu, debug=True)
    > v = ti.Vector([1, 2, 3])
    > x = v[a + 4]
    > print(x)
""")  # fmt: skip

# Types.
mistake("bits of a float", "TaichiTypeError", "unsupported operand type(s) for '&': 'f32' and 'i32'", "> b = f & 1")
mistake("a float that is shifted", "TaichiTypeError", "unsupported operand type(s) for '<<': 'f32' and 'i32'", "> b = f << 1")
mistake("a float that is inverted", "TaichiTypeError", "", "> b = ~f")
mistake("a vector as a condition", "TaichiTypeError", "`if` conditions must be an integer; found ", "> v = ti.Vector([1, 2])\n> if v:\n>     pass")
mistake("a sum of vectors of different lengths", "TaichiTypeError", "unsupported operand type(s) for '+'", "> v = ti.Vector([1, a]) + ti.Vector([1, 2, 3])")
mistake("a product that does not fit", "TaichiCompilationError", "dimension mismatch between (2, 2) and (3,) for matrix multiplication", "> b = ti.Matrix([[1, 2], [3, 4]]) @ ti.Vector([1, 2, 3])")
mistake("a method of a scalar", "TaichiCompilationError", "", "> b = a.dot(2)")
mistake("a number plus a string", "TaichiTypeError", "unsupported operand type(s) for +: 'int' and 'str'", '> b = 1 + "x"')
mistake("a number plus None", "TaichiTypeError", "Invalid constant scalar data type: <class 'NoneType'>", "> b = a + None")
mistake("a comparison with None", "TaichiTypeError", "", "> b = a < None")
mistake("a scalar with an index", "TaichiCompilationError", "", "> b = a[0]")
mistake("a vector of another length", "TaichiTypeError", "cannot assign '", "> b = ti.Vector([1, 2])\n> b = ti.Vector([1, 2, 3])")
mistake("too few indices", "TaichiIndexError", "Field with dim 2 accessed with indices of dim 1", "x = ti.field(ti.i32, (3, 3))\n> x[0] = 1")
mistake("too many indices", "TaichiIndexError", "Field with dim 2 accessed with indices of dim 3", "x = ti.field(ti.i32, (3, 3))\n> x[0, 0, 0] = 1")
mistake("a float as an index", "TaichiTypeError", "indices must be integers, however 'f32' is provided as index 0", "x = ti.field(ti.i32, 3)\n> x[f] = 1")
mistake("a slice of a field", "TaichiSyntaxError", "do not support index of slice type", "x = ti.field(ti.i32, 3)\n> x[0:2] = 1")
mistake("too many indices of a matrix", "TaichiIndexError", "Expected 2 indices, got 3", "> v = ti.Matrix([[1, 2], [3, 4]])\n> b = v[0, 0, 0]")
mistake("too many indices of a vector", "TaichiIndexError", "Expected 1 indices, got 2", "> v = ti.Vector([1, 2])\n> b = v[0, 1]")
mistake("too few indices of an array", "TaichiIndexError", "Array with dim 2 accessed with indices of dim 1", """
    @ti.kernel
    def run(x: ti.types.ndarray()):
        x[0] = 1
    run(np.zeros((3, 3), dtype=np.int32))
""")  # fmt: skip
mistake("an unknown function", "TaichiCompilationError", "has no attribute 'sinus'", "> b = ti.sinus(1.0)")
mistake("an unknown method", "TaichiCompilationError", "has no attribute", "> v = ti.Vector([1, 2])\n> b = v.foo()")
mistake("an unknown member", "TaichiCompilationError", "", "S = ti.types.struct(a=ti.i32)\n> s = S(a=1)\n> b = s.b")
mistake("a swizzle of a short vector", "TaichiSyntaxError", "vec2 only has attributes=('x', 'y'), got=('z',)", "> v = ti.Vector([1, 2])\n> b = v.z")
mistake("a cast to nothing", "TaichiCompilationError", "Invalid data type", '> b = ti.cast(1, "float")')
mistake("a function of a string", "TaichiTypeError", "", '> b = ti.sin("x")')
mistake("an atomic operation on a number", "TaichiSyntaxError", "cannot use a non-writable target as the first operand of 'atomic_add'", "> ti.atomic_add(1, 2)")
mistake("a loop over a number", "TaichiCompilationError", "Cannot loop over the object <class 'int'> in Taichi scope", "> for i in 5:\n>     pass")
mistake("a loop over a list", "TaichiCompilationError", "Cannot loop over the object <class 'list'> in Taichi scope", "> for i in [1, 2, 3]:\n>     pass")
mistake("a loop with too many variables", "TaichiCompilationError", "Number of struct-for indices does not match loop variable dimensionality (3 != 2)", "x = ti.field(ti.i32, (3, 3))\n> for i, j, l in x:\n>     pass")
mistake("a loop over an unplaced field", "RuntimeError", "field(s) are not placed", "x = ti.field(ti.i32)\n> for i in x:\n>     pass")
mistake("an element of an unplaced field", "RuntimeError", "field(s) are not placed", "x = ti.field(ti.i32)\n> x[0] = 1")
mistake("an ndrange of a float", "TaichiTypeError", "Every argument of ndrange should be an integer scalar or a tuple/list of (int, int)", "> for i in ti.ndrange(1.5):\n>     pass")
mistake("an ndrange of a triple", "TaichiSyntaxError", "Every argument of ndrange should be a scalar or a tuple/list like (begin, end)", "> for i in ti.ndrange((1, 2, 3)):\n>     pass")
mistake("a function of NumPy", "TaichiTypeError", "Did you mean to use `ti.sin` instead of `numpy.sin`?", "> b = np.sin(f)")
mistake("an SVD of a large matrix", "TaichiCompilationError", "SVD only supports 2D and 3D matrices", "> u, s, v = ti.svd(ti.Matrix.identity(ti.f32, 4))")
mistake("an inverse of a large matrix", "TaichiCompilationError", "only dimension < 5 is supported, got shape (5, 5)", "> b = ti.Matrix.identity(ti.f32, 5).inverse()")
mistake("a determinant of a rectangle", "TaichiCompilationError", "expected a square matrix, got shape (2, 3)", "> b = ti.Matrix([[1, 2, 3], [3, 4, 5]]).determinant()")
mistake("a cross product in 4-D", "TaichiCompilationError", "only dimension < 4 is supported, got shape (4,)", "> v = ti.Vector([1, 2, 3, 4])\n> b = v.cross(v)")
mistake("append to a dense node", "TaichiTypeError", "ti.append only works on dynamic nodes", "x = ti.field(ti.i32, 3)\n> ti.append(x.parent(), [], 1)")

# Operators of constants.
mistake("a shift of a float", "TaichiTypeError", "unsupported operand type(s) for <<: 'float' and 'int'", "> b = 1.5 << 2")
mistake("a shift by a float", "TaichiTypeError", "unsupported operand type(s) for >>: 'int' and 'float'", "> b = 1 >> 2.5")
mistake("the complement of a float", "TaichiCompilationError", "bad operand type for unary ~: 'float'", "> b = ~1.5")

# Objects as conditions.
for _name, _made in (("0-D field", "ti.field(ti.i32, ())"), ("field", "ti.field(ti.i32, 3)"), ("array", "ti.ndarray(ti.i32, 3)"), ("string", "'on'"), ("class", "object")):
    for _form, _body in (("if", "> if x:\n>     pass"), ("while", "> while x:\n>     pass"), ("assert", "> assert x"), ("and", "> b = 0\n> if a and x:\n>     b = 1")):
        _phrase = "Invalid constant scalar data type: <class"
        mistake(f"a {_name} as a condition of {_form}", "TaichiTypeError", _phrase, f"x = {_made}\n{_body}")
mistake("a constant index beyond i32", "TaichiTypeError", "Integer literal 4294967296 exceeded the range of default_ip: i32", "x = ti.field(ti.i32, 4)\n> b = x[4294967296]")
