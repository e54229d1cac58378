"""A soft cube that learns how to be thrown at a target: a differentiable material point method."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

side, grid, steps = 32, 64, 256
count = side * side
dx = 1.0 / grid
dt = 4e-4
stiffness = 200.0
target = ti.Vector([0.7, 0.35])

# One row for each step: a value is written once, so the gradient finds what it needs.
x = ti.Vector.field(2, ti.f32, shape=(steps + 1, count), needs_grad=True)
v = ti.Vector.field(2, ti.f32, shape=(steps + 1, count), needs_grad=True)
C = ti.Matrix.field(2, 2, ti.f32, shape=(steps + 1, count), needs_grad=True)
F = ti.Matrix.field(2, 2, ti.f32, shape=(steps + 1, count), needs_grad=True)
momentum = ti.Vector.field(2, ti.f32, shape=(grid, grid), needs_grad=True)
mass = ti.field(ti.f32, shape=(grid, grid), needs_grad=True)
speed = ti.Vector.field(2, ti.f32, shape=(grid, grid), needs_grad=True)
start = ti.Vector.field(2, ti.f32, shape=(), needs_grad=True)
loss = ti.field(ti.f32, shape=(), needs_grad=True)


@ti.kernel
def begin():
    for p in range(count):
        x[0, p] = ti.Vector([0.1, 0.15]) + ti.Vector([p % side, p // side]) * (0.15 / side)
        F[0, p] = ti.Matrix.identity(ti.f32, 2)


@ti.kernel
def throw():
    for p in range(count):
        v[0, p] = start[None]


@ti.kernel
def clear():
    for i, j in mass:
        momentum[i, j] = [0.0, 0.0]
        mass[i, j] = 0.0
        momentum.grad[i, j] = [0.0, 0.0]
        mass.grad[i, j] = 0.0
        speed.grad[i, j] = [0.0, 0.0]


@ti.func
def weights(fx):
    return [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]


@ti.kernel
def to_grid(t: ti.i32):
    for p in range(count):
        base = ti.cast(x[t, p] * grid - 0.5, ti.i32)
        fx = x[t, p] * grid - ti.cast(base, ti.f32)
        w = weights(fx)
        shape = (ti.Matrix.identity(ti.f32, 2) + dt * C[t, p]) @ F[t, p]
        F[t + 1, p] = shape
        volume = shape.determinant()
        r, s = ti.polar_decompose(shape)
        stress = 2 * stiffness * (shape - r) @ shape.transpose() + ti.Matrix.identity(ti.f32, 2) * stiffness * (volume - 1) * volume
        affine = C[t, p] - dt * 4 * grid * grid * dx * dx * stress
        for i, j in ti.static(ti.ndrange(3, 3)):
            offset = ti.Vector([i, j])
            weight = w[i].x * w[j].y
            momentum[base + offset] += weight * (v[t, p] + affine @ ((offset - fx) * dx))
            mass[base + offset] += weight


@ti.kernel
def on_grid():
    for i, j in mass:
        u = momentum[i, j] / (mass[i, j] + 1e-10)
        u.y -= dt * 9.8
        if (i < 3 and u.x < 0) or (i > grid - 3 and u.x > 0):
            u.x = 0.0
        if (j < 3 and u.y < 0) or (j > grid - 3 and u.y > 0):
            u.y = 0.0
        speed[i, j] = u


@ti.kernel
def from_grid(t: ti.i32):
    for p in range(count):
        base = ti.cast(x[t, p] * grid - 0.5, ti.i32)
        fx = x[t, p] * grid - ti.cast(base, ti.f32)
        w = weights(fx)
        new_v = ti.Vector([0.0, 0.0])
        new_C = ti.Matrix.zero(ti.f32, 2, 2)
        for i, j in ti.static(ti.ndrange(3, 3)):
            offset = ti.Vector([i, j])
            weight = w[i].x * w[j].y
            u = speed[base + offset]
            new_v += weight * u
            new_C += 4 * grid * weight * u.outer_product(offset - fx)
        v[t + 1, p] = new_v
        C[t + 1, p] = new_C
        x[t + 1, p] = x[t, p] + dt * new_v


@ti.kernel
def miss():
    for p in range(count):
        loss[None] += (x[steps, p] - target).norm_sqr() / count


def forward(t):
    clear()
    to_grid(t)
    on_grid()
    from_grid(t)


def improve():
    throw()
    for t in range(steps):
        forward(t)
    loss[None] = 0.0
    miss()
    ti.ad.clear_all_gradients()
    loss.grad[None] = 1.0
    miss.grad()
    for t in reversed(range(steps)):
        # The grid has only the last step, so that it is computed again.
        clear()
        to_grid(t)
        on_grid()
        from_grid.grad(t)
        on_grid.grad()
        to_grid.grad(t)
    throw.grad()
    start[None] -= 30.0 * start.grad[None]


begin()
losses = []
gui = ti.GUI("Throw", res=480, background_color=0x10161C)
for _frame in frames(gui):
    improve()
    losses.append(loss[None])
    for t in range(0, steps, 16):
        gui.circles(x.to_numpy()[t], radius=1, color=0x3D5A6C)
    gui.circles(x.to_numpy()[steps], radius=1.5, color=0xE9B48F)
    gui.circle(target, radius=6, color=0xD9573F)
