"""A hollow sphere that sags under its weight: matrix-free finite elements with conjugate gradients."""

import itertools

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, block = 64, 8
soft, hard = (1.0, 0.8), (4.0, 3.0)
vec3 = ti.math.vec3

# Displacement, residual, search direction, and operator times direction. Nodes are active where there is material.
u, r, p, kp = (ti.Vector.field(3, ti.f32) for _ in range(4))
lam, mu = ti.field(ti.f32), ti.field(ti.f32)
blocks = ti.root.pointer(ti.ijk, n // block)
for field in (u, r, p, kp):
    # SOA: each component in its own array.
    for c in range(3):
        blocks.dense(ti.ijk, block).place(field.get_scalar_field(c))
for field in (lam, mu):
    blocks.dense(ti.ijk, block).place(field)
lowest = ti.field(ti.i32, shape=())
points = ti.Vector.field(2, ti.f32, shape=n * n)
bent = ti.field(ti.f32, shape=n * n)


def overlap(a, b, i, j):
    """Integrate, over a cell, the derivative along `i` of the shape function of corner `a` times that along `j` of corner `b`."""
    value = 1.0
    for d in range(3):
        sa, sb = 2 * (a >> d & 1) - 1, 2 * (b >> d & 1) - 1
        if i == d and j == d:
            value *= sa * sb
        elif i == d or j == d:
            value *= 0.5 * (sa if i == d else sb)
        else:
            value *= 1 / 3 if sa == sb else 1 / 6
    return value


# Stiffness matrices: force on corner `a` per displacement of corner `b`, for Lame's first and second parameter.
stiffness = np.zeros((8, 8, 2, 3, 3))
for a, b, i, j in itertools.product(range(8), range(8), range(3), range(3)):
    stiffness[a, b, 0, i, j] = overlap(a, b, i, j)
    stiffness[a, b, 1, i, j] = overlap(a, b, j, i) + (i == j) * sum(overlap(a, b, d, d) for d in range(3))


@ti.func
def corner(a: ti.template()):
    return ti.Vector([a & 1, a >> 1 & 1, a >> 2])


@ti.kernel
def fill():
    lowest[None] = n
    for I in ti.grouped(ti.ndrange(n, n, n)):
        distance = ((I + 0.5) / n - 0.5).norm()
        if 0.22 <= distance < 0.37:
            lam[I], mu[I] = (soft[0], soft[1]) if I.x < n // 2 else (hard[0], hard[1])
            ti.atomic_min(lowest[None], I.y)
            # The far corners of a cell may lie in the next block.
            for a in ti.static(range(8)):
                ti.activate(blocks, (I + corner(a)) // block)


@ti.kernel
def weigh(bottom: ti.i32) -> ti.f64:
    """Distribute the weight of each cell to its corners."""
    total = ti.f64(0)
    for I in ti.grouped(r):
        weight = 0.0
        for a in ti.static(range(8)):
            if mu[I - corner(a)] > 0:
                weight += 1e-3 / 8
        r[I] = vec3(0, -weight if I.y > bottom else 0.0, 0)
        p[I] = r[I]
        total += r[I].norm_sqr()
    return total


@ti.kernel
def apply(bottom: ti.i32) -> ti.f64:
    """Compute `kp = K p` and `p . kp`: each node gathers the forces of its eight cells. Nodes at the bottom are fixed."""
    work = ti.f64(0)
    for I in ti.grouped(p):
        force = vec3(0)
        for a in ti.static(range(8)):
            # This node is corner `a` of that cell.
            cell = I - corner(a)
            first, second = vec3(0), vec3(0)
            for b in ti.static(range(8)):
                moved = p[cell + corner(b)]
                first += ti.Matrix(ti.static(stiffness[a, b, 0].tolist())) @ moved
                second += ti.Matrix(ti.static(stiffness[a, b, 1].tolist())) @ moved
            force += first * lam[cell] + second * mu[cell]
        if I.y <= bottom:
            force = vec3(0)
        kp[I] = force
        work += p[I].dot(force)
    return work


@ti.kernel
def advance(alpha: ti.f32) -> ti.f64:
    left = ti.f64(0)
    for I in ti.grouped(u):
        u[I] += alpha * p[I]
        r[I] -= alpha * kp[I]
        left += r[I].norm_sqr()
    return left


@ti.kernel
def turn(beta: ti.f32):
    for I in ti.grouped(p):
        p[I] = r[I] + beta * p[I]


@ti.kernel
def look():
    """Project the nodes of a cross section, with exaggerated displacement."""
    most = 1e-9
    for I in ti.grouped(u):
        ti.atomic_max(most, u[I].norm())
    for i, j in ti.ndrange(n, n):
        moved = u[i, j, n // 2] / most
        points[i * n + j] = ti.Vector([i + 0.5, j + 0.5]) / n + 0.07 * moved.xy
        bent[i * n + j] = moved.norm() if mu[i, j, n // 2] > 0 else -1.0


fill()
bottom = lowest[None] + n // 32
start = left = weigh(bottom)
palette = [ti.rgb_to_hex((0.18 + 0.82 * t, 0.43 + 0.05 * t, 0.82 - 0.55 * t)) for t in np.linspace(0, 1, 16)]
gui = ti.GUI("A ball sags", res=8 * n, background_color=0x10161C)
for _frame in frames(gui):
    for _ in range(4):
        new = advance(left / apply(bottom))
        turn(new / left)
        left = new
    look()
    there = bent.to_numpy() >= 0
    shade = (bent.to_numpy()[there] * 15).astype(int)
    gui.circles(points.to_numpy()[there], radius=6, palette=palette, palette_indices=shade)
    gui.text(f"residual {(left / start) ** 0.5:.1e}", pos=(0.02, 0.05), font_size=16)
