"""Which wind blows a square of smoke into a ring? A fluid solver, differentiated by its initial velocity."""

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, steps, sweeps = 64, 24, 10

velocity = ti.Vector.field(2, ti.f32, shape=(steps + 1, n, n), needs_grad=True)  # in cells per step
smoke = ti.field(ti.f32, shape=(steps + 1, n, n), needs_grad=True)
wind = ti.Vector.field(2, ti.f32, shape=(n, n), needs_grad=True)
# They keep only the last step: their equations are linear, so that gradients need no values of them.
moved = ti.Vector.field(2, ti.f32, shape=(n, n), needs_grad=True)
outflow = ti.field(ti.f32, shape=(n, n), needs_grad=True)
pressure = [ti.field(ti.f32, shape=(n, n), needs_grad=True) for _ in range(2)]
picture = ti.field(ti.f32, shape=(n, n))
loss = ti.field(ti.f32, shape=(), needs_grad=True)


@ti.func
def wrapped(i):
    return (i + n) % n


@ti.func
def sample(field: ti.template(), t, at):
    low = ti.cast(ti.floor(at), ti.i32)
    f = at - low
    i, j = wrapped(low[0]), wrapped(low[1])
    k, m = wrapped(i + 1), wrapped(j + 1)
    left = (1 - f[1]) * field[t, i, j] + f[1] * field[t, i, m]
    right = (1 - f[1]) * field[t, k, j] + f[1] * field[t, k, m]
    return (1 - f[0]) * left + f[0] * right


@ti.kernel
def advect(t: ti.i32):
    for i, j in moved:
        back = ti.Vector([i, j]) - velocity[t, i, j]
        moved[i, j] = sample(velocity, t, back)
        smoke[t + 1, i, j] = sample(smoke, t, back)


@ti.kernel
def measure(speed: ti.template()):
    for i, j in outflow:
        outflow[i, j] = 0.5 * (speed[wrapped(i + 1), j][0] - speed[wrapped(i - 1), j][0] + speed[i, wrapped(j + 1)][1] - speed[i, wrapped(j - 1)][1])


@ti.kernel
def sweep(p: ti.template(), q: ti.template()):
    for i, j in p:
        q[i, j] = 0.25 * (p[wrapped(i - 1), j] + p[wrapped(i + 1), j] + p[i, wrapped(j - 1)] + p[i, wrapped(j + 1)] - outflow[i, j])


@ti.kernel
def project(t: ti.i32, speed: ti.template(), p: ti.template()):
    for i, j in speed:
        slope = 0.5 * ti.Vector([p[wrapped(i + 1), j] - p[wrapped(i - 1), j], p[i, wrapped(j + 1)] - p[i, wrapped(j - 1)]])
        velocity[t, i, j] = speed[i, j] - slope


@ti.kernel
def miss():
    for i, j in picture:
        loss[None] += (smoke[steps, i, j] - picture[i, j]) ** 2 / n**2


def remove_divergence(t, speed):
    measure(speed)
    for p in pressure:
        p.fill(0.0)
    for _ in range(sweeps // 2):
        sweep(pressure[0], pressure[1])
        sweep(pressure[1], pressure[0])
    project(t, speed, pressure[0])


def simulate():
    remove_divergence(0, wind)
    for t in range(steps):
        advect(t)
        remove_divergence(t + 1, moved)
    miss()


i, j = np.mgrid[0:n, 0:n] / n - 0.5
start = np.zeros((steps + 1, n, n), np.float32)
start[0] = (np.abs(i) < 0.2) & (np.abs(j) < 0.2)
smoke.from_numpy(start)
picture.from_numpy(np.exp(-(((np.hypot(i, j) - 0.22) * 15) ** 2)).astype(np.float32))
wind.from_numpy(np.stack([-j * 0.2, i * 0.2], axis=-1).astype(np.float32))
adam = ti.optim.Adam(wind, lr=0.05)
losses = []
gui = ti.GUI("Smoke", res=(2 * n, n), background_color=0)
for _frame in frames(gui):
    with ti.ad.Tape(loss):
        simulate()
    losses.append(loss[None])
    adam.step()
    gui.set_image(np.clip(np.concatenate([smoke.to_numpy()[steps], picture.to_numpy()]), 0, 1))
