"""Mistakes in signatures, calls and results of kernels and functions."""

from . import mistake


def of_kernel(name: str, error: str, phrase: str, signature: str, call: str, body: str = "pass") -> None:
    mistake(name, error, phrase, f"@ti.kernel\ndef run({signature}:\n    {body}\n{call}")


of_kernel("a parameter without annotation", "TaichiSyntaxError", "Taichi kernels parameters must be type annotated", "a)", "run(1)")
of_kernel("an annotation that is a number", "TaichiSyntaxError", "Invalid type annotation", "a: 3)", "run(1)")
of_kernel("an annotation that is a quantized type", "TaichiSyntaxError", "Invalid type annotation", "a: ti.types.quant.int(5))", "run(1)")
of_kernel("an annotation that is not defined", "TaichiSyntaxError", "Invalid type annotation", 'a: "abc")', "run(1)")
of_kernel("positional parameters", "TaichiSyntaxError", "Taichi kernels do not support variable positional parameters (i.e., *args)", "*a)", "run(1)")
of_kernel("keyword parameters", "TaichiSyntaxError", "Taichi kernels do not support variable keyword parameters (i.e., **kwargs)", "**a)", "run(a=1)")
of_kernel("keyword-only parameters", "TaichiSyntaxError", "Taichi kernels do not support keyword parameters", "*, a: ti.i32)", "run(a=1)")
of_kernel("too few arguments", "TaichiSyntaxError", "Parameter `b : i32` missing.", "a: ti.i32, b: ti.i32)", "run(1)")
of_kernel("too many arguments", "TaichiSyntaxError", "Too many arguments. Expected (a : i32), got ", "a: ti.i32)", "run(1, 2)")
of_kernel("an unknown argument", "TaichiSyntaxError", "Unexpected argument 'b'.", "a: ti.i32)", "run(1, b=2)")
of_kernel("a float for an integer", "TaichiRuntimeTypeError", "cannot be converted into required type i32", "a: ti.i32)", "run(1.5)")
of_kernel("a string for a float", "TaichiRuntimeTypeError", "cannot be converted into required type f32", "a: ti.f32)", 'run("x")')
of_kernel("None for an integer", "TaichiRuntimeTypeError", "cannot be converted into required type i32", "a: ti.i32)", "run(None)")
of_kernel("an array for a float", "TaichiRuntimeTypeError", "cannot be converted into required type f32", "a: ti.f32)", "run(np.zeros(3))")
of_kernel("a number for an array", "TaichiRuntimeTypeError", "Invalid type for argument a, got ", "a: ti.types.ndarray())", "run(1)")
of_kernel("a list for an array", "TaichiRuntimeTypeError", "Invalid type for argument a, got ", "a: ti.types.ndarray())", "run([1, 2])")
of_kernel("an array of another type", "TypeError", "Expect element type f32 for argument a, but get i32", "a: ti.types.ndarray(dtype=ti.f32))", "run(ti.ndarray(ti.i32, 3))")
of_kernel("a NumPy array of another type", "ValueError", "required array has dtype=f32, array with dtype=i32 is provided", "a: ti.types.ndarray(dtype=ti.f32, ndim=1))", "run(np.zeros(3, dtype=np.int32))")
of_kernel("an array with another number of axes", "ValueError", "required ndim=2, but 1d ndarray with shape (3,) is provided", "a: ti.types.ndarray(ndim=2))", "run(ti.ndarray(ti.i32, 3))")
of_kernel("an array of other vectors", "ValueError", "required element type: ", "a: ti.types.ndarray(dtype=ti.math.vec3, ndim=1))", "run(ti.Vector.ndarray(2, ti.f32, 3))")
of_kernel("a number for a struct", "TaichiRuntimeTypeError", "cannot be converted into required type", "s: ti.types.struct(a=ti.i32))", "run(3)")
of_kernel("a number for an argument pack", "TaichiRuntimeTypeError", "argument pack, got <class 'int'>", "s: ti.types.argpack(a=ti.i32))", "run(3)")
of_kernel("a number for a texture", "TaichiRuntimeTypeError", "must be a texture, got <class 'int'>", "s: ti.types.texture(2))", "run(3)")
of_kernel("a result without annotation", "TaichiSyntaxError", "A kernel with a return value must be annotated with a return type", ")", "run()", "return 1")
of_kernel("an annotation without a result", "TaichiSyntaxError", "Kernel has a return type but does not have a return statement", ") -> ti.i32", "run()")
of_kernel("a vector as a scalar result", "TaichiCompilationError", "", ") -> ti.i32", "run()", "return ti.Vector([1, 2])")
of_kernel("too many results", "TaichiCompilationError", "", ") -> (ti.i32, ti.i32)", "run()", "return 1, 2, 3")
of_kernel("a result of another length", "TaichiCompilationError", "", ") -> ti.types.vector(3, ti.i32)", "run()", "return ti.Vector([1, 2])")
of_kernel("a result of an unknown type", "TaichiCompilationError", "", ") -> str", "run()", "return 1")

mistake("a kernel that calls a kernel", "TaichiSyntaxError", "Kernels cannot call other kernels", """
    @ti.kernel
    def inner():
        pass
    > inner()
""")  # fmt: skip
mistake("a function that is called from Python", "TaichiSyntaxError", "Taichi functions cannot be called from Python-scope", """
    @ti.func
    def g(x):
        return x
    g(1)
""")  # fmt: skip
mistake("a function with too few arguments", "TaichiSyntaxError", "Parameter `y` missing.", """
    @ti.func
    def g(x, y):
        return x
    > g(1)
""")  # fmt: skip
mistake("a function with an unknown argument", "TaichiSyntaxError", "Unexpected argument 'z'.", """
    @ti.func
    def g(x, y):
        return x
    > g(1, z=1)
""")  # fmt: skip
mistake("a recursive function", "TaichiCompilationError", "", """
    @ti.func
    def g(x):
        return g(x)
    > g(1)
""")  # fmt: skip
mistake("a method of a plain class", "TaichiSyntaxError", "Please decorate class A with @ti.data_oriented", """
    class A:
        @ti.kernel
        def run(self):
            pass
    A().run()
""")  # fmt: skip
