"""Programs for Taichi with `ti.ui`, unmodified except for the import of the compatibility layer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import taichi as ti

ti.init(arch=ti.gpu)
n = 8
vertices = ti.Vector.field(3, dtype=float, shape=n * n)
indices = ti.field(int, shape=(n - 1) * (n - 1) * 6)
colors = ti.Vector.field(3, dtype=float, shape=n * n)
ball = ti.Vector.field(3, dtype=float, shape=(1,))


@ti.kernel
def build():
    for i, j in ti.ndrange(n - 1, n - 1):
        first, at = i * n + j, (i * (n - 1) + j) * 6
        for k, corner in ti.static(enumerate((0, 1, n, n + 1, n, 1))):
            indices[at + k] = first + corner
    for i, j in ti.ndrange(n, n):
        vertices[i * n + j] = [i / n - 0.5, 0.1 * ti.sin(6.0 * i / n), j / n - 0.5]
        colors[i * n + j] = (0.22, 0.72, 0.52) if (i // 2 + j // 2) % 2 == 0 else (1, 0.334, 0.52)


build()
window = ti.ui.Window("Program", (160, 120), vsync=True)
canvas = window.get_canvas()
canvas.set_background_color((1, 1, 1))
scene = window.get_scene()
camera = ti.ui.Camera()
camera.position(0.0, 1.0, 1.5)
camera.lookat(0.0, 0.0, 0.0)
speed, frames = 1.0, 0
while window.running:
    if window.get_event(ti.ui.PRESS):
        if window.event.key == ti.ui.ESCAPE:
            break
    for e in window.get_events(ti.ui.RELEASE):
        print(e.key)
    if window.is_pressed(ti.ui.LEFT, "a"):
        speed = 0.0
    camera.track_user_inputs(window, movement_speed=0.03, hold_key=ti.ui.RMB)
    scene.set_camera(camera)
    scene.point_light(pos=(0, 1, 2), color=(1, 1, 1))
    scene.ambient_light((0.5, 0.5, 0.5))
    scene.mesh(vertices, indices=indices, per_vertex_color=colors, two_sided=True)
    scene.particles(ball, radius=0.2 * 0.95, color=(0.5, 0.42, 0.8))
    canvas.scene(scene)
    with window.GUI.sub_window("options", 0.05, 0.05, 0.4, 0.4) as w:
        speed = w.slider_float("speed", speed, 0, 2)
        w.text(f"frame {frames}")
    frames += 1
    if frames == 3:
        window.save_image("frame.png")
        window.running = False
    window.show()
print(frames, speed, window.get_image_buffer_as_numpy()[80, 60].tolist()[3])
"""


def test_a_program_with_a_scene(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "TI_GUI_SHOW": "0", "WUJI_CACHE": "off"}
    command = [sys.executable, "-c", "import wuji.compat.taichi, runpy; runpy.run_path('program.py', run_name='__main__')"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "3 1.0 1.0"

    import wuji as ti

    picture = ti.tools.imread(str(tmp_path / "frame.png"))
    assert picture[2, 2, :3].tolist() == [255, 255, 255], "the background"
    red, green, blue = (int(c) for c in picture[80, 60, :3])
    assert blue > red > green and blue > 100, "the ball"
