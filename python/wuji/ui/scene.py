"""Scenes in space: meshes, particles, lines and lights."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _native
from . import arguments
from .arguments import checked, colors, flag, indices, integer, one_for_each, part, positions, scalars, triple, unfit, vectors
from .camera import Camera

_GRAY = (0.5, 0.5, 0.5)


class Scene:
    """What `Canvas.scene` draws, which then is empty again.

    Positions are fields, ndarrays or NumPy arrays of vectors with three components. Colors have three components in [0, 1], or four with
    an alpha. What has a position that is infinite or NaN is not drawn. Surfaces are matte.
    """

    def __init__(self) -> None:
        self._native = _native.Scene()

    def set_camera(self, camera: Camera) -> None:
        """Set where the scene is seen from. Later changes of the camera need another call."""
        if not isinstance(camera, Camera):
            raise unfit("set_camera", f"`camera` must be a `ti.ui.Camera`, not {camera!r}")
        self._native.set_camera(*camera._parameters())

    def ambient_light(self, color: Any) -> None:
        """Set the light that comes from all sides. It is 0.1 by default, and stays."""
        self._native.ambient_light(triple("ambient_light", "color", color))

    def point_light(self, pos: Any, color: Any) -> None:
        """Add a light that shines in all directions, with the same strength at all distances."""
        self._native.point_light(triple("point_light", "pos", pos), triple("point_light", "color", color))

    def particles(
        self,
        centers: Any,
        radius: Any,
        color: Any = _GRAY,
        per_vertex_color: Any = None,
        per_vertex_radius: Any = None,
        index_offset: int = 0,
        index_count: int | None = None,
    ) -> None:
        """Add spheres. Those smaller than a pixel are drawn as one, and those without a positive ``per_vertex_radius`` are not drawn.

        Args:
            centers: Their positions.
            radius: Their radius, in units of space.
            color: Their color.
            per_vertex_color: The color of each.
            per_vertex_radius: The radius of each.
            index_offset: The first one to draw.
            index_count: How many to draw; all by default.
        """
        call = "particles"
        points = positions(call, "centers", centers, 3)
        painted = colors(call, color, per_vertex_color, len(points))
        selected = part(call, "index", points, index_offset, index_count)
        if per_vertex_color is not None:
            painted = part(call, "index", painted, index_offset, index_count)
        if per_vertex_radius is None:
            uniform, radii = arguments.positive(call, "radius", radius), None
        else:
            uniform, radii = 1.0, scalars(call, "per_vertex_radius", per_vertex_radius)
            one_for_each(call, "per_vertex_radius", radii, len(points))
            radii = part(call, "index", radii, index_offset, index_count)
        checked(call, self._native.particles, selected, uniform, radii, painted)

    def lines(
        self,
        vertices: Any,
        width: float,
        indices: Any = None,
        color: Any = _GRAY,
        per_vertex_color: Any = None,
        vertex_offset: int = 0,
        vertex_count: int | None = None,
        index_offset: int = 0,
        index_count: int | None = None,
    ) -> None:
        """Add lines between each two vertices, or between those with these ``indices``. They are not lit.

        Args:
            vertices: The positions of ends.
            width: Their width in pixels.
            indices: Two for each line.
            color: Their color.
            per_vertex_color: The color of each vertex, interpolated between both ends.
            vertex_offset: Without indices, the first vertex; otherwise, a number that is added to all indices.
            vertex_count: Without indices, the number of vertices to draw; all by default.
            index_offset: The first index to draw.
            index_count: The number of indices to draw; all by default.
        """
        call = "lines"
        geometry = _Geometry(call, vertices, indices, color, per_vertex_color)
        geometry.select(vertex_offset, vertex_count, index_offset, index_count)
        checked(call, self._native.lines, geometry.points, geometry.indices, arguments.positive(call, "width", width), geometry.colors)

    def mesh(
        self,
        vertices: Any,
        indices: Any = None,
        normals: Any = None,
        color: Any = _GRAY,
        per_vertex_color: Any = None,
        two_sided: bool = False,
        vertex_offset: int = 0,
        vertex_count: int | None = None,
        index_offset: int = 0,
        index_count: int | None = None,
        show_wireframe: bool = False,
    ) -> None:
        """Add triangles: each three vertices, or those with these ``indices``.

        Args:
            vertices: The positions of corners.
            indices: Three for each triangle.
            normals: A normal for each vertex. By default, those of the triangles, averaged where they share vertices.
            color: Their color.
            per_vertex_color: The color of each vertex, interpolated between them.
            two_sided: Light the side that normals point away from, too.
            vertex_offset: Without indices, the first vertex; otherwise, a number that is added to all indices.
            vertex_count: Without indices, the number of vertices to draw; all by default.
            index_offset: The first index to draw.
            index_count: The number of indices to draw; all by default.
            show_wireframe: Draw edges instead of surfaces.
        """
        self._mesh(
            "mesh", vertices, indices, normals, color, per_vertex_color, two_sided, None,
            (vertex_offset, vertex_count, index_offset, index_count), show_wireframe,
        )  # fmt: skip

    def mesh_instance(
        self,
        vertices: Any,
        indices: Any = None,
        normals: Any = None,
        color: Any = _GRAY,
        per_vertex_color: Any = None,
        two_sided: bool = False,
        transforms: Any = None,
        instance_offset: int = 0,
        instance_count: int | None = None,
        vertex_offset: int = 0,
        vertex_count: int | None = None,
        index_offset: int = 0,
        index_count: int | None = None,
        show_wireframe: bool = False,
    ) -> None:
        """Add a mesh several times, each with a transformation.

        Args:
            transforms: Matrices of 4 x 4, such as ``ti.math.translate(1, 0, 0)``; without them, the mesh is added once.
            instance_offset: The first matrix to use.
            instance_count: The number of instances; all by default.

        The other arguments are those of `mesh`.
        """
        call = "mesh_instance"
        rows = None
        if transforms is not None:
            matrices = arguments.numbers(call, "transforms", transforms)
            if matrices.ndim < 2 or matrices.shape[-2:] != (4, 4):
                raise unfit(call, f"`transforms` must be matrices of 4 x 4, not an array of shape {matrices.shape}")
            matrices = part(call, "instance", matrices.reshape(-1, 4, 4), instance_offset, instance_count)
            rows = np.ascontiguousarray(matrices.reshape(-1, 4), np.float32)
        self._mesh(
            call, vertices, indices, normals, color, per_vertex_color, two_sided, rows,
            (vertex_offset, vertex_count, index_offset, index_count), show_wireframe,
        )  # fmt: skip

    def _mesh(
        self,
        call: str,
        vertices: Any,
        indices: Any,
        normals: Any,
        color: Any,
        per_vertex_color: Any,
        two_sided: bool,
        transforms: Any,
        selection: tuple[int, int | None, int, int | None],
        show_wireframe: bool,
    ) -> None:
        geometry = _Geometry(call, vertices, indices, color, per_vertex_color)
        if normals is not None:
            geometry.normals = vectors(call, "normals", normals, (3,))
            one_for_each(call, "normals", geometry.normals, len(geometry.points))
        geometry.select(*selection)
        checked(
            call, self._native.mesh, geometry.points, geometry.indices, geometry.normals, geometry.colors,
            flag(call, "two_sided", two_sided), flag(call, "show_wireframe", show_wireframe), transforms,
        )  # fmt: skip


class _Geometry:
    """Vertices with their attributes, and the part of them to draw."""

    def __init__(self, call: str, vertices: Any, index: Any, color: Any, per_vertex_color: Any) -> None:
        self.call = call
        self.points = positions(call, "vertices", vertices, 3)
        self.indices = indices(call, index)
        self.colors = colors(call, color, per_vertex_color, len(self.points))
        self.normals: Any = None
        self.painted = per_vertex_color is not None

    def select(self, vertex_offset: int, vertex_count: int | None, index_offset: int, index_count: int | None) -> None:
        if self.indices is None:
            self._select_vertices(vertex_offset, vertex_count)
            return
        self.indices = part(self.call, "index", self.indices, index_offset, index_count)
        offset = integer(self.call, "vertex_offset", vertex_offset)
        if abs(offset) > len(self.points):
            raise unfit(self.call, f"vertex_offset {offset} is not within {len(self.points)} vertices")
        if offset:
            self.indices = indices(self.call, self.indices.astype(np.int64) + offset)

    def _select_vertices(self, offset: int, count: int | None) -> None:
        self.points = part(self.call, "vertex", self.points, offset, count)
        if self.painted:
            self.colors = part(self.call, "vertex", self.colors, offset, count)
        if self.normals is not None:
            self.normals = part(self.call, "vertex", self.normals, offset, count)


__all__ = ["Scene"]
