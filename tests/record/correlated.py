"""Kernels whose launch call is not in the file. usage: correlated.py FILE"""
import sys

import h5py

from decode import column

with h5py.File(sys.argv[1], "r") as f:
    calls = set(int(c) for c in column(f["/api"], "correlation"))
    print(sum(int(c) not in calls for c in column(f["/kernel"], "correlation")), "kernels without a call")
