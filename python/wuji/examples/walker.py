"""A walker of springs that learns to run: a neural controller, trained through the simulation."""

import math

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

points = [(0.0, 0.0), (0.1, 0.0), (0.2, 0.0), (0.3, 0.0), (0.0, 0.1), (0.1, 0.1), (0.2, 0.1), (0.3, 0.1), (0.05, 0.18), (0.25, 0.18)]
links = [(a, b) for a in range(len(points)) for b in range(a) if math.dist(points[a], points[b]) < 0.16]
n, m, hidden, waves = len(points), len(links), 32, 8
inputs = waves + 4 * n + 1
steps, dt = 512, 0.004
ground, gravity, damping = 0.1, -1.8, 15.0
stiffness, strength = 3000.0, 0.15

x = ti.Vector.field(2, ti.f32, shape=(steps + 1, n), needs_grad=True)
v = ti.Vector.field(2, ti.f32, shape=(steps + 1, n), needs_grad=True)
force = ti.Vector.field(2, ti.f32, shape=(steps + 1, n), needs_grad=True)
ends = ti.Vector.field(2, ti.i32, shape=m)
length = ti.field(ti.f32, shape=m)
w1 = ti.field(ti.f32, shape=(hidden, inputs), needs_grad=True)
w2 = ti.field(ti.f32, shape=(m, hidden), needs_grad=True)
neurons = ti.field(ti.f32, shape=(steps + 1, hidden), needs_grad=True)
muscles = ti.field(ti.f32, shape=(steps + 1, m), needs_grad=True)
loss = ti.field(ti.f32, shape=(), needs_grad=True)


@ti.kernel
def think(t: ti.i32):
    for i in range(hidden):
        total = 0.0
        for k in range(waves):
            total += w1[i, k] * ti.sin(20.0 * t * dt + 2 * math.pi / waves * k)
        for k in range(n):
            offset = x[t, k] - x[t, 0]
            total += w1[i, waves + 4 * k] * offset.x + w1[i, waves + 4 * k + 1] * offset.y
            total += w1[i, waves + 4 * k + 2] * v[t, k].x * 0.1 + w1[i, waves + 4 * k + 3] * v[t, k].y * 0.1
        neurons[t, i] = ti.tanh(total + w1[i, inputs - 1])


@ti.kernel
def act(t: ti.i32):
    for i in range(m):
        total = 0.0
        for k in range(hidden):
            total += w2[i, k] * neurons[t, k]
        muscles[t, i] = ti.tanh(total)


@ti.kernel
def pull(t: ti.i32):
    for i in range(m):
        a, b = ends[i].x, ends[i].y
        d = x[t, a] - x[t, b]
        now = d.norm() + 1e-4
        rest = length[i] * (1 + strength * muscles[t, i])
        impulse = dt * (now - rest) * stiffness / now * d
        force[t, a] += -impulse
        force[t, b] += impulse


@ti.kernel
def advance(t: ti.i32):
    for i in range(n):
        s = ti.exp(-dt * damping)
        old_v = s * v[t - 1, i] + dt * gravity * ti.Vector([0.0, 1.0]) + force[t - 1, i]
        old_x = x[t - 1, i]
        impact = 0.0
        new_v = old_v
        # The time of impact makes the position depend on the collision.
        if old_x.y + dt * old_v.y < ground and old_v.y < -1e-4:
            impact = ti.max(0.0, -(old_x.y - ground) / old_v.y)
            new_v = ti.Vector([0.0, 0.0])
        v[t, i] = new_v
        x[t, i] = old_x + impact * old_v + (dt - impact) * new_v


@ti.kernel
def miss():
    for i in range(n):
        loss[None] -= x[steps, i].x / n


@ti.kernel
def clear():
    for t, i in force:
        force[t, i] = [0.0, 0.0]


for k, (a, b) in enumerate(links):
    ends[k] = [a, b]
    length[k] = math.dist(points[a], points[b])
random = np.random.default_rng(1)
w1.from_numpy((random.standard_normal((hidden, inputs)) * math.sqrt(2 / (hidden + inputs)) * 2).astype(np.float32))
w2.from_numpy((random.standard_normal((m, hidden)) * math.sqrt(2 / (hidden + m)) * 3).astype(np.float32))
for k, p in enumerate(points):
    x[0, k] = [p[0] + 0.1, p[1] + ground]

optimizer = ti.optim.Adam([w1, w2], 0.02)
losses = []
gui = ti.GUI("Walker", res=480, background_color=0xF4F1EA)
for _frame in frames(gui):
    clear()
    loss[None] = 0.0
    with ti.ad.Tape(loss):
        for t in range(steps):
            think(t)
            act(t)
            pull(t)
            advance(t + 1)
        miss()
    losses.append(loss[None])
    optimizer.step()
    shown, strengths = x.to_numpy(), muscles.to_numpy()
    gui.line((0, ground - 0.01), (1, ground - 0.01), color=0x33404A, radius=2)
    for t in range(0, steps, 127):
        for k, (a, b) in enumerate(links):
            gui.line(shown[t, a], shown[t, b], radius=2, color=ti.rgb_to_hex((0.6 + 0.4 * strengths[t, k], 0.5, 0.4)))
