"""Transfers of a problem's arrays between host and device, in shapes that many problems share.

A CUDA graph serves one set of shapes. On a GPU the axes of rows and of units are therefore padded with zeros to the next of a
few sizes (`Backend.padding`). The axes of an array are named by one word each: "rows", "units", "1+units" for one entry before
the units, "units+extras" for entries after them; any other word is an axis that is never padded.

Padding changes no result: a row of zeros has no weight, and a unit that is in no row is determined by its prior alone.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting._arrays.backend import Backend


@final
@dataclass(frozen=True)
class ProblemArrays:
    """Moves the arrays of one problem with a number of rows and of units."""

    backend: Backend
    rows: int
    units: int

    @cached_property
    def _padded(self) -> dict[str, tuple[int, int]]:
        """The names of padded axes, with the problem's own size and the number of zeros after it."""
        rows, units = self.backend.padding(self.rows, self.units)
        return {"rows": (self.rows, rows), "units": (self.units, units)}

    def to_device(self, array: Floats, axes: str) -> Any:
        """Copy a numpy array to the device."""
        return self.aligned(self.backend.asarray(array), axes)

    def aligned(self, array: Any, axes: str) -> Any:
        """Bring an array of the device from the problem's own shape to the shape that fits work with."""
        return self.backend.pad(array, *(self._padded.get(axis, (0, 0))[1] for axis in axes.split()))

    def to_host(self, array: Any, axes: str) -> Floats:
        """Copy an array to the host, in the problem's own shape."""
        host = self.backend.numpy(array)
        ends, picked = [slice(None)] * host.ndim, dict[int, Any]()
        for axis, (first, *more) in enumerate(word.split("+") for word in axes.split()):
            size, padding = self._padded.get(first, (0, 0))
            if size and more:  # entries after the padding
                picked[axis] = np.r_[:size, size + padding : host.shape[axis]]
            else:
                _, padding = self._padded.get(more[-1] if more else first, (0, 0))
                ends[axis] = slice(host.shape[axis] - padding)
        host = host[tuple(ends)]
        if not picked:
            return host
        where = dict(zip(picked, np.ix_(*picked.values()), strict=True))
        return np.asarray(host[tuple(where.get(axis, slice(None)) for axis in range(host.ndim))])
