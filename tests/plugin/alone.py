"""What alone.c did must stand in its rank file, joined as the analysis joins it.

usage: alone.py FILE RANK STEPS return|kill
"""
import os
import sys

import h5py

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "record"))
from decode import column  # noqa: E402

path, rank, steps, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
f = h5py.File(path, "r")


def col(name):
    return [int(v) for v in column(f[os.path.dirname(name)], os.path.basename(name))]


def same(what, got, want):
    if got != want:
        sys.exit("%s: %r instead of %r" % (what, got, want))


calls = col("/nccl/call/call")
same("coll.call", col("/nccl/coll/call"), list(range(steps)))
same("coll.nccl_seq", col("/nccl/coll/nccl_seq"), list(range(steps)))
same("call.call", calls, list(range(steps + (how == "kill"))))
launch = col("/nccl/launch/launch")
same("launches", len(set(launch)), steps)
same("coll.launch", col("/nccl/coll/launch"), launch)
api = {c: e for c, e in zip(col("/api/correlation"), col("/api/external"))}
same("kernels", len(col("/kernel/correlation")), 2 * steps)
joined = [api[c] for c in sorted(col("/kernel/correlation"))]
same("kernel -> launch", joined, [v for k in launch for v in (0, k)])
same("comm.hash", col("/def/comm/hash"), [0x1234])
same("comm.crank", col("/def/comm/crank"), [rank])
# all of it happened on one thread, and CUPTI's calls are drawn there too
same("track", len(set(col("/nccl/launch/track") + col("/api/track") + col("/nccl/coll/track"))), 1)
print("ok")
