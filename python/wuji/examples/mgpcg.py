"""Poisson's equation on a domain with holes: multigrid-preconditioned conjugate gradients."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, levels, block = 512, 5, 8
sweeps, bottom_sweeps = 2, 20

# One tree per level, each with half the resolution of the previous one. Inactive cells read as zero, so boundaries need no code.
r = [ti.field(ti.f32) for _ in range(levels)]
z = [ti.field(ti.f32) for _ in range(levels)]
x, p, ap = (ti.field(ti.f32) for _ in range(3))
blocks = []
for level in range(levels):
    blocks.append(ti.root.pointer(ti.ij, (n >> level) // block))
    for field in (r[level], z[level], *((x, p, ap) if level == 0 else ())):
        blocks[level].dense(ti.ij, block).place(field)
pixels = ti.Vector.field(3, ti.f32, shape=(n, n))
vec2, vec3 = ti.math.vec2, ti.math.vec3


@ti.func
def exists(i, j):
    """Return whether a cell belongs to the domain: a ring with three holes."""
    at = vec2(i, j) / n - 0.5
    inside = 0.12 < at.norm() < 0.46
    for k in ti.static(range(3)):
        angle = 2.1 * k + 0.5
        inside = inside and (at - 0.3 * vec2(ti.cos(angle), ti.sin(angle))).norm() > 0.07
    return inside


@ti.kernel
def fill():
    for i, j in ti.ndrange(n // block, n // block):
        if exists((i + 0.5) * block, (j + 0.5) * block):
            for level in ti.static(range(levels)):
                ti.activate(blocks[level], [i >> level, j >> level])


@ti.kernel
def source():
    for i, j in r[0]:
        at = vec2(i, j) * (8 * ti.math.pi / n)
        r[0][i, j] = ti.sin(at.x) * ti.cos(at.y)


@ti.func
def around(f, i, j):
    return f[i - 1, j] + f[i + 1, j] + f[i, j - 1] + f[i, j + 1]


@ti.kernel
def smooth(level: ti.template(), color: ti.i32):
    """Run half a Gauss-Seidel sweep, over one color of a checkerboard."""
    for i, j in z[level]:
        if (i + j) & 1 == color:
            z[level][i, j] = (r[level][i, j] + around(z[level], i, j)) / 4


@ti.kernel
def restrict(level: ti.template()):
    """Restrict the residual of a level to the right-hand side of the next one."""
    for i, j in r[level + 1]:
        r[level + 1][i, j] = 0
        z[level + 1][i, j] = 0
    for i, j in z[level]:
        left = r[level][i, j] - (4 * z[level][i, j] - around(z[level], i, j))
        r[level + 1][i // 2, j // 2] += left


@ti.kernel
def prolongate(level: ti.template()):
    for i, j in z[level]:
        z[level][i, j] += z[level + 1][i // 2, j // 2]


@ti.kernel
def clear(f: ti.template()):
    for I in ti.grouped(f):
        f[I] = 0


def v_cycle():
    clear(z[0])
    for level in range(levels - 1):
        for k in range(2 * sweeps):
            smooth(level, k % 2)
        restrict(level)
    for k in range(4 * bottom_sweeps):
        # The second half runs the colors in reverse, which keeps the preconditioner symmetric.
        smooth(levels - 1, k % 2 if k < 2 * bottom_sweeps else 1 - k % 2)
    for level in reversed(range(levels - 1)):
        prolongate(level)
        for k in range(2 * sweeps):
            smooth(level, 1 - k % 2)


@ti.kernel
def dot(a: ti.template(), b: ti.template()) -> ti.f64:
    total = ti.f64(0)
    for I in ti.grouped(a):
        total += a[I] * b[I]
    return total


@ti.kernel
def apply() -> ti.f64:
    total = ti.f64(0)
    for i, j in p:
        ap[i, j] = 4 * p[i, j] - around(p, i, j)
        total += p[i, j] * ap[i, j]
    return total


@ti.kernel
def advance(alpha: ti.f32) -> ti.f64:
    left = ti.f64(0)
    for I in ti.grouped(x):
        x[I] += alpha * p[I]
        r[0][I] -= alpha * ap[I]
        left += r[0][I] ** 2
    return left


@ti.kernel
def turn(beta: ti.f32):
    for I in ti.grouped(p):
        p[I] = z[0][I] + beta * p[I]


@ti.kernel
def look():
    most = 1e-9
    for I in ti.grouped(x):
        ti.atomic_max(most, abs(x[I]))
    for I in ti.grouped(pixels):
        pixels[I] = [0.05, 0.07, 0.1]
    for I in ti.grouped(x):
        t = x[I] / most
        far = vec3(0.95, 0.45, 0.2) if t > 0 else vec3(0.15, 0.4, 0.85)
        pixels[I] = ti.math.mix(vec3(0.95), far, ti.sqrt(abs(t)))


fill()
source()
start = left = dot(r[0], r[0])
v_cycle()
rz = dot(r[0], z[0])
turn(0.0)
gui = ti.GUI("Poisson", res=n)
for frame in frames(gui):
    if left > 1e-12 * start:
        left = advance(rz / apply())
        v_cycle()
        rz, before = dot(r[0], z[0]), rz
        turn(rz / before)
    look()
    gui.set_image(pixels)
    gui.text(f"iteration {frame + 1}: residual {(left / start) ** 0.5:.1e}", pos=(0.02, 0.05), font_size=16)
