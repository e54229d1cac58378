"""VTK files for ParaView."""

from __future__ import annotations

import base64
import os
import struct
import sys
from typing import Any

import numpy as np

from .._arrays import as_numpy

_NAMES = {
    "f4": "Float32", "f8": "Float64", "i1": "Int8", "u1": "UInt8", "i2": "Int16", "u2": "UInt16", "i4": "Int32", "u4": "UInt32",
    "i8": "Int64", "u8": "UInt64",
}  # fmt: skip


def write_vtk(scalar_field: Any, filename: str) -> None:
    """Write a 2-D or 3-D scalar field to ``filename.vtr``: a rectilinear grid with point data ``result``."""
    values = as_numpy(scalar_field)
    if values.ndim not in (2, 3):
        raise ValueError(f"The input field must be a 2D or 3D scalar field; its shape is {values.shape}")
    if values.ndim == 2:
        values = values[:, :, None]
    if values.dtype.kind == "b" or values.dtype == np.float16:
        values = values.astype(np.uint8 if values.dtype.kind == "b" else np.float32)
    kind = values.dtype.str[1:]
    if kind not in _NAMES:
        raise ValueError(f"VTK does not support {values.dtype}")
    order = "LittleEndian" if sys.byteorder == "little" else "BigEndian"
    extent = " ".join(f"0 {n - 1}" for n in values.shape)

    def data(name: str, array: Any) -> str:
        raw = array.tobytes(order="F")  # first axis fastest
        text = base64.b64encode(struct.pack("=Q", len(raw)) + raw).decode()
        return f'<DataArray type="{_NAMES[array.dtype.str[1:]]}" Name="{name}" format="binary">{text}</DataArray>'

    axes = "\n".join(data(name, np.arange(n, dtype=np.int32)) for name, n in zip("xyz", values.shape, strict=True))
    text = f"""<?xml version="1.0"?>
<VTKFile type="RectilinearGrid" version="1.0" byte_order="{order}" header_type="UInt64">
<RectilinearGrid WholeExtent="{extent}">
<Piece Extent="{extent}">
<Coordinates>
{axes}
</Coordinates>
<PointData Scalars="result">
{data("result", values)}
</PointData>
</Piece>
</RectilinearGrid>
</VTKFile>
"""
    path = os.fspath(filename)
    with open(path if path.endswith(".vtr") else path + ".vtr", "w", encoding="utf-8") as file:
        file.write(text)
