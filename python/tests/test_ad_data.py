"""Where gradients are: fields, structs, matrices, layouts, arrays and foreign memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti


def test_a_field_of_floats_has_companions() -> None:
    x = ti.field(ti.f32, (2, 3), needs_grad=True, needs_dual=True, offset=(-1, 4))
    assert x.grad.shape == (2, 3) and x.grad.dtype is ti.f32 and x.grad.offset == (-1, 4)
    x.grad[-1, 5] = 2.5
    x.dual.fill(3.0)
    assert x.grad.to_numpy()[0, 1] == 2.5 and x.dual[0, 4] == 3.0
    assert x.grad.grad is None and x.needs_grad
    assert x.grad is x.grad


def test_a_gradient_without_needs_grad_is_not_allocated() -> None:
    x = ti.field(ti.f32, 4)
    assert not x.needs_grad and not x.snode.needs_grad
    with pytest.raises(RuntimeError, match="not placed"):
        x.grad[0]
    assert ti.field(ti.i32, 4).grad is None


def test_integers_cannot_need_gradients() -> None:
    for make in (
        lambda: ti.field(ti.i32, 4, needs_grad=True),
        lambda: ti.Vector.field(2, ti.u8, 4, needs_dual=True),
        lambda: ti.Struct.field({"a": ti.f32, "b": ti.i32}, shape=4, needs_grad=True),
    ):
        with pytest.raises(ti.TaichiRuntimeError, match="is not supported for field with `needs_grad=True` or `needs_dual=True`"):
            make()
    with pytest.raises(ti.TaichiRuntimeError, match="is not supported for ndarray with `needs_grad=True`"):
        ti.ndarray(ti.i32, 4, needs_grad=True)


def test_gradients_are_placed_by_hand() -> None:
    x = ti.field(ti.f64)
    y = ti.field(ti.f64, needs_grad=True)
    ti.root.dense(ti.i, 4).place(x, x.grad)
    ti.root.place(y, y.grad)
    assert x.grad.parent() is not None and x.grad.shape == (4,)
    assert y.grad[None] == 0.0 and x.snode.needs_grad


def test_lazy_grad_places_all_gradients_of_floats() -> None:
    x, n, v = ti.field(ti.f64), ti.field(ti.i32), ti.Vector.field(2, ti.f32)
    block = ti.root.dense(ti.i, 4)
    block.place(x, n, v)
    ti.root.lazy_grad()
    ti.root.lazy_grad()
    ti.root.lazy_dual()
    assert x.grad.shape == v.grad.shape == (4,) and n.grad is None
    v.dual[2] = [1.0, 2.0]
    assert v.dual[2][1] == 2.0


def test_lazy_grad_of_a_node_counts_for_what_is_below() -> None:
    x, y = ti.field(ti.f64), ti.field(ti.f64)
    block = ti.root.dense(ti.i, 4)
    block.place(x)
    ti.root.dense(ti.j, 2).place(y)
    block.lazy_grad()
    assert x.needs_grad and not y.needs_grad


def test_lazy_grad_counts_for_fields_with_a_shape() -> None:
    x, v = ti.field(ti.f64, shape=(4, 2), order="ji"), ti.Vector.field(2, ti.f32, shape=(), offset=None)
    n = ti.field(ti.i32, shape=3)
    y = ti.field(ti.f64)
    ti.root.dense(ti.i, 5).place(y)
    ti.root.lazy_grad()
    assert x.grad.shape == (4, 2) and v.grad.shape == () and n.grad is None and y.grad.shape == (5,)
    x.grad[3, 1] = 2.0
    assert x.grad[3, 1] == 2.0 and x[3, 1] == 0.0
    later = ti.field(ti.f64, shape=4)
    assert not later.needs_grad


def test_needed_gradients_are_placed_with_their_fields() -> None:
    x = ti.field(ti.f64, needs_grad=True)
    ti.root.pointer(ti.i, 4).dense(ti.i, 2).place(x)
    x[3] = 1.0
    assert x.grad[3] == 0.0
    fields = ti.FieldsBuilder()
    y = ti.field(ti.f64, needs_grad=True)
    fields.dense(ti.i, 3).place(y)
    tree = fields.finalize()
    assert y.grad.to_numpy().tolist() == [0.0] * 3
    tree.destroy()


def test_gradients_of_struct_fields_are_struct_fields() -> None:
    s = ti.Struct.field({"a": ti.f64, "v": ti.types.vector(2, ti.f64)}, shape=3, needs_grad=True)
    assert s.grad.keys == ["a", "v"]
    s.a.grad[1] = 2.0
    s.grad.v[0] = [3.0, 4.0]
    assert s.grad[1].a == 2.0 and s.v.grad[0][1] == 4.0


@pytest.mark.parametrize("layout", [ti.Layout.AOS, ti.Layout.SOA])
def test_gradients_of_vector_fields(layout: Any) -> None:
    x = ti.Vector.field(3, ti.f64, 4, needs_grad=True, layout=layout)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += x[i][0] * x[i][1] + x[i][2] ** 2

    values = np.random.default_rng(0).standard_normal((4, 3))
    x.from_numpy(values)
    with ti.ad.Tape(loss):
        run()
    np.testing.assert_allclose(x.grad.to_numpy(), np.stack([values[:, 1], values[:, 0], 2 * values[:, 2]], axis=1))
    np.testing.assert_allclose(x.get_scalar_field(0).grad.to_numpy(), values[:, 1])


def test_gradients_of_components_that_are_placed_separately() -> None:
    x = ti.Vector.field(2, ti.f64, needs_grad=True)
    ti.root.dense(ti.i, 3).place(x.get_scalar_field(0))
    ti.root.dense(ti.i, 3).place(x.get_scalar_field(1))
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in range(3):
            loss[None] += x[i].norm_sqr() * (i + 1)

    x.fill(1.5)
    with ti.ad.Tape(loss):
        run()
    np.testing.assert_allclose(x.grad.to_numpy(), 3.0 * np.array([[1.0], [2.0], [3.0]]) * np.ones((3, 2)))


def test_gradients_of_struct_members() -> None:
    s = ti.Struct.field({"position": ti.types.vector(2, ti.f64), "mass": ti.f64}, shape=3, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in s:
            loss[None] += s[i].mass * s[i].position.norm_sqr()

    s.mass.fill(2.0)
    s.position.fill(3.0)
    with ti.ad.Tape(loss):
        run()
    assert s.mass.grad.to_numpy().tolist() == [18.0] * 3
    assert s.position.grad.to_numpy().tolist() == [[12.0, 12.0]] * 3


@pytest.mark.parametrize("kind", ["pointer", "bitmasked", "hash"])
def test_gradients_in_sparse_nodes(kind: str) -> None:
    x = ti.field(ti.f64, needs_grad=True)
    getattr(ti.root, kind)(ti.i, 16).place(x)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += x[i] ** 2

    x[2], x[11] = 3.0, -1.0
    with ti.ad.Tape(loss):
        run()
    assert loss[None] == 10.0 and x.grad[2] == 6.0 and x.grad[11] == -2.0 and x.grad[3] == 0.0


def test_gradients_in_another_layout() -> None:
    x = ti.field(ti.f64)
    ti.root.dense(ti.i, 4).place(x)
    ti.root.dense(ti.i, 2).dense(ti.i, 2).place(x.grad)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += x[i] * (i + 1)

    with ti.ad.Tape(loss):
        run()
    assert x.grad.to_numpy().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_gradient_of_another_shape_is_refused() -> None:
    x, loss = ti.field(ti.f64), ti.field(ti.f64, (), needs_grad=True)
    ti.root.dense(ti.i, 4).place(x)
    ti.root.dense(ti.i, 3).place(x.grad)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += x[i]

    run()
    with pytest.raises(RuntimeError, match="has shape"):
        run.grad()


def test_kernels_access_gradients() -> None:
    x = ti.field(ti.f64, 4, needs_grad=True)

    @ti.kernel
    def descend(rate: ti.f64) -> None:
        for i in x:
            x[i] -= rate * x.grad[i]

    x.grad.fill(2.0)
    descend(0.25)
    assert x.to_numpy().tolist() == [-0.5] * 4


def test_kernel_grad_accumulates() -> None:
    x = ti.field(ti.f64, 3, needs_grad=True)
    y = ti.field(ti.f64, 3, needs_grad=True)

    @ti.kernel
    def square(scale: ti.f64) -> None:
        for i in x:
            y[i] = scale * x[i] * x[i]

    x.fill(3.0)
    square(2.0)
    y.grad.fill(1.0)
    square.grad(2.0)
    assert x.grad.to_numpy().tolist() == [12.0] * 3
    # What was stored had this adjoint; the value before it has none yet.
    assert y.grad.to_numpy().tolist() == [0.0] * 3
    y.grad.fill(0.5)
    square.grad(scale=2.0)
    assert x.grad.to_numpy().tolist() == [18.0] * 3
    assert y.to_numpy().tolist() == [18.0] * 3


def test_kernel_grad_checks_its_arguments() -> None:
    x = ti.field(ti.f64, 3, needs_grad=True)

    @ti.kernel
    def run(a: ti.f64) -> None:
        for i in x:
            x[i] = a

    with pytest.raises(ti.TaichiSyntaxError, match="Too many arguments"):
        run.grad(1.0, 2.0)
    with pytest.raises(ti.TaichiRuntimeTypeError):
        run.grad("a")
    assert "run" in repr(run.grad)


def test_methods_have_gradients() -> None:
    @ti.data_oriented
    class Model:
        def __init__(self) -> None:
            self.x = ti.field(ti.f64, 3, needs_grad=True)
            self.y = ti.field(ti.f64, (), needs_grad=True)

        @ti.kernel
        def run(self) -> None:
            for i in self.x:
                self.y[None] += self.x[i] ** 3

    model = Model()
    model.x.fill(2.0)
    model.run()
    model.y.grad[None] = 1.0
    model.run.grad()
    assert model.x.grad.to_numpy().tolist() == [12.0] * 3


def test_kernels_with_results_have_gradients() -> None:
    x, loss = ti.field(ti.f64, (), needs_grad=True), ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> ti.f64:
        loss[None] += x[None] ** 2
        return x[None]

    x[None] = 3.0
    with ti.ad.Tape(loss):
        assert run() == 3.0
    assert x.grad[None] == 6.0


def test_clear_all_gradients() -> None:
    x = ti.field(ti.f64, 3, needs_grad=True, needs_dual=True)
    v = ti.Vector.field(2, ti.f32, 3, needs_grad=True)
    a = ti.ndarray(ti.f32, 3, needs_grad=True)
    assert a.grad is not None
    for data in (x, x.grad, x.dual, v.grad, a.grad):
        data.fill(1.0)
    ti.ad.clear_all_gradients()
    assert x[0] == 1.0 and x.dual[0] == 1.0
    assert not x.grad.to_numpy().any() and not v.grad.to_numpy().any() and not a.grad.to_numpy().any()


# Arrays.
def test_arrays_have_gradients() -> None:
    x = ti.ndarray(ti.f64, 3, needs_grad=True)
    loss = ti.ndarray(ti.f64, (1,), needs_grad=True)
    assert x.grad is not None and x.grad.shape == (3,) and x.grad.grad is None and x.get_type().needs_grad

    @ti.kernel
    def run(x: ti.types.ndarray(), loss: ti.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            loss[0] += x[i] ** 2

    x.fill(2.0)
    with ti.ad.Tape(loss):
        run(x, loss)
    assert x.grad.to_numpy().tolist() == [4.0] * 3 and loss[0] == 12.0


def test_gradients_of_arrays_are_accessible_in_kernels() -> None:
    x = ti.ndarray(ti.f64, 3, needs_grad=True)

    @ti.kernel
    def descend(x: ti.types.ndarray(needs_grad=True), rate: ti.f64) -> None:  # type: ignore[valid-type]
        for i in x:
            x[i] -= rate * x.grad[i]

    assert x.grad is not None
    x.grad.fill(2.0)
    descend(x, 0.5)
    descend(x, 0.5)
    assert x.to_numpy().tolist() == [-2.0] * 3
    with pytest.raises(ti.TaichiRuntimeTypeError, match="no gradient"):
        descend(ti.ndarray(ti.f64, 3), 0.5)


def test_arrays_without_gradients_are_constants() -> None:
    weights = np.array([1.0, 2.0, 3.0])
    x, loss = ti.field(ti.f64, 3, needs_grad=True), ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run(w: ti.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            loss[None] += w[i] * x[i]

    with ti.ad.Tape(loss):
        run(weights)
    assert x.grad.to_numpy().tolist() == [1.0, 2.0, 3.0]


def test_arrays_of_vectors_have_gradients() -> None:
    x = ti.Vector.ndarray(2, ti.f64, 3, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run(x: ti.types.ndarray(dtype=ti.types.vector(2, ti.f64), ndim=1)) -> None:  # type: ignore[valid-type]
        for i in x:
            loss[None] += x[i].norm_sqr()

    x.fill(1.5)
    with ti.ad.Tape(loss):
        run(x)
    assert x.grad is not None and x.grad.to_numpy().tolist() == [[3.0, 3.0]] * 3


def test_elements_of_arrays_that_are_overwritten_have_their_own_adjoints() -> None:
    x, y = ti.ndarray(ti.f64, 3, needs_grad=True), ti.ndarray(ti.f64, 3, needs_grad=True)

    @ti.kernel
    def square(x: ti.types.ndarray(), y: ti.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            y[i] = x[i] * x[i]

    x.fill(3.0)
    square(x, y)
    assert x.grad is not None and y.grad is not None
    y.grad.fill(1.0)
    square.grad(x, y)
    assert x.grad.to_numpy().tolist() == [6.0] * 3 and y.grad.to_numpy().tolist() == [0.0] * 3


class Tensor(np.ndarray):  # type: ignore[type-arg]
    """Has the attributes of torch's tensors that matter here."""

    requires_grad = True
    grad: Any = None


def tensor(values: Any) -> Tensor:
    made = np.asarray(values, np.float64).view(Tensor)
    made.grad = np.zeros_like(np.asarray(made))
    return made


def test_tensors_accumulate_gradients() -> None:
    x, y = tensor([1.0, 2.0, 3.0]), tensor([0.0, 0.0, 0.0])

    @ti.kernel
    def square(x: ti.types.ndarray(), y: ti.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            y[i] = x[i] * x[i]

    square(x, y)
    y.grad[:] = 1.0
    x.grad[:] = 10.0
    square.grad(x, y)
    assert np.asarray(x.grad).tolist() == [12.0, 14.0, 16.0]


def test_torch_tensors_accumulate_gradients() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run(x: ti.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            loss[None] += x[i] ** 2

    with ti.ad.Tape(loss):
        run(x)
    assert x.grad.tolist() == [2.0, 4.0]
