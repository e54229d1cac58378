"""Foreign tensors on a simulated GPU: memory and streams of the driver in `fake_cuda.c`, exported by DLPack."""

from __future__ import annotations

import ctypes
import os
from typing import Any

driver = ctypes.CDLL(os.environ["WUJI_CUDA_DRIVER"])
CUDA = 2


def call(name: str, *arguments: Any) -> None:
    code = getattr(driver, name)(*arguments)
    assert code == 0, f"{name}: {code}"


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype = ctypes.c_void_p
_get.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Tensor:
    """Floats on a device, written by a stream that has not run yet."""

    def __init__(self, shape: tuple[int, int], word: int, device: int = 0, versioned: bool = False, readonly: bool = False) -> None:
        self.shape, self.device, self.versioned, self.readonly = shape, device, versioned, readonly
        self.strides = (shape[1], 1)
        self.offset = 0
        self.count = shape[0] * shape[1]
        self.at = ctypes.c_uint64()
        self.stream = ctypes.c_void_p()
        self.event = ctypes.c_void_p()
        self.streams: list[Any] = []
        context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        call("cuCtxSetCurrent", context)
        call("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(4 * self.count))
        call("cuStreamCreate", ctypes.byref(self.stream), 1)
        call("cuEventCreate", ctypes.byref(self.event), 2)
        call("cuMemsetD32Async", self.at, ctypes.c_uint32(word), ctypes.c_size_t(self.count), self.stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self.device)

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        self.streams.append(stream)
        if options and not self.versioned:
            raise TypeError("an unexpected keyword")
        if stream not in (None, -1):
            # The consumer waits for the pending write.
            call("cuEventRecord", self.event, self.stream)
            call("cuStreamWaitEvent", ctypes.c_void_p(stream), self.event, 0)
        self._shape = (ctypes.c_int64 * 2)(*self.shape)
        self._strides = (ctypes.c_int64 * 2)(*self.strides)
        tensor = _Tensor(self.at.value, CUDA, self.device, 2, 2, 32, 1, self._shape, self._strides, 4 * self.offset)
        if self.versioned:
            self._managed: Any = _Versioned(1, 0, None, None, int(self.readonly), tensor)
            return _new(ctypes.addressof(self._managed), b"dltensor_versioned", None)
        self._managed = _Managed(tensor, None, None)
        return _new(ctypes.addressof(self._managed), b"dltensor", None)

    def read(self) -> list[float]:
        """Read on the default stream, without synchronizing with other streams."""
        out = (ctypes.c_float * self.count)()
        call("cuMemcpyDtoHAsync_v2", out, self.at, ctypes.c_size_t(4 * self.count), ctypes.c_void_p(1))
        call("cuStreamSynchronize", ctypes.c_void_p(1))
        return list(out)


class Imported:
    """A DLPack import whose consumer uses the default stream."""

    def __init__(self, value: Any, stream: int | None = 1) -> None:
        self.kind, self.device = value.__dlpack_device__()
        self.capsule = value.__dlpack__(stream=stream)
        managed = ctypes.cast(_get(self.capsule, b"dltensor"), ctypes.POINTER(_Managed)).contents
        self.tensor = managed.tensor
        self.shape = tuple(self.tensor.shape[k] for k in range(self.tensor.rank))

    def read(self, count: int) -> list[float]:
        out = (ctypes.c_float * count)()
        call("cuMemcpyDtoHAsync_v2", out, ctypes.c_uint64(self.tensor.data), ctypes.c_size_t(4 * count), ctypes.c_void_p(1))
        call("cuStreamSynchronize", ctypes.c_void_p(1))
        return list(out)

    def fill(self, word: int, count: int) -> None:
        call("cuMemsetD32Async", ctypes.c_uint64(self.tensor.data), ctypes.c_uint32(word), ctypes.c_size_t(count), ctypes.c_void_p(1))
