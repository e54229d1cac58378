"""Which ripples on a pond meet as a picture? The wave equation, differentiated by its initial state."""

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, steps = 128, 192
dx = 1.0 / n
speed, damping = 0.25, 0.05
dt = dx * 0.9

height = ti.field(ti.f32, shape=(steps + 1, n, n), needs_grad=True)
first = ti.field(ti.f32, shape=(n, n), needs_grad=True)
picture = ti.field(ti.f32, shape=(n, n))
loss = ti.field(ti.f32, shape=(), needs_grad=True)


@ti.kernel
def begin():
    for i, j in first:
        height[0, i, j] = first[i, j]
        height[1, i, j] = first[i, j]


@ti.func
def laplacian(t, i, j):
    return height[t, i - 1, j] + height[t, i + 1, j] + height[t, i, j - 1] + height[t, i, j + 1] - 4 * height[t, i, j]


@ti.kernel
def step(t: ti.i32):
    for i, j in ti.ndrange(n, n):
        now, before = height[t, i, j], height[t - 1, i, j]
        force = speed * laplacian(t, i, j) / (dx * dx)
        height[t + 1, i, j] = now + (1 - damping * dt) * (now - before) + dt * dt * force


@ti.kernel
def miss():
    for i, j in picture:
        loss[None] += (height[steps, i, j] - picture[i, j]) ** 2 * dx * dx


@ti.kernel
def descend(rate: ti.f32):
    for i, j in first:
        first[i, j] -= rate * first.grad[i, j]


i, j = np.mgrid[0:n, 0:n] / n - 0.5
ring = np.exp(-(((np.hypot(i, j) - 0.25) * 30) ** 2))
eyes = np.exp(-((i * i - 0.2 * np.abs(i) + 0.01 + (j - 0.08) ** 2) * 900))
mouth = np.exp(-(((np.hypot(i, j) - 0.14) * 60) ** 2)) * (j < -0.06)
picture.from_numpy((ring + eyes + mouth).astype(np.float32))
losses = []
gui = ti.GUI("Ripples", res=(2 * n, n), background_color=0)
for _frame in frames(gui):
    loss[None] = 0.0
    with ti.ad.Tape(loss):
        begin()
        for t in range(1, steps):
            step(t)
        miss()
    losses.append(loss[None])
    descend(1200.0)
    both = np.concatenate([first.to_numpy() + 0.3, height.to_numpy()[steps]])
    gui.set_image(np.clip(both, 0, 1))
