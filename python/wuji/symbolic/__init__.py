"""Traced programs: numeric code runs once on symbols, and what it computes is compiled for one sparsity pattern.

```python
import numpy as np
import wuji as ti
from wuji import symbolic

ti.init(arch=ti.cpu)

def energy(x):
    d = x[1:] - x[:-1]
    return 0.5 * np.sum((np.sqrt(np.sum(d * d, axis=1)) - 1.0) ** 2)

def newton(x):
    e = energy(x)
    return e, symbolic.gradient(e, x), symbolic.hessian(e, x)

x = np.random.rand(100, 2)
program = symbolic.trace(newton, x)  # once
e, gradient, hessian = program(x)    # again and again
```
"""

from .derivatives import gradient, hessian, jacobian, project_definite
from .program import Program, Trace, load, record, trace
from .sparse import SparseArray, assemble, csc, csr
from .symbols import Array, Sym, array, block, where

__all__ = [
    "Array", "Program", "SparseArray", "Sym", "Trace", "array", "assemble", "block", "csc", "csr", "gradient", "hessian", "jacobian",
    "load", "project_definite", "record", "trace", "where",
]  # fmt: skip
