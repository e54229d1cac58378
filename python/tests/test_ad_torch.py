"""Kernels are operations of torch."""

from __future__ import annotations

from typing import Any

import pytest

import wuji as ti

torch = pytest.importorskip("torch")


@ti.kernel
def square(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for I in ti.grouped(x):
        y[I] = x[I] * x[I]


@ti.kernel
def combine(a: ti.types.ndarray(), b: ti.types.ndarray(), scale: ti.f64, total: ti.types.ndarray(), product: ti.types.ndarray()):
    for i in a:
        total[i] = scale * (a[i] + ti.sin(b[i]))
        product[i] = a[i] * b[i]


@ti.kernel
def exponential(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = ti.exp(x[i])


@ti.kernel
def square_in_place(x: ti.types.ndarray()):
    for i in x:
        x[i] = x[i] * x[i]



def tensor(values: Any, **options: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64, **options)


def test_gradients_are_those_of_torch() -> None:
    both = ti.torch.op(combine, outputs=lambda a, b, scale: (torch.empty_like(a), torch.empty_like(b)))
    a, b = tensor([1.0, 2.0], requires_grad=True), tensor([0.5, -0.5], requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: both(a, b, 3.0), (a, b))
    total, product = both(torch.sin(a), b, 3.0)
    (total.sum() + (product**2).sum()).backward()
    found = (a.grad, b.grad)
    c, d = a.detach().requires_grad_(), b.detach().requires_grad_()
    ((3.0 * (torch.sin(c) + torch.sin(d))).sum() + ((torch.sin(c) * d) ** 2).sum()).backward()
    for mine, theirs in zip(found, (c.grad, d.grad), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_one_output_may_be_unused() -> None:
    both = ti.torch.op(combine, outputs=lambda a, b, scale: (torch.empty_like(a), torch.empty_like(b)))
    a, b = tensor([1.0, 2.0], requires_grad=True), tensor([0.5, -0.5])
    both(a, b, 3.0)[1].sum().backward()
    torch.testing.assert_close(a.grad, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_need_not_be_contiguous(dtype: Any) -> None:
    operation = ti.torch.op(square, outputs=lambda x: torch.empty(x.shape, dtype=x.dtype))
    base = torch.arange(6, dtype=dtype).reshape(2, 3).requires_grad_()
    weight = torch.arange(6, dtype=dtype).reshape(3, 2)
    (operation(base.t()) * weight).sum().backward()
    torch.testing.assert_close(base.grad, 2 * base.detach() * weight.t())
    (operation(base[:, ::2]) * weight[:2]).sum().backward()


def test_kernels_work_on_the_memory_of_tensors() -> None:
    seen = []

    def function(x: Any, y: Any) -> None:
        seen.extend([x.data_ptr(), y.data_ptr()])
        square(x, y)

    x = tensor([1.0, 2.0], requires_grad=True)
    y = ti.torch.op(function, outputs=torch.empty_like)(x)
    assert seen == [x.data_ptr(), y.data_ptr()]


def test_values_that_torch_modifies_are_refused_as_in_torch() -> None:
    operation = ti.torch.op(square, outputs=torch.empty_like)
    x = tensor([1.0, 2.0], requires_grad=True)
    between = x * 1.0
    y = operation(between)
    between.detach().mul_(3.0)
    with pytest.raises(RuntimeError, match="W0738.*modified by an operation of torch"):
        y.sum().backward()


def test_values_that_are_not_needed_may_be_modified() -> None:
    operation = ti.torch.op(square, outputs=torch.empty_like)
    x = tensor([1.0, 2.0], requires_grad=True)
    y = operation(x)
    y.mul_(3.0)
    y.sum().backward()
    torch.testing.assert_close(x.grad, tensor([6.0, 12.0]))


def test_tensors_that_a_tape_overwrites_are_kept() -> None:
    x = tensor([2.0, 3.0], requires_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def total(x: ti.types.ndarray()):
        for i in x:
            loss[None] += x[i]

    with ti.ad.Tape(loss):
        square_in_place(x)
        square_in_place(x)
        total(x)
    torch.testing.assert_close(x.grad, tensor([32.0, 108.0]))
    torch.testing.assert_close(x.detach(), tensor([16.0, 81.0]))


def test_double_backward_is_refused() -> None:
    operation = ti.torch.op(square, outputs=torch.empty_like)
    x = tensor([1.0, 2.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(operation(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable|does not require grad"):
        gradient.sum().backward()


def test_a_graph_that_is_retained_gives_the_same_gradients_again() -> None:
    operation = ti.torch.op(exponential, outputs=torch.empty_like)
    x = tensor([0.0, 1.0], requires_grad=True)
    y = operation(x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * first)


def test_calls_may_share_fields() -> None:
    state = ti.field(ti.f64, (4, 3), needs_grad=True)

    @ti.kernel
    def load(x: ti.types.ndarray()):
        for i in x:
            state[0, i] = x[i]

    @ti.kernel
    def step(t: ti.i32):
        for i in range(3):
            state[t + 1, i] = state[t, i] + 0.1 * ti.sin(state[t, i])

    @ti.kernel
    def store(y: ti.types.ndarray()):
        for i in y:
            y[i] = state[3, i]

    def simulate(x: Any, y: Any) -> None:
        load(x)
        for t in range(3):
            step(t)
        store(y)

    operation = ti.torch.op(simulate, outputs=torch.empty_like)
    assert torch.autograd.gradcheck(lambda x: operation(operation(operation(x))), (tensor([0.1, 0.5, 0.9], requires_grad=True),))


def test_operations_of_constants_record_nothing() -> None:
    from wuji.lang import recording

    assert not ti.torch.op(square, outputs=torch.empty_like)(tensor([2.0])).requires_grad
    assert not recording.active
