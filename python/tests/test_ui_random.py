"""Random calls of `ti.ui`: each draws something, or raises W0611."""

from __future__ import annotations

import inspect
import random
from typing import Any

import numpy as np
import pytest

import wuji as ti
from wuji.exceptions import WujiArrayError

CALLS = {
    "canvas": "circles lines triangles set_image contour vector_field set_background_color",
    "scene": "mesh mesh_instance particles lines point_light ambient_light",
    "camera": "position lookat up fov left right top bottom z_near z_far projection_mode get_projection_matrix",
    "gui": "begin end text button checkbox slider_int slider_float color_edit_3 color_picker_3",
}
NUMBERS = (0, 1, -1, 0.5, 7, float("nan"), float("inf"), -float("inf"), 1e38, -1e38, 1e-45, 1e9)
SHAPES = ((), (0,), (3,), (6,), (0, 2), (0, 3), (1, 3), (6, 2), (6, 3), (6, 4), (4, 4), (2, 4, 4), (3, 3, 1), (5, 5, 3))
TYPES = (np.float32, np.float32, np.float64, np.int32, np.uint8, bool, complex)


def argument(chance: random.Random) -> Any:
    kind = chance.randrange(8)
    if kind < 4:
        shape = chance.choice(SHAPES)
        dtype = np.dtype(chance.choice(TYPES))
        values = [chance.choice(range(7)) if dtype.kind in "iub" else chance.choice((*NUMBERS, chance.random())) for _ in range(int(np.prod(shape)))]
        with np.errstate(all="ignore"):
            return np.array(values).reshape(shape).astype(dtype)
    return chance.choice(NUMBERS) if kind < 6 else chance.choice((None, "x", [], (0.5, 0.5, 0.5), (chance.random(),) * 3))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(4))
def test_random_calls(seed: int) -> None:
    chance, drawn, refused = random.Random(seed), 0, 0
    for _ in range(20):
        window = ti.ui.Window("random", (chance.randint(1, 70), chance.randint(1, 70)), show_window=False)
        parts = {"canvas": window.get_canvas(), "scene": window.get_scene(), "camera": ti.ui.Camera(), "gui": window.get_gui()}
        for _ in range(30):
            part = chance.choice(list(CALLS))
            call = getattr(parts[part], chance.choice(CALLS[part].split()))
            parameters = inspect.signature(call).parameters.values()
            arguments = {p.name: argument(chance) for p in parameters if p.default is p.empty or chance.random() < 0.3}
            window._handle("button", ti.ui.LMB, chance.random() < 0.5, chance.random(), chance.random())
            try:
                call(**arguments)
                drawn += 1
            except WujiArrayError as error:
                assert error.code == "W0611"
                refused += 1
        camera = ti.ui.Camera()
        camera.position(0, 0, 3)
        camera.lookat(0, 0, 0)
        parts["scene"].set_camera(camera)
        parts["canvas"].scene(parts["scene"])
        assert np.isfinite(window.get_image_buffer_as_numpy()).all() and np.isfinite(window.get_depth_buffer_as_numpy()).all()
    assert drawn > 50 and refused > 50
