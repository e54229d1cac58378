"""The wave equation: two slits, and interference behind them."""

import wuji as ti
import wuji.math as tm
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, steps = 320, 6
u = [ti.field(ti.f32, shape=(n, n), name=name) for name in ("u", "v")]
pixels = ti.Vector.field(3, ti.f32, shape=(n, n))


@ti.func
def passes(i, j):
    """How much of a wave goes on here: nothing in the wall, a little less at each step near the edge of the tank."""
    slit = abs(abs(j - n // 2) - n // 10) < n // 32
    wall = abs(i - n // 3) < 2 and not slit
    edge = min(i, j, n - 1 - i, n - 1 - j) / (n * 0.08)
    return 0.0 if wall else 1 - 0.12 * max(1 - edge, 0) ** 2


@ti.kernel
def advance(old: ti.template(), now: ti.template(), time: ti.f32):
    """`old` becomes what comes after `now`."""
    for i, j in now:
        here = now[i, j]
        around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]  # outside there are zeros
        after = 2 * here - old[i, j] + 0.25 * (around - 4 * here)
        source = ti.sin(time * 0.22) * 0.03 if i == n // 8 else 0.0
        old[i, j] = (after + source) * passes(i, j)


@ti.kernel
def drop_stone(field: ti.template(), at: tm.vec2):
    for i, j in field:
        d = tm.distance(ti.Vector([i, j]) / n, at) * n
        field[i, j] += 0.9 * ti.exp(-d * d / 20)


@ti.kernel
def paint():
    for i, j in pixels:
        # A root makes the small waves behind the wall visible.
        h = tm.sign(u[0][i, j]) * min(ti.sqrt(abs(u[0][i, j])), 1)
        calm = tm.vec3(0.08, 0.3, 0.52)
        water = tm.mix(calm, tm.vec3(0.92, 0.98, 1.0), h) if h > 0 else tm.mix(calm, tm.vec3(0.02, 0.05, 0.2), -h)
        pixels[i, j] = tm.vec3(0.9, 0.55, 0.2) if passes(i, j) == 0 else water


gui = ti.GUI("Waves", res=n)
for frame in frames(gui):
    if gui.is_pressed(ti.GUI.LMB):
        drop_stone(u[0], ti.Vector(gui.get_cursor_pos()))
    for step in range(steps):
        advance(u[(step + 1) % 2], u[step % 2], frame * steps + step)
    paint()
    gui.set_image(pixels)
