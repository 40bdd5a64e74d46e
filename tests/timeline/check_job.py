"""A job on the virtual GPU, recorded and merged, against what the stand-in libnccl says happened.

python3 check_job.py HINDMOST DDP_TRAIN FOLDER     exit status 77: no mpirun

The truth is the file VGPU_NCCL_TRUTH of the stand-in: modelled start and end of every operation.
The trace must show the same instants but for one offset common to all ranks, within what the way
of a time through CUPTI's clock and back to the base clock costs (0.3 us seen, 1 us allowed).
"""

import collections
import json
import os
import shutil
import subprocess
import sys

import trace_rules

hindmost, ddp_train, folder = sys.argv[1:4]


def truth(path):
    """(rank, communicator) -> [(start, end)] of its kernels, ns."""
    plans = {}
    with open(path) as f:
        for line in f:
            t = json.loads(line)
            key = (t["rank"], t["comm"], t["plan"])
            start, end = plans.get(key, (t["start"], t["end"]))
            plans[key] = (min(start, t["start"]), max(end, t["end"]))
    out = collections.defaultdict(list)
    for (rank, comm, _), times in plans.items():
        out[(rank, comm)].append(times)
    return {k: sorted(v) for k, v in out.items()}


def drawn(trace):
    out = collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and e["cat"] == "nccl":
            t = trace_rules.ns(e["ts"])
            out[(e["pid"] - 1, e["args"]["comm"])].append((t, t + trace_rules.ns(e["dur"])))
    return {k: sorted(v) for k, v in out.items()}


def main():
    if not shutil.which("mpirun"):
        print("skipped: no mpirun")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    env = dict(os.environ, HINDMOST_OUT=folder + "/run", VGPU_NCCL_TRUTH=folder + "/truth")
    command = ["mpirun", "-np", "4", hindmost, "run", "--", ddp_train, "--steps", "10",
               "--slow-gpu", "2:1.2"]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    command.insert(1, "--oversubscribe")
    job = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if job.returncode:
        print(job.stdout)
        return 1
    if "device: virtual" not in job.stdout:
        print("skipped: not on the virtual GPU")
        return 77
    path = folder + "/t.json"
    if subprocess.call([hindmost, "merge", folder + "/run", "-o", path]):
        return 1
    wrong = trace_rules.problems(path)
    want, got = truth(folder + "/truth"), drawn(trace_rules.load(path))
    if sorted(want) != sorted(got):
        wrong.append("communicators and ranks %r, expected %r" % (sorted(got), sorted(want)))
    offsets = set()
    for key in set(want) & set(got):
        if len(want[key]) != len(got[key]):
            wrong.append("%r: %d operations drawn, %d happened" % (key, len(got[key]), len(want[key])))
        for a, b in zip(want[key], got[key]):
            offsets.update((a[0] - b[0], a[1] - b[1]))
    if not offsets or max(offsets) - min(offsets) > 1000:
        wrong.append("offsets between truth and trace: %r" % sorted(offsets)[::len(offsets) // 4 + 1])
    for line in wrong[:10]:
        print(line)
    print("%d operations on %d ranks, offsets within %d ns; %d wrong" %
          (sum(map(len, want.values())), len(want), max(offsets) - min(offsets) if offsets else -1, len(wrong)))
    return 1 if wrong else 0


sys.exit(main())
