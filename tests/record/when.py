"""When things were recorded. usage: when.py FILE TABLE: prints first and last time in ms of the run,
how many rows, and the longest time between two of them in ms.
"""
import sys

import h5py

from decode import column

with h5py.File(sys.argv[1], "r") as f:
    start = int(f["/meta"].attrs["start_raw"])
    t = sorted(int(v) - start for v in column(f[sys.argv[2]], "t"))
    gap = max((b - a for a, b in zip(t, t[1:])), default=0)
    print(t[0] // 10**6, t[-1] // 10**6, len(t), gap // 10**6)
