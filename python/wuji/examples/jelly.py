"""A soft body of tetrahedra that bounces on the ground: explicit finite elements on a mesh."""

from itertools import permutations

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 8
dt, steps = 4e-4, 40
stiffness, bulk = 1.2e4, 2.4e4
gravity = ti.Vector([0.0, -9.8, 0.0])


def cube():
    """Return the vertices and the tetrahedra of a cube: six in each cell of a grid."""
    corners = np.arange((n + 1) ** 3).reshape(n + 1, n + 1, n + 1)
    first = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    cells = []
    for axes in permutations(range(3)):
        path = [first]
        for axis in axes:
            path.append(path[-1] + np.eye(3, dtype=int)[axis])
        cells.append(np.stack([corners[tuple(p.T)] for p in path], -1))
    points = np.stack(np.meshgrid(*[np.linspace(-0.2, 0.2, n + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return points, np.concatenate(cells)


points, tetrahedra = cube()
mesh = ti.Mesh.from_arrays(points, cells=tetrahedra)
mesh.verts.place({"x": ti.math.vec3, "v": ti.math.vec3, "force": ti.math.vec3, "mass": ti.f32}, reorder=True)
mesh.cells.place({"rest": ti.math.mat3, "volume": ti.f32})

# Turned, so that it lands on a corner.
a, b = np.cos(0.6), np.sin(0.6)
turned = points @ np.array([[a, -b, 0], [b, a, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, a, -b], [0, b, a]])
mesh.verts.x.from_numpy((turned + [0, 0.6, 0]).astype(np.float32))

# The faces of the surface have one cell.
offsets, _ = mesh.get_relation_as_numpy("FC")
surface = mesh.get_relation_as_numpy("FV")[np.diff(offsets) == 1]
indices = ti.field(ti.i32, shape=surface.size)
indices.from_numpy(surface.astype(np.int32).ravel())


@ti.func
def shape(c):
    """Return the edges of a cell from its first corner, as columns."""
    o = c.verts[0].x
    return ti.Matrix.cols([c.verts[1].x - o, c.verts[2].x - o, c.verts[3].x - o])


@ti.kernel
def begin():
    for c in mesh.cells:
        edges = shape(c)
        c.rest = edges.inverse()
        c.volume = ti.abs(edges.determinant()) / 6
        for v in c.verts:
            v.mass += c.volume * 250


@ti.kernel
def step():
    for v in mesh.verts:
        v.force = gravity * v.mass
    for c in mesh.cells:
        f = shape(c) @ c.rest
        # A neo-Hookean material.
        j = ti.max(f.determinant(), 0.1)
        stress = stiffness * (f - f.inverse().transpose()) + bulk * ti.log(j) * f.inverse().transpose()
        h = -c.volume * stress @ c.rest.transpose()
        for k in ti.static(range(3)):
            push = ti.Vector([h[0, k], h[1, k], h[2, k]])
            c.verts[k + 1].force += push
            c.verts[0].force -= push
    for v in mesh.verts:
        v.v = (v.v + v.force / v.mass * dt) * ti.exp(-0.4 * dt)
        if v.x.y < 0 and v.v.y < 0:
            v.v = [0.9 * v.v.x, 0.0, 0.9 * v.v.z]
        v.x += v.v * dt


begin()
window = ti.ui.Window("Jelly", (480, 480), vsync=True)
canvas, scene, camera = window.get_canvas(), window.get_scene(), ti.ui.Camera()
camera.position(0.9, 0.8, 1.5)
camera.lookat(0.0, 0.25, 0.0)
for _frame in frames(window):
    for _ in range(steps):
        step()
    scene.set_camera(camera)
    scene.ambient_light((0.35, 0.35, 0.4))
    scene.point_light(pos=(1.0, 2.5, 1.5), color=(0.8, 0.75, 0.7))
    scene.mesh(mesh.verts.x, indices=indices, color=(0.85, 0.35, 0.3), two_sided=True)
    canvas.set_background_color((0.07, 0.09, 0.12))
    canvas.scene(scene)
