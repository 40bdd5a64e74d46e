"""Two H100 in an SQLite export of Nsight Systems (nsys-ai, MIT licence): the numbers that an exact
computation and other analysers give for the same file.

usage: sample_d4_test.py HINDMOST SOURCE_DIR. 77 = the sample is not here.
"""
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import samples

# rank: window, compute, comm, idle, wait, last arrivals; us
RANKS = {0: (299849, 253691, 17173, 26031, 10898, 11), 1: (298662, 256096, 8229, 31386, 2477, 22)}
wrong = []


def same(what, got, want):
    if got != want:
        wrong.append(f"{what}: got {got}, expected {want}")


def run(*args):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        sys.exit(f"{' '.join(args[:3])}: exit {p.returncode}: {p.stderr}")
    return p.stdout


def check_rows(hindmost, sample, folder):
    """Rows of the rank files against the tables, read by Python's own SQLite."""
    db = sqlite3.connect(f"file:{sample}?mode=ro&immutable=1", uri=True)
    info = {r["rank"]: r for r in json.loads(run(hindmost, "info", "--json", folder))["ranks"]}
    same("ranks", sorted(info), [0, 1])
    tables = {"kernel": "KERNEL", "memcpy": "MEMCPY", "memset": "MEMSET", "sync": "SYNCHRONIZATION"}
    for rank in (0, 1):
        pid, = db.execute("select distinct globalPid from CUPTI_ACTIVITY_KIND_KERNEL where deviceId = ?", (rank,)).fetchone()
        for key, table in tables.items():
            n, = db.execute(f"select count(*) from CUPTI_ACTIVITY_KIND_{table} where globalPid = ?", (pid,)).fetchone()
            same(f"rank {rank} {key}", info[rank]["events"][key], n)
        for key, table in (("api", "CUPTI_ACTIVITY_KIND_RUNTIME"), ("range", "NVTX_EVENTS")):
            n, = db.execute(f"select count(*) from {table} where globalTid / 16777216 = ? / 16777216", (pid,)).fetchone()
            same(f"rank {rank} {key}", info[rank]["events"][key], n)
        same(f"rank {rank} host", info[rank]["host"], "modal")


def check_report(report):
    same("ranks reported", sorted((r["rank"], r["device"]) for r in report["ranks"]), [(0, 0), (1, 1)])
    for r in report["ranks"]:
        got = tuple(round(r[k + "_ns"] / 1000) for k in ("window", "compute", "comm", "idle", "wait"))
        same(f"rank {r['rank']}", got + (r["last_arrivals"],), RANKS[r["rank"]])
    coll = report["collectives"]
    same("collectives", len(coll), 33)
    same("members", {len(c["ranks"]) for c in coll}, {2})
    skew = [c["skew_ns"] for c in coll]
    same("skew", (round(min(skew) / 1e3, 1), round(max(skew) / 1e3, 1)), (4.1, 3339.7))
    for c in coll:
        core = c["core_ns"] / 1e3
        if not (88.5 <= core <= 102.5 or 252.5 <= core <= 270.5):
            wrong.append(f"collective {c['seq']}: core {core} us")
    waits = sum(r["wait_ns"] for r in report["ranks"])
    same("share of waiting", round(100 * waits / sum(r["comm_ns"] for r in report["ranks"]), 1), 52.7)
    same("violations", report["quality"]["violations"], 0)
    # 11 : 22 last places are no sign of a straggler, and one window is no series of steps
    same("findings", report["findings"], [])
    if report["verdict"]["status"] not in ("none", "undecided", "insufficient"):
        wrong.append(f"verdict: {report['verdict']}")


def main(hindmost, source):
    sample = samples.find(source, "d4-*.sqlite")
    if not sample:
        print("skipped: sample d4 is not here (HM_SAMPLE_DATA names its folder)")
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        p = subprocess.run([hindmost, "import", "nsys", sample, "-o", tmp + "/run"], stderr=subprocess.PIPE, text=True)
        if p.returncode == 69:
            print("skipped: " + p.stderr)
            return 77
        same("import", p.returncode, 0)
        check_rows(hindmost, sample, tmp + "/run")
        report = json.loads(run(hindmost, "report", "--json=full", tmp + "/run"))
        check_report(report)
        # the file itself, whatever its name, and a folder that holds it: the same answer
        path = shutil.copy(sample, tmp + "/what ever?.bin")
        mine = dict(json.loads(run(hindmost, "report", "--json=full", path)))
        same("report of the file", mine, report)
        run(hindmost, "merge", path, "-o", tmp + "/trace.json")
        with open(tmp + "/trace.json") as f:
            events = json.load(f)["traceEvents"]
        same("kernels drawn", sum(e.get("cat") == "kernel" for e in events), 4010)
        same("collectives drawn", sum(e.get("cat") == "nccl" for e in events), 66)
    print("\n".join(wrong) or "2 ranks and 33 collectives as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
