"""Every probe must bracket the injected offset. usage: bracket.py RUN OFFSET_NS..., by rank.

Rank R asks leader Q (every rank is a domain here): parent - child lies in [t3 - t4, t2 - t1].
"""
import sys

sys.path.insert(0, sys.path[0] + "/../record")
import h5py  # noqa: E402
from decode import column  # noqa: E402

run, offsets = sys.argv[1], [int(v) for v in sys.argv[2:]]
seen = 0
for rank, mine in enumerate(offsets):
    with h5py.File(f"{run}/rank-{rank:05d}.h5", "r") as f:
        if "/clock/probe" not in f:
            continue
        p = f["/clock/probe"]
        for t1, t2, t3, t4, peer in zip(*(column(p, c) for c in ("t", "t2", "t3", "t4", "peer"))):
            truth = offsets[peer] - mine
            assert t3 - t4 <= truth <= t2 - t1, (rank, peer, t3 - t4, truth, t2 - t1)
            assert t2 - t1 - (t3 - t4) < 50_000_000, "not a probe: round trip over 50 ms"
            seen += 1
assert seen > 0
print(seen, "probes bracket the truth")
