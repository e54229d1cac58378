"""A billiard player who learns from gradients: balls that collide, differentiated through a thousand steps."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

rows = 4
balls = 1 + rows * (rows + 1) // 2
steps = 1024
dt, radius, bounce = 0.003, 0.03, 0.9
target_ball = balls - 1
goal = ti.Vector([0.9, 0.75])

x = ti.Vector.field(2, ti.f32, shape=(steps + 1, balls), needs_grad=True)
v = ti.Vector.field(2, ti.f32, shape=(steps + 1, balls), needs_grad=True)
impulse = ti.Vector.field(2, ti.f32, shape=(steps + 1, balls), needs_grad=True)
push = ti.Vector.field(2, ti.f32, shape=(steps + 1, balls), needs_grad=True)
cue = ti.Vector.field(2, ti.f32, shape=(), needs_grad=True)
aim = ti.Vector.field(2, ti.f32, shape=(), needs_grad=True)
loss = ti.field(ti.f32, shape=(), needs_grad=True)


@ti.kernel
def begin():
    x[0, 0] = cue[None]
    v[0, 0] = aim[None]
    for row in range(rows):
        for k in range(row + 1):
            x[0, 1 + row * (row + 1) // 2 + k] = ti.Vector([0.5 + 2 * row * radius, 0.5 + (2 * k - row) * radius * 1.1])


@ti.kernel
def collide(t: ti.i32):
    for i in range(balls):
        for j in range(balls):
            if i != j:
                apart = x[t, i] + dt * v[t, i] - x[t, j] - dt * v[t, j]
                distance = apart.norm()
                if distance < 2 * radius:
                    direction = apart / distance
                    closing = direction.dot(v[t, i] - v[t, j])
                    # With the time of impact, positions depend on the collision as they should.
                    late = ti.min((distance - 2 * radius) / ti.min(-1e-3, closing), dt)
                    gain = -(1 + bounce) * 0.5 * closing * direction
                    impulse[t + 1, i] += gain
                    push[t + 1, i] -= late * gain


@ti.kernel
def advance(t: ti.i32):
    for i in range(balls):
        v[t, i] = v[t - 1, i] + impulse[t, i]
        x[t, i] = x[t - 1, i] + dt * v[t, i] + push[t, i]


@ti.kernel
def miss():
    loss[None] = (x[steps, target_ball] - goal).norm_sqr()


@ti.kernel
def clear():
    for t, i in impulse:
        impulse[t, i] = [0.0, 0.0]
        push[t, i] = [0.0, 0.0]


cue[None] = [0.1, 0.5]
aim[None] = [0.3, 0.0]
losses = []
gui = ti.GUI("Billiards", res=480, background_color=0x12372A)
for _frame in frames(gui):
    clear()
    with ti.ad.Tape(loss):
        begin()
        for t in range(steps):
            collide(t)
            advance(t + 1)
        miss()
    losses.append(loss[None])
    cue[None] -= 0.003 * cue.grad[None]
    aim[None] -= 0.003 * aim.grad[None]
    shown = x.to_numpy()
    for t in range(0, steps, 8):
        gui.circles(shown[t], radius=1, color=0x4C7A65)
    gui.circles(shown[steps], radius=480 * radius, color=0xF2E8CF)
    gui.circle(shown[steps, target_ball], radius=480 * radius, color=0xE76F51)
    gui.circle(goal, radius=8, color=0xFFFFFF)
