"""Tapes, forward mode, custom gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ad_programs import compiled

import wuji as ti

PROGRAM = """
    x = ti.field(ti.f64, 3, needs_grad=True)
    y = ti.field(ti.f64, 3, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def square():
        for i in x:
            y[i] = x[i] * x[i]

    @ti.kernel
    def add():
        for i in y:
            loss[None] += y[i]
    """


class Program:
    """The fields and kernels of `PROGRAM`."""

    def __init__(self) -> None:
        space = compiled(PROGRAM, {})
        self.x, self.y, self.loss = space["x"], space["y"], space["loss"]
        self.square, self.add = space["square"], space["add"]
        self.x.from_numpy(np.array([1.0, 2.0, 3.0]))

    def gradient(self) -> Any:
        return self.x.grad.to_numpy().tolist()


def test_a_tape_computes_gradients_at_its_end() -> None:
    p = Program()
    p.x.grad.fill(7.0)
    p.loss[None] = 5.0
    with ti.ad.Tape(p.loss):
        p.square()
        p.add()
    assert p.gradient() == [2.0, 4.0, 6.0] and p.loss[None] == 14.0 and p.loss.grad[None] == 1.0


def test_a_tape_can_keep_gradients() -> None:
    p = Program()
    p.x.grad.fill(1.0)
    with ti.ad.Tape(p.loss, clear_gradients=False):
        p.square()
        p.add()
    assert p.gradient() == [3.0, 5.0, 7.0]


def test_a_tape_without_a_loss_uses_the_gradients_that_the_user_sets() -> None:
    p = Program()
    with ti.ad.Tape() as tape:
        p.square()
    p.y.grad.from_numpy(np.array([1.0, 0.0, 2.0]))
    tape.grad()
    assert p.gradient() == [2.0, 0.0, 12.0]


def test_a_tape_keeps_the_arguments_of_launches() -> None:
    x, loss = ti.field(ti.f64, (), needs_grad=True), ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def add(v: ti.types.vector(2, ti.f64), k: ti.f64) -> None:  # type: ignore[valid-type]
        loss[None] += x[None] * v[0] * k

    v = ti.Vector([2.0, 0.0])
    with ti.ad.Tape(loss):
        add(v, 3.0)
        v[0] = 5.0
        add(v, k=1.0)
    assert x.grad[None] == 11.0


def test_a_tape_records_template_arguments_of_any_kind() -> None:
    x, y, loss = (ti.field(ti.f64, shape, needs_grad=True) for shape in (3, 3, ()))

    @ti.kernel
    def run(data: ti.template(), weights: ti.template(), s: ti.types.struct(a=ti.f64)) -> None:  # type: ignore[valid-type]
        for i in x:
            for k in ti.static(range(2)):
                loss[None] += weights[k] * data[k][i] * s.a

    s = ti.types.struct(a=ti.f64)(2.0)
    with ti.ad.Tape(loss):
        run([x, y], (3.0, 4.0), s)
        s.a = 100.0
    assert x.grad[0] == 6.0 and y.grad[2] == 8.0


def test_a_tape_records_nothing_after_an_exception() -> None:
    p = Program()
    with pytest.raises(KeyError), ti.ad.Tape(p.loss):
        p.square()
        raise KeyError("a")
    assert p.gradient() == [0.0] * 3
    p.square()
    with ti.ad.Tape(p.loss):
        p.add()
    assert p.gradient() == [0.0] * 3 and p.y.grad.to_numpy().tolist() == [1.0] * 3


def test_tapes_can_be_nested() -> None:
    p = Program()
    other = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def weigh() -> None:
        for i in p.y:
            other[None] += p.y[i] * i

    inner: Any = None
    with ti.ad.Tape(p.loss, clear_gradients=False):
        p.square()
        with ti.ad.Tape(other, clear_gradients=False):
            p.square()
            weigh()
        inner = p.gradient()
        ti.ad.clear_all_gradients()
        p.add()
    assert inner == [0.0, 4.0, 12.0]
    assert p.gradient() == [2.0, 4.0, 6.0]


def test_misused_tapes_raise_what_taichi_raises() -> None:
    p = Program()
    with pytest.raises(RuntimeError, match="The loss of `Tape` must be a 0-D field"):
        ti.ad.Tape(p.x).__enter__()
    with pytest.raises(RuntimeError, match="Gradients of loss are not allocated"):
        ti.ad.Tape(ti.field(ti.f64, ())).__enter__()
    with pytest.raises(RuntimeError, match="must be an ndarray with only one element"):
        ti.ad.Tape(ti.ndarray(ti.f64, 2, needs_grad=True)).__enter__()
    with pytest.raises(RuntimeError, match="Gradients of loss are not allocated"):
        ti.ad.Tape(ti.ndarray(ti.f64, 1)).__enter__()
    with pytest.raises(RuntimeError, match="must be a field"):
        ti.ad.Tape(3).__enter__()
    tape = ti.ad.Tape(p.loss)
    with pytest.raises(AssertionError, match="Before evaluating gradients tape must be entered"):
        tape.grad()
    with tape:
        pass
    with pytest.raises(AssertionError, match="Tape can be entered only once"):
        tape.__enter__()
    with pytest.raises(AssertionError, match="can be evaluated only once"):
        tape.grad()


def test_a_launch_of_another_thread_is_not_recorded() -> None:
    import threading

    p = Program()
    with ti.ad.Tape(p.loss):
        worker = threading.Thread(target=p.square)
        worker.start()
        worker.join()
        p.add()
    assert p.gradient() == [0.0] * 3


# Writes of the host.
def test_values_that_the_host_sets_have_gradients() -> None:
    p = Program()
    with ti.ad.Tape(p.loss):
        p.x[0] = 5.0
        p.square()
        p.add()
    assert p.gradient() == [10.0, 4.0, 6.0]
    with ti.ad.Tape(p.loss):
        p.x.fill(1.0)
        p.square()
        p.add()
    assert p.gradient() == [2.0] * 3


def test_values_that_the_host_overwrites_have_their_own_adjoints() -> None:
    p = Program()
    with ti.ad.Tape(p.loss):
        p.square()
        p.add()
        p.y[1] = 100.0
        p.add()
        p.y.from_numpy(np.ones(3))
        p.add()
    assert p.gradient() == [4.0, 4.0, 12.0]


def test_copies_of_the_host_propagate_gradients() -> None:
    p = Program()
    with ti.ad.Tape(p.loss):
        p.y.copy_from(p.x)
        p.add()
        p.y.copy_from(p.x)
        p.add()
    assert p.gradient() == [2.0] * 3


# Custom gradients.
def test_replaced_gradients() -> None:
    x, loss = ti.field(ti.f64, (), needs_grad=True), ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def multiply(a: ti.f64) -> None:
        loss[None] += x[None] * a

    @ti.ad.grad_replaced
    def forward(a: float) -> None:
        multiply(a)
        multiply(a)

    @ti.ad.grad_for(forward)
    def backward(a: float) -> None:
        multiply.grad(a)

    x[None] = 1.0
    with ti.ad.Tape(loss):
        forward(4.0)
    assert loss[None] == 8.0 and x.grad[None] == 4.0


def test_replaced_gradients_of_methods() -> None:
    @ti.data_oriented
    class Model:
        def __init__(self) -> None:
            self.x = ti.field(ti.f64, (), needs_grad=True)
            self.loss = ti.field(ti.f64, (), needs_grad=True)

        @ti.kernel
        def multiply(self, a: ti.f64) -> None:
            self.loss[None] += self.x[None] * a

        @ti.ad.grad_replaced
        def forward(self, a: float) -> None:
            self.multiply(a)

        @ti.ad.grad_for(forward)
        def backward(self, a: float) -> None:
            self.multiply.grad(10.0 * a)

    model = Model()
    with ti.ad.Tape(model.loss):
        model.forward(2.0)
    assert model.x.grad[None] == 20.0


def test_misused_custom_gradients_raise_what_taichi_raises() -> None:
    p = Program()
    with pytest.raises(RuntimeError, match="Primal function must be a"):
        ti.ad.grad_for(p.square)(lambda: None)
    with pytest.raises(RuntimeError, match="must be decorated by ti.ad.grad_replaced"):
        ti.ad.grad_for(lambda: None)(lambda: None)
    replaced = ti.ad.grad_replaced(lambda: p.square())
    with pytest.raises(RuntimeError, match="has no gradient"), ti.ad.Tape(p.loss):
        replaced()
    ti.ad.grad_for(replaced)(lambda: None)
    with pytest.raises(RuntimeError, match="already"):
        ti.ad.grad_for(replaced)(lambda: None)


def test_functions_without_gradients() -> None:
    p = Program()

    @ti.ad.no_grad
    def forward() -> int:
        p.square()
        return 3

    with ti.ad.Tape(p.loss):
        assert forward() == 3
        p.add()
    assert p.gradient() == [0.0] * 3 and p.y.grad.to_numpy().tolist() == [1.0] * 3


# Forward mode.
def test_forward_mode_computes_a_directional_derivative() -> None:
    x = ti.field(ti.f64, 3, needs_dual=True)
    y = ti.field(ti.f64, 2, needs_dual=True)
    loss = ti.field(ti.f64, (), needs_dual=True)

    @ti.kernel
    def run() -> None:
        for i in range(2):
            y[i] = x[i] * x[i + 1]
        for i in range(2):
            loss[None] += y[i] ** 2

    values, seed = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, -2.0])
    x.from_numpy(values)
    with ti.ad.FwdMode(loss=[y, loss], param=x, seed=seed.tolist()):
        run()
    tangent = np.array([2.0 * seed[0] + 1.0 * seed[1], 3.0 * seed[1] + 2.0 * seed[2]])
    np.testing.assert_allclose(y.dual.to_numpy(), tangent)
    np.testing.assert_allclose(loss.dual[None], (2 * np.array([2.0, 6.0]) * tangent).sum())
    assert not x.dual.to_numpy().any() and loss[None] == 40.0


def test_forward_mode_of_a_scalar_needs_no_seed() -> None:
    x, y = ti.field(ti.f64, (), needs_dual=True), ti.field(ti.f64, 3, needs_dual=True)

    @ti.kernel
    def run() -> ti.f64:
        for i in y:
            y[i] = ti.sin(x[None]) * i
        return x[None]

    x[None] = 0.5
    with ti.ad.FwdMode(loss=y, param=x):
        assert run() == 0.5
    np.testing.assert_allclose(y.dual.to_numpy(), np.cos(0.5) * np.arange(3))
    run()
    np.testing.assert_allclose(y.dual.to_numpy(), np.cos(0.5) * np.arange(3))


def test_misused_forward_mode_is_refused() -> None:
    x, y = ti.field(ti.f64, 3, needs_dual=True), ti.field(ti.f64, (), needs_dual=True)
    with pytest.raises(RuntimeError, match="`seed` is not set for non 0-D field"):
        ti.ad.FwdMode(y, x).__enter__()
    with pytest.raises(AssertionError, match="`seed` has 1 numbers"):
        ti.ad.FwdMode(y, x, seed=[1.0]).__enter__()
    with pytest.raises(RuntimeError, match="has no `dual`"):
        ti.ad.FwdMode(y, ti.field(ti.f64, 3), seed=[1.0] * 3).__enter__()
    with pytest.raises(RuntimeError, match="must be a field"):
        ti.ad.FwdMode(3, x, seed=[1.0] * 3).__enter__()


# Checks.
def test_grad_check_accepts_right_gradients() -> None:
    p = Program()
    with ti.ad.Tape(p.loss, grad_check=[p.x]):
        p.square()
        p.add()
    assert p.gradient() == [2.0, 4.0, 6.0] and p.loss[None] == 14.0 and p.y.to_numpy().tolist() == [1.0, 4.0, 9.0]


def test_grad_check_reports_wrong_gradients(capsys: Any) -> None:
    x, loss = ti.field(ti.f64, 3, needs_grad=True), ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += x[i] * ti.stop_grad(x[i])

    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    with pytest.raises(AssertionError, match="Not all variables pass grad check"), ti.ad.Tape(loss, grad_check=[x]):
        run()
    printed = capsys.readouterr().out
    assert "x[2]: gradient 3, finite difference 6" in printed
    with pytest.raises(AssertionError, match="grad_check should be a list"):
        ti.ad.Tape(loss, grad_check=True)


def test_an_allocation_in_a_tape_has_a_gradient() -> None:
    p = Program()
    with ti.ad.Tape(p.loss):
        z = ti.field(ti.f64, 3, needs_grad=True)

        @ti.kernel
        def through() -> None:
            for i in z:
                z[i] = 2.0 * p.x[i]
            for i in z:
                p.loss[None] += z[i]

        through()
    assert p.gradient() == [2.0] * 3


def test_graphs_are_recorded() -> None:
    p = Program()
    builder = ti.graph.GraphBuilder()
    builder.dispatch(p.square)
    builder.dispatch(p.add)
    graph = builder.compile()
    with ti.ad.Tape(p.loss):
        graph.run({})
    assert p.gradient() == [2.0, 4.0, 6.0]


# Values that gradients need, and later launches overwrite.
OVERWRITING = """
    x = ti.field(ti.f64, 3, needs_grad=True)
    y = ti.field(ti.f64, 3, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def start():
        for i in x:
            y[i] = x[i]

    @ti.kernel
    def step():
        for i in y:
            y[i] = y[i] * y[i] + 0.5

    @ti.kernel
    def finish():
        for i in y:
            loss[None] += y[i] ** 2 * (i + 1)
    """


def test_a_tape_keeps_values_that_are_overwritten() -> None:
    space = compiled(OVERWRITING, {})
    values = np.array([0.5, 0.75, 1.0])
    space["x"].from_numpy(values)
    with ti.ad.Tape(space["loss"]):
        space["start"]()
        for _ in range(3):
            space["step"]()
        space["finish"]()
    y, derivative = values.copy(), np.ones(3)
    for _ in range(3):
        derivative *= 2 * y
        y = y * y + 0.5
    np.testing.assert_allclose(space["x"].grad.to_numpy(), 2 * y * derivative * np.arange(1, 4))
    np.testing.assert_allclose(space["y"].to_numpy(), y)


def test_validation_refuses_what_is_overwritten() -> None:
    space = compiled(OVERWRITING, {})
    with pytest.raises(ti.TaichiAssertionError, match="Breaks the global data access rule.*is overwritten unexpectedly") as caught:
        with ti.ad.Tape(space["loss"], validation=True):
            space["start"]()
            space["step"]()
            space["step"]()
            space["finish"]()
    assert "kernel=step" in str(caught.value) and "is read at" in str(caught.value)
    p = Program()
    with ti.ad.Tape(p.loss, validation=True):
        p.square()
        p.add()
    assert p.gradient() == [2.0, 4.0, 6.0]


def test_time_steps_of_one_field_are_different_values() -> None:
    space = compiled(
        """
        x = ti.field(ti.f64, (5, 3), needs_grad=True)
        loss = ti.field(ti.f64, (), needs_grad=True)

        @ti.kernel
        def step(t: ti.i32):
            for i in range(3):
                x[t + 1, i] = x[t, i] ** 2

        @ti.kernel
        def finish():
            for i in range(3):
                loss[None] += x[4, i]
        """,
        {},
    )
    x = space["x"]
    for i in range(3):
        x[0, i] = 0.5 + 0.25 * i
    with ti.ad.Tape(space["loss"], validation=True) as tape:
        for t in range(4):
            space["step"](t)
        space["finish"]()
    np.testing.assert_allclose(x.grad.to_numpy()[0], 16 * np.array([0.5, 0.75, 1.0]) ** 15)
    assert all(not state.copies for state in tape.versions._states.values())


def test_a_tape_keeps_values_that_the_host_overwrites() -> None:
    p = Program()
    with ti.ad.Tape(p.loss):
        p.square()
        p.x.fill(100.0)
        p.add()
    assert p.x.to_numpy().tolist() == [100.0] * 3
    # Of the values that the host has replaced.
    assert p.gradient() == [2.0, 4.0, 6.0]
    q = Program()
    with ti.ad.Tape(q.loss):
        q.square()
        q.add()
        q.x[1] = 100.0
        q.square()
        q.add()
    assert q.gradient() == [4.0, 4.0, 12.0]


def test_functions_without_gradients_do_not_spoil_values() -> None:
    p = Program()

    @ti.kernel
    def spoil() -> None:
        for i in p.x:
            p.x[i] = -1.0

    forget = ti.ad.no_grad(lambda: spoil())
    with ti.ad.Tape(p.loss):
        p.square()
        forget()
        p.add()
    assert p.gradient() == [2.0, 4.0, 6.0] and p.x.to_numpy().tolist() == [-1.0] * 3


def test_grad_check_of_sparse_fields() -> None:
    x, loss = ti.field(ti.f64, needs_grad=True), ti.field(ti.f64, (), needs_grad=True)
    ti.root.pointer(ti.i, 4).dense(ti.i, 2).place(x)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += (x[i] + 1.0) ** 2

    x[3] = 2.0
    with ti.ad.Tape(loss, grad_check=[x]):
        run()
    # Both elements of the block are active.
    assert x.grad.to_numpy().tolist() == [0.0, 0.0, 2.0, 6.0, 0.0, 0.0, 0.0, 0.0]
    assert loss[None] == 10.0


def test_tapes_leave_nothing() -> None:
    import gc
    import weakref

    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run(x: ti.template()) -> None:  # type: ignore[valid-type]
        for i in x:
            loss[None] += x[i] ** 2

    gone = []
    for _ in range(3):
        x = ti.field(ti.f64, 4, needs_grad=True)
        with ti.ad.Tape(loss):
            run(x)
        x.grad[0]
        gone.append(weakref.ref(x))
        del x
    gc.collect()
    assert all(reference() is None for reference in gone)
    assert len(run.compiled_kernels) == 0


def test_a_kernel_without_a_gradient_raises_at_its_launch() -> None:
    x, loss = ti.field(ti.f64, 3, needs_grad=True), ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def multiply() -> None:
        for i in x:
            ti.atomic_mul(loss[None], x[i])

    after = []
    with pytest.raises(RuntimeError, match="W07"), ti.ad.Tape(loss):
        multiply()
        after.append(1)
    assert not after
    with ti.ad.Tape() as tape:
        multiply()
    with pytest.raises(RuntimeError, match="W07"):
        tape.grad()


def test_gradients_that_run_later_have_the_values_of_their_launches() -> None:
    from wuji.lang import recording

    x, y = (ti.field(ti.f64, 3, needs_grad=True) for _ in range(2))

    @ti.kernel
    def square():
        for i in x:
            y[i] = x[i] ** 2

    @ti.kernel
    def increment():
        for i in x:
            x[i] += 1.0

    tapes = []
    for k in range(3):
        x.fill(float(k + 1))
        with ti.ad.Tape() as tape:
            square()
        tapes.append(tape)
        increment()
    assert recording.active
    for k in (1, 2, 0):
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        tapes[k].grad()
        assert x.grad.to_numpy().tolist() == [2.0 * (k + 1)] * 3
        assert x[0] == 4.0
    assert not recording.active


def test_a_tape_that_is_dropped_keeps_nothing() -> None:
    from wuji.lang import recording

    x = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def square():
        x[None] = x[None] ** 2

    with ti.ad.Tape() as tape:
        square()
    assert recording.active
    del tape
    square()
    assert not recording.active
