"""N-body gravity, all pairs."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 1000
dt = 2e-5
position = ti.Vector.field(2, ti.f32, shape=n)
velocity = ti.Vector.field(2, ti.f32, shape=n)


@ti.kernel
def begin():
    for i in range(n):
        angle = ti.random() * 2 * ti.math.pi
        distance = (ti.sqrt(ti.random()) * 0.7 + 0.3) * 0.3
        around = ti.Vector([ti.cos(angle), ti.sin(angle)])
        position[i] = 0.5 + around * distance
        velocity[i] = ti.Vector([-around.y, around.x]) * 60


@ti.kernel
def step():
    for i in range(n):
        force = ti.Vector([0.0, 0.0])
        for j in range(n):
            if i != j:
                apart = position[j] - position[i]
                force += apart / (apart.norm() + 1e-2) ** 3
        velocity[i] += dt * force
    for i in range(n):
        position[i] += dt * velocity[i]


begin()
gui = ti.GUI("Stars", res=512, background_color=0x05080F)
for _frame in frames(gui):
    for _ in range(4):
        step()
    gui.circles(position.to_numpy(), radius=1.5, color=0xFFE0A0)
