"""Marbles fall into a bowl of glass: a scene with lights, meshes and widgets."""

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, size, bowl = 600, 0.05, 0.8
dt, steps = 1e-3, 20
stiffness, damping = 2e4, 12.0
x = ti.Vector.field(3, ti.f32, shape=n)
v = ti.Vector.field(3, ti.f32, shape=n)
force = ti.Vector.field(3, ti.f32, shape=n)
color = ti.Vector.field(3, ti.f32, shape=n)


@ti.kernel
def begin():
    for i in x:
        layer, place = i // 36, i % 36
        shake = ti.Vector([ti.random(), ti.random(), ti.random()]) * 0.02
        x[i] = ti.Vector([place % 6 * 0.11 - 0.28, 0.1 + layer * 0.11, place // 6 * 0.11 - 0.28]) + shake
        v[i] = [0, 0, 0]
        color[i] = ti.Vector([0.3, 0.3, 0.3]) + 0.6 * ti.Vector([ti.random(), ti.random(), ti.random()])


@ti.func
def contact(depth, normal, speed):
    return ti.max(stiffness * depth - damping * speed.dot(normal), 0.0) * normal - 0.5 * damping * (speed - speed.dot(normal) * normal)


@ti.kernel
def step(gravity: ti.f32):
    for i in x:
        total = ti.Vector([0.0, -gravity, 0.0])
        for j in range(n):
            d = x[i] - x[j]
            distance = d.norm()
            if i != j and distance < 2 * size:
                total += contact(2 * size - distance, d / (distance + 1e-9), v[i] - v[j])
        outside = x[i].norm() + size - bowl
        if outside > 0 and x[i].y < 0:
            total += contact(outside, -x[i].normalized(), v[i])
        force[i] = total
    for i in x:
        v[i] += force[i] * dt
        x[i] += v[i] * dt


def half_sphere(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices and the indices of the bowl."""
    down, around = np.meshgrid(np.linspace(np.pi / 2, np.pi, rows), np.linspace(0, 2 * np.pi, columns), indexing="ij")
    vertices = bowl * np.stack([np.sin(down) * np.cos(around), np.cos(down), np.sin(down) * np.sin(around)], axis=-1)
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij")
    first = (i * columns + j).reshape(-1)
    corners = np.stack([first, first + 1, first + columns, first + 1, first + columns + 1, first + columns], axis=-1)
    return vertices.reshape(-1, 3).astype(np.float32), corners.reshape(-1)


begin()
vertices, indices = half_sphere(24, 64)
glass = np.full((len(vertices), 4), [0.5, 0.7, 0.9, 0.35], np.float32)
window = ti.ui.Window("Marbles", (640, 480), vsync=True)
canvas, scene, gui = window.get_canvas(), window.get_scene(), window.get_gui()
camera = ti.ui.Camera()
camera.position(0.0, 1.3, 2.6)
camera.lookat(0.0, -0.1, 0.0)
gravity = 9.8
for _frame in frames(window):
    with gui.sub_window("Marbles", 0.02, 0.02, 0.35, 0.2):
        gravity = gui.slider_float("gravity", gravity, 0.0, 30.0)
        if gui.button("restart"):
            begin()
    for _ in range(steps):
        step(gravity)
    camera.track_user_inputs(window, movement_speed=0.03, hold_key=ti.ui.RMB)
    canvas.set_background_color((0.06, 0.09, 0.11))
    scene.set_camera(camera)
    scene.ambient_light((0.3, 0.3, 0.3))
    scene.point_light(pos=(1.5, 3.0, 2.0), color=(0.8, 0.8, 0.8))
    scene.particles(x, radius=size, per_vertex_color=color)
    scene.mesh(vertices, indices=indices, per_vertex_color=glass, two_sided=True)
    canvas.scene(scene)
