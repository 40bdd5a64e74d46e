"""MPI events of a rank file in the order of time: NAME|BYTES|PEER|SIZE|REQUESTS, as calls.c says them.

usage: calls.py MPI_DEF FILE
"""
import re
import sys

sys.path.insert(0, sys.path[0] + "/../record")
import h5py  # noqa: E402
from decode import column  # noqa: E402

name = {int(n): f for n, f in re.findall(r"^HM_MPI\((\d+), (\w+),", open(sys.argv[1]).read(), re.M)}
with h5py.File(sys.argv[2], "r") as f:
    t = f["/mpi"]
    size = column(f["/def/mpi_comm"], "n_ranks")
    rows = zip(*(column(t, c) for c in ("t", "dur", "aux", "bytes", "peer", "comm", "n_requests")))
    end = 0
    for at, dur, aux, n, peer, comm, requests in sorted(rows):
        assert at >= end, "one call inside another"
        end = at + dur
        print(name[aux], n, peer, 0 if comm == 2**32 - 1 else size[comm], requests, sep="|")
