"""Stable fluids: coloured smoke from two jets that meet."""

import wuji as ti
import wuji.math as tm
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, pressure_steps = 256, 40


class Turns:
    """Two fields that take turns: one is read, the other is written."""

    def __init__(self, name, components):
        make = ti.field if components == 1 else lambda *a, **k: ti.Vector.field(components, *a, **k)
        self.now, self.next = (make(ti.f32, shape=(n, n), name=f"{name}{i}") for i in range(2))

    def turn(self):
        self.now, self.next = self.next, self.now


v, dye, p = Turns("v", 2), Turns("dye", 3), Turns("p", 1)
thinning = ti.field(ti.f32, shape=(n, n))


@ti.func
def sample(x: ti.template(), at):
    """The value between the four cells around a place; for velocities and colours alike."""
    cell = ti.floor(at, ti.i32)
    f = at - cell
    low = tm.mix(x[cell], x[cell + tm.ivec2(1, 0)], f.x)
    high = tm.mix(x[cell + tm.ivec2(0, 1)], x[cell + tm.ivec2(1, 1)], f.x)
    return tm.mix(low, high, f.y)


@ti.kernel
def advect(v: ti.template(), dye: ti.template(), new_v: ti.template(), new_dye: ti.template()):
    """What is here now was there a moment ago."""
    for i, j in v:
        there = tm.clamp(ti.Vector([i, j]) - v[i, j], 0.0, n - 1.0)
        new_v[i, j] = sample(v, there)
        new_dye[i, j] = sample(dye, there) * 0.995


@ti.kernel
def push(v: ti.template(), dye: ti.template(), at: tm.vec2, force: tm.vec2, color: tm.vec3):
    """A jet: pushes the fluid within a radius, and colours it."""
    for i, j in v:
        d = (ti.Vector([i, j]) / n - at).norm() * 24
        strength = ti.exp(-d * d)
        v[i, j] += force * n * strength
        dye[i, j] = tm.mix(dye[i, j], color, strength * 0.3)


@ti.kernel
def diverge(v: ti.template()):
    for i, j in v:
        thinning[i, j] = 0.5 * (v[i + 1, j].x - v[i - 1, j].x + v[i, j + 1].y - v[i, j - 1].y)


@ti.kernel
def jacobi(p: ti.template(), new_p: ti.template()):
    for i, j in p:
        new_p[i, j] = 0.25 * (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1] - thinning[i, j])


@ti.kernel
def project(v: ti.template(), p: ti.template()):
    """Takes the gradient of the pressure away: what is left neither gathers nor parts."""
    for i, j in v:
        v[i, j] -= 0.5 * tm.vec2(p[i + 1, j] - p[i - 1, j], p[i, j + 1] - p[i, j - 1])


dye.now.fill([0.02, 0.03, 0.06])
gui = ti.GUI("Smoke", res=n)
held = None
for frame in frames(gui):
    sway = tm.sin(frame * 0.09) * 0.0012
    push(v.now, dye.now, tm.vec2(0.12, 0.32), tm.vec2(0.0022, sway), tm.vec3(1.0, 0.42, 0.1))
    push(v.now, dye.now, tm.vec2(0.88, 0.68), tm.vec2(-0.0022, sway), tm.vec3(0.15, 0.55, 1.0))
    pointer = tm.vec2(*gui.get_cursor_pos()) if gui.is_pressed(ti.GUI.LMB) else None
    if pointer is not None and held is not None:
        push(v.now, dye.now, pointer, (pointer - held) * 0.1, tm.vec3(0.9, 0.95, 1.0))
    held = pointer
    advect(v.now, dye.now, v.next, dye.next)
    v.turn()
    dye.turn()
    diverge(v.now)
    for _ in range(pressure_steps):
        jacobi(p.now, p.next)
        p.turn()
    project(v.now, p.now)
    gui.set_image(dye.now)
