"""Made-up SQLite exports of Nsight Systems: times by hand, ranks, steps, hostile files.

usage: nsys_test.py HINDMOST. 77 = built without SQLite, or no h5py.
"""
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

try:
    import h5py
    import numpy as np
except ImportError:
    print("skipped: python3-h5py is not installed")
    sys.exit(77)

HINDMOST = sys.argv[1]
UTC = 1779782330176752435
START = 28254349605
BASE = UTC - START  # what must be added to a time of the file
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
wrong = []

TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "TARGET_INFO_SYSTEM_ENV": "name TEXT, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT",
    "ANALYSIS_DETAILS": "duration INTEGER, startTime INTEGER, stopTime INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
                                  "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, "
                                  "registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, "
                                  "blockX INTEGER, blockY INTEGER, blockZ INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, "
                                   "nameId INTEGER, returnValue INTEGER",
    "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, "
                   "domainId INTEGER",
}


def same(what, got, want):
    if got != want:
        wrong.append(f"{what}: got {got!r}, expected {want!r}")


def hindmost(*args):
    p = subprocess.run([HINDMOST, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


def make(path, rows, leave_out=(), texts=()):
    """rows: (table, values...)"""
    if os.path.exists(path):
        os.remove(path)
    db = sqlite3.connect(path)
    for table, columns in TABLES.items():
        if table not in leave_out:
            db.execute(f"CREATE TABLE {table} ({columns})")
    names = ["", NCCL, "gemm(int)", "cudaLaunchKernel_v7000", "cuLaunchKernelEx", *texts]
    for row in [("StringIds", i, n) for i, n in enumerate(names)] + list(rows):
        if row[0] not in leave_out:
            db.execute(f"INSERT INTO {row[0]} VALUES ({', '.join('?' * (len(row) - 1))})", row[1:])
    db.commit()
    db.close()
    return path


def head(host="node7"):
    return [("TARGET_INFO_SYSTEM_ENV", "Hostname", host), ("TARGET_INFO_SESSION_START_TIME", UTC, ""),
            ("ANALYSIS_DETAILS", 5, START, 6)]


def pid_of(pid):
    return 1 << 48 | pid << 24


def kernel(start, end, device, pid, correlation, name=2, stream=7):
    return ("CUPTI_ACTIVITY_KIND_KERNEL", start, end, device, 1, stream, correlation, pid_of(pid), name, name, 32,
            4, 2, 1, 128, 1, 1)


def api(start, end, pid, correlation, name=3):
    return ("CUPTI_ACTIVITY_KIND_RUNTIME", start, end, pid_of(pid) | 99, correlation, name, 0)


def nvtx(start, end, text, pid, tid=99, kind=59):
    return ("NVTX_EVENTS", start, end, kind, text, pid_of(pid) | tid, None, 0)


def column(f, table, name):
    v = f[table][name][:]
    return np.cumsum(v, dtype=v.dtype) if name in ("t", "correlation", "step") else v


def exact_rows(tmp):
    rows = head() + [kernel(START + 1000, START + 1500, 3, 44, 17), api(START + 100, START + 130, 44, 17),
                     api(START + 140, START + 150, 44, 18, 4), nvtx(START + 90, START + 300, "forward", 44),
                     kernel(START + 2000, START + 2600, 3, 44, 18, name=1, stream=9)]
    path = make(tmp + "/exact.sqlite", rows)
    code, _, err = hindmost("import", "nsys", path, "-o", tmp + "/exact")
    same("exact", (code, err), (0, ""))
    with h5py.File(tmp + "/exact/rank-00000.h5") as f:
        same("kernel times", list(column(f, "kernel", "t")), [BASE + START + 1000, BASE + START + 2000])
        same("kernel durations", list(column(f, "kernel", "dur")), [500, 600])
        same("correlation", list(column(f, "kernel", "correlation")), [17, 18])
        same("grid", [int(column(f, "kernel", "grid_" + c)[0]) for c in "xyz"], [4, 2, 1])
        same("api times", list(column(f, "api", "t")), [BASE + START + 100, BASE + START + 140])
        same("api domains", list(column(f, "api", "domain")), [2, 1])
        same("range", [int(column(f, "range", c)[0]) for c in ("t", "dur")], [BASE + START + 90, 210])
        same("facts", (f.attrs["host"], int(f.attrs["pid"])) if "host" in f.attrs else None,
             ("node7", 44) if "host" in f.attrs else None)
    info = json.loads(hindmost("info", "--json", tmp + "/exact")[1])
    same("host", info["ranks"][0]["host"], "node7")


def ranks(tmp):
    """One file: by device. Several: by the number in the name, else in the order given."""
    both = head() + [kernel(START + 10, START + 20, 1, 50, 1), kernel(START + 10, START + 25, 0, 60, 1),
                     kernel(START + 10, START + 27, 0, 60, 2, stream=8)]
    path = make(tmp + "/both.sqlite", both)
    same("import both", hindmost("import", "nsys", path, "-o", tmp + "/both")[0], 0)
    info = json.loads(hindmost("info", "--json", tmp + "/both")[1])
    same("kernels by rank", [(r["rank"], r["events"]["kernel"]) for r in info["ranks"]], [(0, 2), (1, 1)])
    for names, want in ((("rank_5.sqlite", "rank_2.sqlite"), {5: 1, 2: 2}), (("b.sqlite", "a.sqlite"), {0: 1, 1: 2}),
                        (("x1.sqlite", "y1.sqlite"), {0: 1, 1: 2})):
        paths = []
        for n, name in enumerate(names):
            rows = head() + [kernel(START + 10 * k, START + 10 * k + 5, 0, 70, k) for k in range(1, n + 2)]
            paths.append(make(f"{tmp}/{name}", rows))
        run = f"{tmp}/of-{names[0]}"
        same(f"import {names}", hindmost("import", "nsys", *paths, "-o", run)[0], 0)
        info = json.loads(hindmost("info", "--json", run)[1])
        same(f"ranks of {names}", {r["rank"]: r["events"]["kernel"] for r in info["ranks"]}, want)


def steps(tmp):
    """Ranges "Train Step N" are steps; "micro batch N" inside them are not, nor is another thread's."""
    rows = head()
    for s in range(12):
        t = START + 10_000_000 * s
        for pid, device in ((50, 0), (51, 1)):
            rows += [nvtx(t, t + 9_000_000, f"Train Step {s + 3}", pid),
                     nvtx(t + 10, t + 4_000_000, f"micro batch {2 * s}", pid),
                     nvtx(t + 4_100_000, t + 8_000_000, f"micro batch {2 * s + 1}", pid),
                     nvtx(t, t + 5_000_000, f"Train Step {s}", pid, tid=7),
                     api(t + 1000, t + 2000, pid, 2 * s + 1), api(t + 3000, t + 4000, pid, 2 * s + 2),
                     kernel(t + 5000, t + 3_000_000 + 2_000_000 * device, device, pid, 2 * s + 1),
                     kernel(t + 3_100_000 + 2_000_000 * device, t + 6_000_000, device, pid, 2 * s + 2, 1, 9)]
    path = make(tmp + "/steps.sqlite", rows)
    code, out, err = hindmost("report", "--json=full", path)
    same("report of steps", (code, err), (0, ""))
    report = json.loads(out)
    same("steps", [s["step"] for s in report["step"]], list(range(4, 15)))  # the first is warm-up
    same("collectives", len(report["collectives"]), 12)
    # rank 1 computes 2 ms longer in every step, and rank 0 waits for it
    same("waits", {tuple(c["wait_ns"]) for c in report["collectives"]}, {(2_000_000, 0)})
    same("last", {c["last_rank"] for c in report["collectives"]}, {1})
    same("clock error", report["quality"]["clock_error_ns"], 0)
    # two captures have two clocks: nothing is told from their order
    for device, pid in ((0, 50), (1, 51)):
        only = [r for r in rows if r[0] not in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")
                or pid_of(pid) in [v & ~0xffffff for v in r[1:] if isinstance(v, int)]]
        make(f"{tmp}/cap-rank{device}.sqlite", only)
    folder = tmp + "/caps"
    os.mkdir(folder)
    for device in (0, 1):
        os.rename(f"{tmp}/cap-rank{device}.sqlite", f"{folder}/cap-rank{device}.sqlite")
    code, out, err = hindmost("report", "--json=full", folder)
    same("two captures", code, 0)
    same("last of two captures", {c["last_rank"] for c in json.loads(out)["collectives"]}, {None})


def refuse(tmp, name, path, *words):
    run = tmp + "/refused"
    code, _, err = hindmost("import", "nsys", path, "-o", run)
    lines = err.strip().splitlines()
    if code != 65 or len(lines) != 1 or any(w not in err for w in words):
        wrong.append(f"{name}: exit {code}: {err}")
    if os.path.exists(run):
        wrong.append(f"{name}: left {run} behind")
    code, _, err = hindmost("report", path)
    if code != 65 or len(err.strip().splitlines()) != 1:
        wrong.append(f"report {name}: exit {code}: {err}")


def hostile(tmp):
    rows = head() + [kernel(START + 1000 * k, START + 1000 * k + 500, 0, 44, k) for k in range(1, 400)]
    good = make(tmp + "/good.sqlite", rows)
    size = os.path.getsize(good)
    with open(good, "rb") as f:
        whole = f.read()
    for n in (0, 10, 16, 100, 4096, size // 2, size - 4096):
        with open(tmp + "/cut", "wb") as f:
            f.write(whole[:n])
        refuse(tmp, f"cut at {n}", tmp + "/cut")
    # no kernel table; a table without the columns that matter
    refuse(tmp, "no kernels", make(tmp + "/none.sqlite", rows, leave_out=("CUPTI_ACTIVITY_KIND_KERNEL",)), "kernel")
    # a view that never ends under the name of the table
    path = make(tmp + "/view.sqlite", rows, leave_out=("CUPTI_ACTIVITY_KIND_KERNEL",))
    db = sqlite3.connect(path)
    db.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start + 1 "
               "FROM c) SELECT start, start + 1 AS end, 0 AS deviceId FROM c")
    db.commit()
    db.close()
    refuse(tmp, "endless view", path, "kernel")
    with open(tmp + "/x.nsys-rep", "wb") as f:
        f.write(b"NSYS" + bytes(100))
    code, _, err = hindmost("report", tmp + "/x.nsys-rep")
    same("nsys-rep", (code, "nsys export" in err), (65, True))
    # wrong types and huge numbers: what can be used is used, the rest is counted
    odd = [("CUPTI_ACTIVITY_KIND_KERNEL", *v) for v in (
        ("soon", "later", "x", "y", "z", "c", pid_of(44), "n", None, None, None, None, None, None, None, None),
        (-5, 10, 0, 1, 7, 1, pid_of(44), 2, 2, -1, -1, -1, -1, -1, -1, -1),
        (2 ** 63 - 1, 2 ** 63 - 1, 2 ** 40, 2 ** 40, 2 ** 40, 2 ** 40, pid_of(44), 2 ** 62, 2, *[2 ** 62] * 7),
        (10, -2 ** 63, 0, 1, 7, 1, pid_of(44), 2, 2, 1, 1, 1, 1, 1, 1, 1),
        (1.5, 2.5, 0, 1, 7, 1, pid_of(44), 2, 2, 1, 1, 1, 1, 1, 1, 1),
        (b"\0\1", b"", 0, 1, 7, 1, pid_of(44), 2, 2, 1, 1, 1, 1, 1, 1, 1),
        (START + 9, START + 10, -7, -7, -7, -7, None, -2, -2, -2, 0, 0, 0, 0, 0, 0))]
    more = [nvtx(START + 5, START + 9, "step " + "9" * 400, 44), nvtx(START + 5, None, "open", 44),
            nvtx(START + 5, START + 6, "\x1b[31m" + "x" * 100000, 44), nvtx(-2 ** 63, 2 ** 63 - 1, "step 1", 44),
            ("TARGET_INFO_SESSION_START_TIME", 2 ** 63 - 1, ""), ("TARGET_INFO_SYSTEM_ENV", "Hostname", "h" * 5000)]
    path = make(tmp + "/odd.sqlite", rows + odd + more)
    code, _, err = hindmost("import", "nsys", path, "-o", tmp + "/odd")
    same("odd values", (code, err), (0, ""))
    info = json.loads(hindmost("info", "--json", tmp + "/odd")[1])
    same("kernels of odd values", info["ranks"][0]["events"]["kernel"], 399)
    same("hostile report", hindmost("report", path)[0], 0)


def mutations(tmp):
    """Bytes changed at random: an answer or 65 with a line, never a signal, never a hang."""
    rows = head() + [r for k in range(1, 200) for r in
                     (kernel(START + 1000 * k, START + 1000 * k + 500, k % 2, 44 + k % 2, k), api(START + 1000 * k - 900,
                      START + 1000 * k - 800, 44 + k % 2, k), nvtx(START + 1000 * k, START + 1000 * k + 9, f"step {k}", 44))]
    with open(make(tmp + "/base.sqlite", rows), "rb") as f:
        whole = f.read()
    rng = random.Random(20261201)
    for turn in range(60):
        data = bytearray(whole)
        page = rng.randrange(len(data) // 4096)
        for _ in range(rng.choice((1, 4, 40))):
            where = rng.choice((rng.randrange(16, 100), 4096 * page + rng.randrange(12), rng.randrange(16, len(data))))
            data[where] = rng.choice((0, 255, 128, rng.randrange(256)))
        if turn % 5 == 0:  # pages that point to others, or to themselves
            for at in range(4096 * page + 8, 4096 * page + 12):
                data[at] = (page + 1) >> 8 * (4096 * page + 11 - at) & 255
            data[4096 * page] = rng.choice((5, 13))
        path = f"{tmp}/mutated"
        with open(path, "wb") as f:
            f.write(data)
        try:
            code, _, err = hindmost("report", "--json", path)
        except subprocess.TimeoutExpired:
            wrong.append(f"mutation {turn}: hangs")
            continue
        if code not in (0, 65) or "runtime error" in err or "Sanitizer" in err or (code == 65 and not err.startswith("hindmost: ")):
            wrong.append(f"mutation {turn}: exit {code}: {err[:500]}")
        left = [n for n in os.listdir(tmp) if n.startswith("hindmost-")]
        same(f"mutation {turn} left behind", left, [])


def interrupted(tmp):
    """Ctrl-C, or worse, in the middle of an import: nothing stays behind in TMPDIR."""
    rows = head() + [kernel(START + 1000 * k, START + 1000 * k + 500, 0, 44, k) for k in range(1, 60000)]
    path = make(tmp + "/long.sqlite", rows)
    for number in (signal.SIGINT, signal.SIGKILL):
        p = subprocess.Popen([HINDMOST, "report", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not [n for n in os.listdir(tmp) if n.startswith("hindmost-")] and p.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.001)
        p.send_signal(number)
        p.communicate(timeout=60)  # ends when the last holder of the pipes ends: the janitor
        same(f"left behind after {number.name}", [n for n in os.listdir(tmp) if n.startswith("hindmost-")], [])
    p = subprocess.run([HINDMOST, "report", path], capture_output=True, text=True, env=dict(os.environ, TMPDIR=tmp + "/none"))
    same("no TMPDIR", (p.returncode, len(p.stderr.splitlines()), "TMPDIR" in p.stderr), (1, 1, True))
    # info of a trace, and two traces at once
    info = json.loads(hindmost("info", "--json", path)[1])
    same("info of a trace", info["ranks"][0]["events"]["kernel"], 59999)
    same("diff of two traces", hindmost("diff", path, path)[0], 0)
    same("left behind", [n for n in os.listdir(tmp) if n.startswith("hindmost-")], [])


def main():
    with tempfile.TemporaryDirectory() as tmp:
        os.environ["TMPDIR"] = tmp
        probe = make(tmp + "/probe.sqlite", head() + [kernel(START, START + 1, 0, 1, 1)])
        code, _, err = hindmost("import", "nsys", probe, "-o", tmp + "/probe")
        if code == 69:
            print("skipped: " + err)
            return 77
        exact_rows(tmp)
        ranks(tmp)
        steps(tmp)
        hostile(tmp)
        mutations(tmp)
        interrupted(tmp)
    print("\n".join(wrong[:20]) or "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
