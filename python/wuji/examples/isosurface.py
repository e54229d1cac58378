"""Metaballs: marching tetrahedra, exported as a PLY file."""

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, most = 48, 200_000
density = ti.field(ti.f32, shape=(n, n, n))
corners = ti.Vector.field(3, ti.f32, shape=3 * most)
count = ti.field(ti.i32, shape=())
pixels = ti.Vector.field(3, ti.f32, shape=(320, 320))
vec3 = ti.math.vec3

# Six tetrahedra around a diagonal fill a cube. Each yields at most two triangles, so no case tables are needed.
cube = [vec3(0, 0, 0), vec3(1, 0, 0), vec3(1, 1, 0), vec3(0, 1, 0), vec3(0, 0, 1), vec3(1, 0, 1), vec3(1, 1, 1), vec3(0, 1, 1)]
tetrahedra = [(0, 6, 1, 2), (0, 6, 2, 3), (0, 6, 3, 7), (0, 6, 7, 4), (0, 6, 4, 5), (0, 6, 5, 1)]


@ti.kernel
def fill(t: ti.f32):
    for I in ti.grouped(density):
        p = ti.cast(I, ti.f32) / (n - 1) - 0.5
        d = -1.0
        for k in ti.static(range(4)):
            q = 0.25 * vec3(ti.sin(t * (1 + 0.3 * k) + k), ti.cos(t * 1.1 + 2 * k), ti.sin(t * 0.7 + 3 * k))
            d += 0.02 / ((p - q).norm_sqr() + 1e-3)
        density[I] = d


@ti.func
def between(a, b, da, db):
    return a + (b - a) * (da / (da - db))


@ti.func
def triangle(a, b, c):
    k = ti.atomic_add(count[None], 1)
    if k < most:
        corners[3 * k], corners[3 * k + 1], corners[3 * k + 2] = a, b, c


@ti.kernel
def surface():
    count[None] = 0
    for i, j, k in ti.ndrange(n - 1, n - 1, n - 1):
        at = ti.Vector([i, j, k])
        for tetrahedron in ti.static(tetrahedra):
            p = [(at + cube[c]) / (n - 1) - 0.5 for c in tetrahedron]
            d = [density[at + int(cube[c])] for c in tetrahedron]
            inside = 0
            for c in ti.static(range(4)):
                inside += d[c] > 0
            for c in ti.static(range(4)):
                o = ti.static([m for m in range(4) if m != c])
                # One corner on its own side: a triangle.
                if (inside == 1 and d[c] > 0) or (inside == 3 and d[c] <= 0):
                    triangle(*[between(p[c], p[m], d[c], d[m]) for m in o])
            for a, b in ti.static([(0, 1), (0, 2), (0, 3)]):
                o = ti.static([m for m in range(4) if m not in (a, b)])
                # Two corners on each side: a quadrilateral.
                if inside == 2 and (d[a] > 0) == (d[b] > 0):
                    q0, q1 = between(p[a], p[o[0]], d[a], d[o[0]]), between(p[a], p[o[1]], d[a], d[o[1]])
                    q2, q3 = between(p[b], p[o[1]], d[b], d[o[1]]), between(p[b], p[o[0]], d[b], d[o[0]])
                    triangle(q0, q1, q2)
                    triangle(q0, q2, q3)


@ti.func
def at(p):
    """Interpolate the density trilinearly."""
    base = int(ti.floor(p))
    f = p - base
    d = 0.0
    for corner in ti.static(ti.grouped(ti.ndrange(2, 2, 2))):
        weight = 1.0
        for k in ti.static(range(3)):
            weight *= f[k] if corner[k] else 1 - f[k]
        d += weight * density[base + corner]
    return d


@ti.kernel
def paint():
    for i, j in pixels:
        c = vec3(0.08, 0.1, 0.13)
        p = vec3(i / 320 * (n - 1), j / 320 * (n - 1), n - 2)
        # March down into the grid to the first point inside.
        while p.z > 1 and at(p) <= 0:
            p.z -= 0.25
        if p.z > 1:
            e = 0.5
            g = vec3(at(p + vec3(e, 0, 0)) - at(p - vec3(e, 0, 0)), at(p + vec3(0, e, 0)) - at(p - vec3(0, e, 0)), at(p + vec3(0, 0, e)) - at(p - vec3(0, 0, e)))
            lit = ti.max(-g.normalized().dot(vec3(0.4, 0.5, 0.76)), 0.0)
            c = vec3(0.2, 0.5, 0.75) * (0.25 + 0.75 * lit) + 0.3 * lit**20
        pixels[i, j] = c


gui = ti.GUI("Isosurface", res=320)
for frame in frames(gui):
    fill(frame * 0.08)
    surface()
    paint()
    gui.set_image(pixels)

points = corners.to_numpy()[: 3 * min(count[None], most)]
writer = ti.tools.PLYWriter(num_vertices=len(points), num_faces=len(points) // 3)
writer.add_vertex_pos(points[:, 0], points[:, 1], points[:, 2])
writer.add_faces(np.arange(len(points)))
writer.export("isosurface.ply")
