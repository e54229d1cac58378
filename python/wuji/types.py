"""Scalar types, compound types and kernel parameter annotations."""

from .lang import compound as annotations
from .lang import compound as compound_types
from .lang import dtypes as primitive_types
from .lang import quant
from .lang.compound import (
    ArgPackType,
    CompoundType,
    MatrixType,
    NdarrayType,
    RWTextureType,
    StructType,
    TextureType,
    VectorType,
    argpack,
    matrix,
    ndarray,
    ref,
    rw_texture,
    sparse_matrix_builder,
    struct,
    template,
    texture,
    vector,
)
from .lang.dtypes import (
    f16,
    f32,
    f64,
    float16,
    float32,
    float64,
    i8,
    i16,
    i32,
    i64,
    int8,
    int16,
    int32,
    int64,
    is_integral,
    is_real,
    is_signed,
    u1,
    u8,
    u16,
    u32,
    u64,
    uint1,
    uint8,
    uint16,
    uint32,
    uint64,
)


def is_tensor(spec: object) -> bool:
    """Return whether a type is a vector or matrix type."""
    return isinstance(spec, MatrixType)


__all__ = [
    "ArgPackType", "CompoundType", "MatrixType", "NdarrayType", "RWTextureType", "StructType", "TextureType", "VectorType",
    "annotations", "argpack", "compound_types", "f16", "f32", "f64", "float16", "float32", "float64", "i16", "i32", "i64", "i8", "int16", "int32", "int64", "int8",
    "is_integral", "is_real", "is_signed", "is_tensor", "matrix", "ndarray", "primitive_types", "quant", "ref", "rw_texture", "sparse_matrix_builder", "struct",
    "template", "texture", "u1", "u16", "u32", "u64", "u8", "uint1", "uint16", "uint32", "uint64", "uint8", "vector",
]  # fmt: skip
