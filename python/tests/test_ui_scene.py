"""Scenes and cameras of `ti.ui`: pictures by their pixels, matrices, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti
from wuji.exceptions import WujiArrayError

SIZE = 96
# In pixels, at the distance of 4 units from the camera.
UNIT = SIZE / 2 / (4 * np.tan(np.radians(22.5)))
SQUARE = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], np.float32)
CORNERS = np.array([0, 1, 2, 0, 2, 3], np.int32)
RED, GREEN = (1, 0, 0), (0, 1, 0)


class Stage:
    """A scene that is seen from (0, 0, 4), in full ambient light."""

    def __init__(self) -> None:
        self.window = ti.ui.Window("scene", (SIZE, SIZE), show_window=False)
        self.scene, self.camera = self.window.get_scene(), ti.ui.Camera()
        self.camera.position(0, 0, 4)
        self.camera.lookat(0, 0, 0)
        self.scene.ambient_light((1, 1, 1))

    def picture(self) -> Any:
        self.scene.set_camera(self.camera)
        self.window.get_canvas().scene(self.scene)
        return self.window.get_image_buffer_as_numpy()[..., :3]

    def covered(self) -> int:
        return int(self.picture().any(axis=2).sum())


@pytest.fixture
def stage() -> Stage:
    ti.init(arch=ti.cpu, verbose=False)
    return Stage()


def test_meshes(stage: Stage) -> None:
    vertices = ti.Vector.field(3, ti.f32, 4)
    vertices.from_numpy(SQUARE)
    indices = ti.field(ti.i32, 6)
    indices.from_numpy(CORNERS)
    stage.scene.mesh(vertices, indices=indices, color=RED)
    picture = stage.picture()
    assert picture[48, 48].tolist() == [1, 0, 0]
    assert picture.any(axis=2).sum() == pytest.approx((2 * UNIT) ** 2, rel=0.02)
    assert stage.covered() == 0, "a scene that was drawn is empty"
    # The same as plain triangles, and as rows of indices.
    stage.scene.mesh(SQUARE[CORNERS], color=RED)
    assert np.array_equal(stage.picture(), picture)
    stage.scene.mesh(SQUARE, indices=CORNERS.reshape(2, 3), color=RED)
    assert np.array_equal(stage.picture(), picture)


def test_depth(stage: Stage) -> None:
    stage.scene.mesh(SQUARE, indices=CORNERS, color=RED)
    stage.scene.particles(np.array([[0, 0, -2], [0.5, 0.5, 2]]), radius=0.3, color=GREEN)
    picture = stage.picture()
    assert picture[48, 48].tolist() == [1, 0, 0], "behind the square"
    front = round(48 + UNIT * 2 * 0.5)
    assert picture[front, front].tolist() == [0, 1, 0]
    depth = stage.window.get_depth_buffer_as_numpy()
    assert depth.shape == (SIZE, SIZE) and depth.dtype == np.float32
    # 1 at the near plane (0.1), 0 at the far plane (1000).
    assert depth[48, 48] == pytest.approx(0.1 * (1000 - 4) / (4 * 999.9), rel=1e-3) and depth[0, 0] == 0
    for target in (ti.field(ti.f32, (SIZE, SIZE)), ti.ndarray(ti.f32, (SIZE, SIZE))):
        stage.window.get_depth_buffer(target)
        assert np.array_equal(target.to_numpy(), depth)


def test_lights(stage: Stage) -> None:
    scene = stage.scene
    scene.ambient_light((0.25, 0.25, 0.25))

    def lit(**options: Any) -> float:
        scene.point_light(pos=(0, 0, 100), color=(0.5, 0.5, 0.5))
        scene.mesh(SQUARE, indices=CORNERS, color=(1, 1, 1), **options)
        return float(stage.picture()[48, 48, 0])

    away = ti.Vector.field(3, ti.f32, 4)
    away.from_numpy(np.broadcast_to(np.float32([0, 0, -1]), (4, 3)))
    assert lit() == pytest.approx(0.75, abs=1e-3)
    assert lit(normals=away) == pytest.approx(0.25, abs=1e-3)
    assert lit(normals=away, two_sided=True) == pytest.approx(0.75, abs=1e-3)
    assert lit(normals=np.broadcast_to([0.6, 0, 0.8], (4, 3))) == pytest.approx(0.65, abs=1e-3)
    # Point lights are gone after a frame, ambient light is not.
    scene.mesh(SQUARE, indices=CORNERS, color=(1, 1, 1))
    assert stage.picture()[48, 48, 0] == pytest.approx(0.25)
    # Positions may be vectors.
    scene.point_light(stage.camera.curr_position, ti.Vector([0.5, 0, 0]))
    scene.mesh(SQUARE, indices=CORNERS, color=(1, 1, 1))
    assert stage.picture()[48, 48].tolist() == pytest.approx([0.75, 0.25, 0.25], abs=1e-3)


def test_default_ambient_light() -> None:
    stage = Stage()
    stage.scene = ti.ui.Scene()
    stage.scene.mesh(SQUARE, indices=CORNERS, color=(1, 1, 1))
    assert stage.picture()[48, 48, 0] == pytest.approx(0.1)


def test_particles(stage: Stage) -> None:
    centers = ti.Vector.ndarray(3, ti.f32, 3)
    centers.from_numpy(np.array([[-1, 0, 0], [1, 0, 0], [0, np.inf, 0]], np.float32))
    stage.scene.particles(centers, radius=0.5, color=RED)
    # Spheres look larger than discs.
    assert stage.covered() == pytest.approx(2 * np.pi * (0.5 * UNIT) ** 2, rel=0.1)
    colors, radii = ti.Vector.field(3, ti.f32, 3), ti.field(ti.f32, 3)
    colors.from_numpy(np.eye(3, dtype=np.float32))
    radii.from_numpy(np.array([0.5, 0.25, -1], np.float32))
    stage.scene.particles(centers, radius=9, per_vertex_color=colors, per_vertex_radius=radii)
    picture = stage.picture()
    left, right = round(48 - UNIT), round(48 + UNIT)
    assert picture[left, 48].tolist() == [1, 0, 0] and picture[right, 48].tolist() == [0, 1, 0] and not picture[48, 48].any()
    red, green = (picture[..., 0] > 0).sum(), (picture[..., 1] > 0).sum()
    assert red == pytest.approx(4 * green, rel=0.15)


def test_parts_of_particles(stage: Stage) -> None:
    centers = np.array([[-1, 0, 0], [0, 0, 0], [1, 0, 0]], np.float32)
    stage.scene.particles(centers, radius=0.3, per_vertex_color=np.eye(3), index_offset=1, index_count=1)
    picture = stage.picture()
    assert picture[48, 48].tolist() == [0, 1, 0] and not picture[round(48 - UNIT), 48].any() and not picture[round(48 + UNIT), 48].any()


def test_parts_of_meshes_and_lines(stage: Stage) -> None:
    scene = stage.scene
    two = np.concatenate([SQUARE * 0.25 - [1, 0, 0], SQUARE * 0.25 + [1, 0, 0]]).astype(np.float32)
    left, right = round(48 - UNIT), round(48 + UNIT)

    def seen() -> list[bool]:
        picture = stage.picture()
        return [bool(picture[x, 48 + 2].any()) for x in (left, right)]

    both = np.concatenate([CORNERS, CORNERS + 4])
    scene.mesh(two, indices=both)
    assert seen() == [True, True]
    scene.mesh(two, indices=both, index_offset=6)
    assert seen() == [False, True]
    scene.mesh(two, indices=both, index_count=6)
    assert seen() == [True, False]
    scene.mesh(two, indices=CORNERS, vertex_offset=4)
    assert seen() == [False, True]
    scene.mesh(two[both], vertex_offset=6, vertex_count=6, per_vertex_color=np.ones((12, 3)), normals=np.ones((12, 3)))
    assert seen() == [False, True]
    ends = np.array([[-1, -1, 0], [-1, 1, 0], [1, -1, 0], [1, 1, 0]], np.float32)
    scene.lines(ends, width=4)
    assert seen() == [True, True]
    scene.lines(ends, width=4, vertex_offset=2, vertex_count=2)
    assert seen() == [False, True]
    scene.lines(ends, width=4, indices=np.array([0, 1, 2, 3]), index_offset=2, index_count=2)
    assert seen() == [False, True]


def test_lines(stage: Stage) -> None:
    ends = np.array([[-1, 0, 0], [1, 0, 0]])
    stage.scene.lines(ends, width=6, per_vertex_color=np.array([RED, GREEN]))
    picture = stage.picture()
    assert (picture[48, :, 0] > 0.25).sum() == 6, "in pixels"
    assert picture[round(48 - UNIT) + 1, 48, 0] > 0.95 and picture[round(48 + UNIT) - 1, 48, 1] > 0.95


def test_wireframes(stage: Stage) -> None:
    stage.scene.mesh(SQUARE, indices=CORNERS, color=RED, show_wireframe=True)
    picture = stage.picture()
    assert picture[48, round(48 - UNIT), 0] > 0.3 and picture[48, 48, 0] > 0.3 and not picture[60, 40].any()


def test_instances(stage: Stage) -> None:
    transforms = ti.Matrix.field(4, 4, ti.f32, 3)

    @ti.kernel
    def place():
        for i in range(3):
            transforms[i] = ti.math.translate(1.0 * i - 1, 0, 0) @ ti.math.scale(0.25, 0.25, 0.25)

    place()
    stage.scene.mesh_instance(SQUARE, indices=CORNERS, transforms=transforms, color=RED)
    picture = stage.picture()
    at = [round(48 + x * UNIT) for x in (-1, 0, 1)]
    assert all(picture[x, 48].tolist() == [1, 0, 0] for x in at) and not picture[round(48 + UNIT / 2), 48].any()
    stage.scene.mesh_instance(SQUARE, indices=CORNERS, transforms=transforms, instance_offset=1, instance_count=1)
    picture = stage.picture()
    assert [bool(picture[x, 48].any()) for x in at] == [False, True, False]
    stage.scene.mesh_instance(SQUARE, indices=CORNERS, color=RED)
    assert stage.covered() == pytest.approx((2 * UNIT) ** 2, rel=0.02), "without transforms, once"


def test_scenes_and_shapes_overlap_in_order(stage: Stage) -> None:
    canvas = stage.window.get_canvas()
    canvas.set_image(np.full((SIZE, SIZE, 3), 0.5, np.float32))
    stage.scene.mesh(SQUARE, indices=CORNERS, color=RED)
    stage.scene.set_camera(stage.camera)
    canvas.scene(stage.scene)
    canvas.circles(np.array([[0.5, 0.5]]), radius=0.1, color=GREEN)
    picture = stage.window.get_image_buffer_as_numpy()[..., :3]
    assert picture[48, 48].tolist() == [0, 1, 0] and picture[30, 48].tolist() == [1, 0, 0] and picture[2, 2].tolist() == [0.5] * 3


def test_orthogonal_views(stage: Stage) -> None:
    camera = stage.camera
    camera.projection_mode(ti.ui.ProjectionMode.Orthogonal)
    camera.left(-2), camera.right(2), camera.top(-2), camera.bottom(2)
    stage.scene.mesh(SQUARE - [0, 0, 50], indices=CORNERS, color=RED)
    stage.scene.particles(np.array([[0, 1.5, -90]]), radius=0.25, color=GREEN)
    picture = stage.picture()
    assert (picture[..., 0] > 0).sum() == 48 * 48, "its size does not depend on the distance"
    assert picture[48, 84].tolist() == [0, 1, 0]


# From Taichi 1.7.4.
def test_camera_matrices() -> None:
    camera = ti.ui.make_camera()
    assert np.allclose(camera.get_view_matrix(), np.diag([-1, 1, -1, 1]))
    expected = [[1.207107, 0, 0, 0], [0, 2.414213, 0, 0], [0, 0, 0.0001, -1], [0, 0, 0.10001, 0]]
    assert np.allclose(camera.get_projection_matrix(2.0), expected, atol=1e-5)
    camera.position(1, 2, 3), camera.lookat(0, 0.5, 0), camera.up(0, 1, 0), camera.fov(60), camera.z_near(0.2), camera.z_far(50)
    expected = [
        [0.948683, -0.135526, 0.285714, 0],
        [0, 0.903508, 0.428571, 0],
        [-0.316228, -0.406579, 0.857143, 0],
        [0, -0.451754, -3.714286, 1],
    ]
    view = camera.get_view_matrix()
    assert view.dtype == np.float32 and np.allclose(view, expected, atol=1e-5)
    expected = [[1.154701, 0, 0, 0], [0, 1.732051, 0, 0], [0, 0, 0.004016, -1], [0, 0, 0.200803, 0]]
    assert np.allclose(camera.get_projection_matrix(1.5), expected, atol=1e-5)
    camera.projection_mode(ti.ui.ProjectionMode.Orthogonal)
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0.02008, 0], [0, 0, 1.004016, 1]]
    assert np.allclose(camera.get_projection_matrix(1.5), expected, atol=1e-5)
    camera.left(-2), camera.right(3), camera.top(4), camera.bottom(-5)
    expected = [[0.4, 0, 0, 0], [0, -0.222222, 0, 0], [0, 0, 0.02008, 0], [-0.2, -0.111111, 1.004016, 1]]
    assert np.allclose(camera.get_projection_matrix(1.5), expected, atol=1e-5)


def test_track_user_inputs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    window, camera = stage.window, stage.camera
    clock = [10.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def track(**options: Any) -> None:
        camera.track_user_inputs(window, movement_speed=0.1, hold_key=ti.ui.RMB, **options)
        clock[0] += 0.5  # thirty frames

    track()
    assert list(camera.curr_position) == [0, 0, 4] and list(camera.curr_lookat) == [0, 0, 3]
    for key, direction in (("w", [0, 0, -3]), ("s", [0, 0, 3]), ("a", [-3, 0, 0]), ("d", [3, 0, 0]), ("e", [0, 3, 0]), ("q", [0, -3, 0])):
        before = np.array(list(camera.curr_position))
        window._handle("key", key, True, 0, 0)
        track()
        window._handle("key", key, False, 0, 0)
        assert np.allclose(list(camera.curr_position), before + direction), key
    assert np.allclose(np.subtract(list(camera.curr_lookat), list(camera.curr_position)), [0, 0, -1])
    # The mouse turns the camera while its button is held.
    window._handle("move", "", False, 0.5, 0.5)
    track()
    assert np.allclose(np.subtract(list(camera.curr_lookat), list(camera.curr_position)), [0, 0, -1])
    window._handle("button", "RMB", True, 0.5, 0.5)
    track()
    window._handle("move", "", False, 0.51, 0.5)
    track(yaw_speed=2.0)
    # 0.01 of the width, 2 radians, 30 frames.
    front = np.subtract(list(camera.curr_lookat), list(camera.curr_position))
    assert np.allclose(front, [np.sin(0.6), 0, -np.cos(0.6)], atol=1e-5)
    window._handle("move", "", False, 0.51, 0.9)
    track(pitch_speed=2.0)
    front = np.subtract(list(camera.curr_lookat), list(camera.curr_position))
    assert front[1] == pytest.approx(np.sin(np.pi / 2 * 0.99), abs=1e-5), "not beyond the zenith"
    camera.lookat(*camera.curr_position)
    with pytest.raises(WujiArrayError, match="the camera is at the point that it looks at"):
        track()


def test_bad_arguments_are_errors(stage: Stage) -> None:
    scene, camera, canvas, p = stage.scene, stage.camera, stage.window.get_canvas(), np.zeros((6, 3))
    bad = [
        (lambda: scene.particles(np.zeros((4, 4)), radius=1), "`particles`: `centers` must be vectors with 2 or 3 components, not an array of shape (4, 4)"),
        (lambda: scene.particles(p, radius=-1), "`particles`: `radius` must be positive and finite, not -1.0"),
        (lambda: scene.particles(p, radius=1, per_vertex_radius=np.ones(5)), "`per_vertex_radius` has 5 elements for 6 vertices"),
        (lambda: scene.particles(p, radius=1, per_vertex_color=np.ones((5, 3))), "`per_vertex_color` has 5 elements for 6 vertices"),
        (lambda: scene.particles(p, radius=1, index_offset=4, index_count=3), "index_offset 4 and index_count 3 are not within 6"),
        (lambda: scene.particles(p, radius=1, index_offset=7), "are not within 6"),
        (lambda: scene.particles(p, radius=1, index_offset=0.5), "`index_offset` must be an integer, not 0.5"),
        (lambda: scene.mesh(p[:4]), "`mesh`: 4 corners do not make whole triangles"),
        (lambda: scene.mesh(p, indices=np.array([0, 1, 6])), "`mesh`: index 6 at position 2 has no vertex: there are 6"),
        (lambda: scene.mesh(p, indices=np.array([0, 1, -2])), "`mesh`: index -2 has no vertex"),
        (lambda: scene.mesh(p, indices=np.array([0, 1, 2]), vertex_offset=5), "index 6 at position 1 has no vertex"),
        (lambda: scene.mesh(p, indices=np.array([0, 1, 2]), vertex_offset=-1), "index -1 has no vertex"),
        (lambda: scene.mesh(p, indices=np.array([0, 1, 2]), vertex_offset=10**30), f"vertex_offset {10**30} is not within 6 vertices"),
        (lambda: scene.mesh(p, indices=np.array([0, 1, 2]), index_offset=1), "2 corners do not make whole triangles"),
        (lambda: scene.mesh(p, two_sided=np.zeros(2)), "`two_sided` must be True or False"),
        (lambda: scene.mesh(p, normals=np.ones((6, 2))), "`normals` must be vectors with 3 components"),
        (lambda: scene.mesh(p, normals=np.ones((5, 3))), "`normals` has 5 elements for 6 vertices"),
        (lambda: scene.mesh(p, vertex_offset=3, vertex_count=9), "vertex_offset 3 and vertex_count 9 are not within 6"),
        (lambda: scene.mesh_instance(p, transforms=np.zeros((4, 3))), "`mesh_instance`: `transforms` must be matrices of 4 x 4, not an array of shape (4, 3)"),
        (lambda: scene.mesh_instance(p, transforms=np.zeros((2, 4, 4)), instance_count=3), "instance_offset 0 and instance_count 3 are not within 2"),
        (lambda: scene.mesh_instance(np.zeros((6000, 3)), transforms=np.zeros((30000, 4, 4))), "more than 2^27 vertices"),
        (lambda: scene.lines(p[:3], width=1), "`lines`: 3 ends do not make whole lines"),
        (lambda: scene.lines(p, width=0), "`lines`: `width` must be positive and finite, not 0.0"),
        (lambda: scene.lines(p, width=1, indices=np.array([0, 9])), "index 9 at position 1 has no vertex: there are 6"),
        (lambda: scene.point_light((0, 0), (1, 1, 1)), "`pos` must be three numbers, not (0, 0)"),
        (lambda: scene.ambient_light(1), "`color` must be three numbers, not 1"),
        (lambda: scene.set_camera(None), "`camera` must be a `ti.ui.Camera`, not None"),
        (lambda: camera.projection_mode(0), "`mode` must be a `ti.ui.ProjectionMode`, not 0"),
        (lambda: camera.fov("wide"), "`fov` must be a number, not 'wide'"),
        (lambda: camera.position(0, 0, "x"), "must be three numbers"),
    ]  # fmt: skip
    for call, message in bad:
        with pytest.raises(WujiArrayError) as caught:
            call()
        assert message in str(caught.value), str(caught.value)
        assert caught.value.code == "W0611"

    def seen(prepare: Any) -> Any:
        broken = ti.ui.Camera()
        prepare(broken)
        stage.scene.set_camera(broken)
        return lambda: canvas.scene(stage.scene), broken.get_view_matrix

    cameras = [
        (lambda c: c.lookat(0, 0, 0), "the camera shows nothing: it is at the point that it looks at"),
        (lambda c: c.up(0, 0, 1), "it looks along its direction up"),
        (lambda c: c.position(float("nan"), 0, 0), "must be finite"),
        (lambda c: c.fov(0), "its field of view must be between 0 and 180 degrees"),
        (lambda c: c.z_near(0), "z_near must be positive in perspective"),
        (lambda c: c.z_far(0.01), "z_near must be less than z_far"),
        (lambda c: (c.projection_mode(ti.ui.ProjectionMode.Orthogonal), c.left(1)), "its edges must be finite and different"),
    ]
    for prepare, message in cameras:
        for call in seen(prepare):
            with pytest.raises(WujiArrayError, match=message) as caught:
                call()
            assert caught.value.code == "W0611"
    assert stage.covered() == 0, "nothing of it was drawn"


def test_odd_positions_are_skipped(stage: Stage) -> None:
    values = [np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, 1e-40]
    points = np.array(np.meshgrid(values, values, values)).reshape(3, -1).T.astype(np.float32)
    stage.scene.particles(points, radius=1e-3)
    stage.scene.mesh(points[: len(points) // 3 * 3], show_wireframe=True)
    stage.scene.mesh(points[: len(points) // 3 * 3])
    stage.scene.lines(points[: len(points) // 2 * 2], width=2)
    stage.scene.particles(np.zeros((0, 3)), radius=1)
    stage.scene.mesh(np.zeros((0, 3)))
    picture = stage.picture()
    assert np.isfinite(picture).all()
