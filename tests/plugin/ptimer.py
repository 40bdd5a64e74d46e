"""GPU stamps recorded in a job on the virtual NCCL, put on host time, against the injected truth.

usage: ptimer.py BUILD JOB FIT. GPU clock: shifted, 50 ppm too fast or slow, in ticks; 25 rounds of
every kind of operation; stamps alone, then with kernel records.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from releases import h5py  # noqa: E402
from releases import Wrong, WAYS, run, same, table, truth_of  # noqa: E402

FIT = os.path.abspath(sys.argv[3])


def to_raw(f):
    """Time of day -> the host events' clock, by the first and the last snapshot of both."""
    shots = sorted((s["real"], s["t"]) for s in table(f, "/clock/snapshot"))
    (r0, t0), (r1, t1) = shots[0], shots[-1]
    rate = (t1 - t0 - (r1 - r0)) / (r1 - r0) if r1 > r0 else 0
    width = max(s["width"] for s in table(f, "/clock/snapshot"))
    return lambda r, side: t0 + (r - r0) + int((r - r0) * rate) + side * width


def works(f, kernels):
    stop = {}  # launch -> record
    raw = to_raw(f)
    for k in (table(f, "/kernel") if kernels else []):
        same("clock of kernels", k["flags"] & 7, 1)
        stop[k["correlation"]] = (raw(k["t"], -1), raw(k["t"] + k["dur"], 1))
    record = {a["external"]: stop[a["correlation"]] for a in table(f, "/api")
              if a["external"] and a["correlation"] in stop} if kernels else {}
    launch = {l["launch"]: l["t"] for l in table(f, "/nccl/launch")}
    of_call = {(c["comm"], c["call"]): c["launch"] for n in ("coll", "p2p")
               for c in table(f, "/nccl/" + n)}
    for c in table(f, "/nccl/kernel_ch"):
        n = of_call[c["comm"], c["call"]]
        yield c, (c["gpu_start"], c["gpu_stop"], launch.get(n, "-"), c["t"] + c["dur"]) + \
            record.get(n, ("-", "-")) + (c["channel"],)


def case(offset, drift, tick, kernels):
    folder = tempfile.mkdtemp(prefix="hm-ptimer-")
    # operations long enough that their end is not over before the virtual NCCL knows it
    env = dict(WAYS["preload"][0], VGPU_LINK_LATENCY_US="1000", HINDMOST_KERNEL_CH="1", HINDMOST_KERNELS=str(int(kernels)),
               VGPU_NCCL_GPU_CLOCK_NS=str(offset), VGPU_NCCL_GPU_DRIFT_PPM=str(drift),
               VGPU_NCCL_GPU_TICK_NS=str(tick))
    del_injection = {} if not kernels else {"CUDA_INJECTION64_PATH": WAYS["preload"][0]["LD_PRELOAD"]}
    env.update(del_injection)
    worst = width = 0
    try:
        run(folder, "2.28.9", env, [25, "destroy"])
        for rank in range(2):
            truth = truth_of(folder, rank)
            start = {}  # of the kernel: all its operations share it
            for r in truth:
                plan = r["comm"], r["plan"]
                start[plan] = min(start.get(plan, r["start"]), r["start"])
            begin = {(r["comm"], r["index"]): start[r["comm"], r["plan"]] for r in truth}
            with h5py.File(os.path.join(folder, "run", "rank-%05d.h5" % rank), "r") as f:
                key = ["%016x" % c["hash"] for c in table(f, "/def/comm")]
                rows = list(works(f, kernels))
            if len(rows) < 200:
                raise Wrong("%d kernel channels" % len(rows))
            if kernels and any(w[4] == "-" for _, w in rows):
                raise Wrong("kernel channels without a kernel record")
            text = "".join(" ".join(str(v) for v in w) + "\n" for _, w in rows)
            out = subprocess.run([FIT], input=text.encode(), stdout=subprocess.PIPE, check=True)
            lines = out.stdout.decode().split("\n")[:-1]
            same("lines", len(lines), len(rows) + 1)
            found_tick, windows, ok, bad = (int(v) for v in lines[-1].split())
            same("tick", found_tick, tick)
            same("windows", (ok, bad), (windows, 0))
            # without records the error is that of the quickest reads of a stop stamp, near both
            # ends of the run; where the machine was too loaded for such, the interval alone counts
            last = {}
            for r in truth:
                plan = r["comm"], r["plan"]
                last[plan] = max(last.get(plan, 0), r["end"])
            over = {(r["comm"], r["index"]): last[r["comm"], r["plan"]] for r in truth}
            quick = sorted(w[3] for c, w in rows
                           if w[3] - over[key[c["comm"]], c["call"]] < 30000)
            t0, t1 = min(w[3] for _, w in rows), max(w[3] for _, w in rows)
            fair = kernels or (quick and quick[0] < t0 + (t1 - t0) / 4 and
                               quick[-1] > t1 - (t1 - t0) / 4)
            limit = (2000 if kernels else 50000) + tick if fair else 1 << 62
            for (c, _), line in zip(rows, lines):
                host, lo, hi = (int(v) for v in line.split())
                true = begin[key[c["comm"]], c["call"]]
                if not lo <= true <= hi:
                    raise Wrong("truth outside: %d %d %d" % (lo - true, host - true, hi - true))
                worst, width = max(worst, abs(host - true)), max(width, hi - lo)
                if abs(host - true) > limit:
                    raise Wrong("%d ns off (interval of %d)" % (host - true, hi - lo))
        return worst, width
    finally:
        shutil.rmtree(folder)


def main():
    bad = 0
    for args in ((-5000000, 50, 1024, False), (1000000, -50, 32, False), (0, 0, 1, False),
                 (-5000000, 50, 1024, True), (7000000000, -50, 32, True)):
        try:
            print("ok   offset %d ns, drift %d ppm, tick %d ns, kernel records %d: "
                  "worst %d ns, interval up to %d ns" % (args + case(*args)))
        except (Wrong, OSError, KeyError, ValueError) as e:
            bad += 1
            print("FAIL %r: %s %s" % (args, type(e).__name__, e))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
