"""Conversion of fields, arrays and array-likes to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def as_numpy(value: Any) -> npt.NDArray[Any]:
    """Return a field, array or array-like as a NumPy array."""
    return np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)
