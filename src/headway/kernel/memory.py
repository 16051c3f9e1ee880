"""Arrays that start on a cache line.

A vector load or store that straddles two lines costs about double, and numpy and Numba align to 16
and 32 bytes only. What is computed never depends on it: the loops are elementwise.
"""

import numpy as np

from headway.compiled import compiled

LINE = 8  # doubles


@compiled
def on_a_line(count):
    """Room for so many doubles, the first on a cache line."""
    raw = np.empty(count + LINE)
    start = (LINE - (raw.ctypes.data // 8) % LINE) % LINE
    return raw[start : start + count]
