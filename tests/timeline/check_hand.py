"""`hindmost merge` on the hand-made run of make_run.c, compared with values worked out by hand.

python3 check_hand.py HINDMOST MAKE_RUN FOLDER
python3 check_hand.py FAKE_TRACE FOLDER            rows and sink without reader and engine
"""

import gzip
import json
import os
import shutil
import subprocess
import sys

import trace_rules

COMM = "abc0000000000001"
folder = sys.argv[-1]
hindmost = make_run = sys.argv[1]
if len(sys.argv) > 3:
    make_run = sys.argv[2]
failed = 0


def check(what, got, want):
    global failed
    if got != want:
        failed += 1
        print("%s: got %r, expected %r" % (what, got, want))


def run(*args):
    p = subprocess.run([hindmost, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p.returncode, p.stderr


def slices(trace, base):
    """(pid, track name, cat, name) -> [(start, end)], ns from the first step's begin."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"]
             if e["ph"] == "M" and e["name"] == "thread_name"}
    out = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            key = (e["pid"], names[(e["pid"], e["tid"])], e["cat"], e["name"])
            t = trace_rules.ns(e["ts"]) - base
            out.setdefault(key, []).append((t, t + trace_rules.ns(e["dur"])))
    return {k: sorted(v) for k, v in out.items()}, names


def first_step(trace):
    return min(trace_rules.ns(e["ts"]) for e in trace["traceEvents"]
               if e["ph"] == "X" and e["name"] == "step 0") - 1000


def whole_run(path):
    trace = trace_rules.load(path)
    base = first_step(trace)
    got, names = slices(trace, base)
    for rank, start in enumerate((30000, 42345, 35001)):
        pid = rank + 1
        nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        host, comm = "host %d" % (500 + rank), "comm " + COMM
        want = {
            (pid, "steps", "step", "step 0"): [(1000, 101000)],
            (pid, "steps", "step", "step 1"): [(101000, 201000)],
            (pid, host, "range", "forward"): [(2000, 26000)],
            (pid, host, "range", "layer"): [(2000, 12000)],
            (pid, host, "api", "cudaLaunchKernel"): [(3000, 3500)],
            (pid, host, "api", "cuLaunchKernelEx"): [(27300, 27800), (62300, 62800)],
            (pid, host, "api", "ncclAllReduce"): [(27000, 27100), (62000, 62100)],
            (pid, "lost", "lost", "lost events"): [(150000, 155000)],
            (pid, "stream 7", "kernel", "gemm"): [(5000, 25000), (110000, 120000)],
            (pid, "stream 7", "memcpy", "Memcpy HtoD"): [(26000, 27000)],
            (pid, "stream 7", "kernel", nccl): [(start, 60000), (70000, 80000)],
            (pid, "stream 7", "kernel", 'odd "name" \\ tab\t \ufffd end'): [(90000, 95000)],
            (pid, "stream 7 (2)", "kernel", "gemm"): [(93000, 99001)],
            (pid, comm, "nccl", "AllReduce"): [(start, 60000), (70000, 80000)],
        }
        if rank != 1:
            want[(pid, comm, "wait", "wait for rank 1")] = [(start, 42345)]
        check("slices of rank %d" % rank, {k: v for k, v in got.items() if k[0] == pid}, want)
    check("processes", sorted((e["pid"], e["args"]["name"]) for e in trace["traceEvents"]
                              if e["ph"] == "M" and e["name"] == "process_name"),
          [(1, "rank 0 node0 gpu0"), (2, "rank 1 node0 gpu0"), (3, "rank 2 node0 gpu0")])
    args = [e["args"] for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "nccl"]
    check("nccl args", sorted((a["comm"], a["seq"], a["func"], a["bytes"]) for a in args),
          [(COMM, 0, "AllReduce", 4000)] * 3 + [(COMM, 1, "AllReduce", 4000)] * 3)
    arrows = {}
    for e in trace["traceEvents"]:
        if e["ph"] in "sf":
            place = (e["pid"], names[(e["pid"], e["tid"])], trace_rules.ns(e["ts"]) - base, e["cat"])
            arrows.setdefault(e["id"], []).append((e["ph"],) + place)
    # from the last arriver's kernel at its start to each waiter's, 1 ns later; none for the tie
    check("arrows", sorted(arrows.values()),
          [[("s", 2, "stream 7", 42345, "late"), ("f", 1, "stream 7", 42346, "late")],
           [("s", 2, "stream 7", 42345, "late"), ("f", 3, "stream 7", 42346, "late")]])
    marks = [(e["pid"], e["name"], trace_rules.ns(e["ts"]) - base) for e in trace["traceEvents"]
             if e["ph"] == "i"]
    check("lost", [e["args"]["events"] for e in trace["traceEvents"] if e.get("cat") == "lost"],
          [12, 12, 12])
    check("marks", marks, [(1, "here", 2500), (2, "here", 2500), (3, "here", 2500)])
    check("rules", trace_rules.problems(path), [])


def missing_rank(path):
    """Rank 2 has no file: the rest is drawn, the arrow to it is not."""
    trace = trace_rules.load(path)
    got, _ = slices(trace, first_step(trace))
    check("processes", sorted({k[0] for k in got}), [1, 2])
    check("wait", got.get((1, "comm " + COMM, "wait", "wait for rank 1")), [(30000, 42345)])
    check("rules", trace_rules.problems(path), [])


def fake():
    path = os.path.join(folder, "fake.json")
    os.makedirs(folder, exist_ok=True)
    check("fake_trace", subprocess.call([make_run, path]), 0)
    whole_run(path)
    for seed in range(8):
        random_run(os.path.join(folder, "random.json"), seed)
    print("%d failed" % failed)
    return 1 if failed else 0


def random_run(path, seed):
    """Whatever overlaps: every slice is drawn once and no rule is broken."""
    n = int(subprocess.run([make_run, path, str(seed)], stdout=subprocess.PIPE).stdout)
    trace = trace_rules.load(path)
    # per rank by hand: 2 steps, 2 ranges, 1 + 2 API calls, 6 kernels, 1 copy, 2 calls, 1 gap,
    # 2 operations; 2 waits
    check("slices with seed %d" % seed, sum(e["ph"] == "X" for e in trace["traceEvents"]),
          n + 3 * 19 + 2)
    check("rules with seed %d" % seed, trace_rules.problems(path)[:3], [])
    os.unlink(path)


def main():
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    whole, part = os.path.join(folder, "run"), os.path.join(folder, "part")
    plain, packed = os.path.join(folder, "t.json"), os.path.join(folder, "t.json.gz")
    partial = os.path.join(folder, "part.json")
    check("make_run", subprocess.call([make_run, whole]), 0)
    check("make_run missing", subprocess.call([make_run, part, "missing"]), 0)
    code, err = run("merge", whole, "-o", plain)
    check("exit status", (code, "rank" in err), (0, True))
    whole_run(plain)
    check("gz", run("merge", whole, "-o", packed)[0], 0)
    with open(packed, "rb") as f, open(plain, "rb") as g:
        check("unpacked", gzip.decompress(f.read()) == g.read(), True)
    check("rules of gz", trace_rules.problems(packed), [])
    code, err = run("merge", part, "-o", partial)
    check("missing rank", code, 0)
    missing_rank(partial)
    # what is refused, and what a failure leaves behind
    before = open(plain, "rb").read()
    for args, want in ((("merge", whole, "-o", "x.pftrace"), 69), (("merge", whole, "-o", "x.tar"), 69),
                       (("merge", whole, "-o", plain, "--format", "perfetto"), 69),
                       (("merge", whole), 64), (("merge", whole, "-o", "x.unknown"), 64),
                       (("merge", whole, whole, "-o", plain), 64),
                       (("merge", os.path.join(folder, "nothing"), "-o", plain), 66),
                       (("merge", whole, "-o", os.path.join(folder, "no/such/t.json")), 1)):
        code, err = run(*args)
        check("exit status of %r" % (args,), code, want)
        check("lines of %r" % (args,), len(err.strip().splitlines()), 1)
    check("kept", open(plain, "rb").read() == before, True)
    check("nothing left", sorted(os.listdir(folder)), ["part", "part.json", "run", "t.json", "t.json.gz"])
    print("%d failed" % failed)
    return 1 if failed else 0


sys.exit(fake() if len(sys.argv) == 3 else main())
