"""Eight V100 traces of one step of a recommender (PARAM, MIT licence): the numbers that other
analysers and an exact hand computation give, to the microsecond.

usage: sample_d1_test.py HINDMOST SOURCE_DIR. 77 = the sample is not here (it is not part of the
project: HM_SHARED_DATA names its folder).
"""
import glob
import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile

# rank: window, compute, idle, comm, overlap, exposed, wait, transfer, last arrivals
RANKS = {
    0: (13009, 1034, 6419, 5798, 261, 5537, 5580, 218, 0),
    1: (18749, 1246, 6428, 11336, 280, 11056, 11125, 211, 0),
    2: (11350, 1068, 7046, 3492, 275, 3217, 3280, 212, 0),
    3: (18853, 1240, 8145, 9774, 324, 9450, 9571, 203, 0),
    4: (16589, 1126, 8887, 6587, 37, 6550, 6370, 217, 1),
    5: (16392, 1041, 9121, 6251, 40, 6211, 6041, 210, 2),
    6: (11410, 1051, 7051, 3558, 269, 3289, 3342, 216, 0),
    7: (10967, 1059, 8308, 1746, 166, 1580, 1534, 212, 5),
}
RANK_KEYS = ("window", "compute", "idle", "comm", "overlap", "exposed_comm", "wait", "transfer")
# function, skew, last rank, margin, core, last start to last end, sum of the waits
COLLECTIVES = [
    ("AlltoAll", 7624, 7, 505, 9, 11, 26435),
    ("AlltoAll", 1101, 7, 509, 6, 8, 6231),
    ("AlltoAll", 168, 7, 162, 7, 8, 1161),
    ("AlltoAll", 125, 7, 124, 6, 8, 871),
    ("AllReduce", 223, 7, 9, 82, 87, 854),
    ("AlltoAll", 534, 5, 52, 8, 11, 2903),
    ("AllReduce", 584, 5, 49, 18, 23, 3379),
    ("AllReduce", 885, 4, 14, 62, 69, 5009),
]
WAITS = {
    0: [2135, 7624, 508, 6122, 4872, 4669, 505, 0],
    4: [159, 223, 116, 208, 9, 12, 127, 0],
    7: [885, 858, 846, 817, 0, 14, 851, 738],
}
wrong = []


def same(what, got, want):
    if got != want:
        wrong.append(f"{what}: got {got}, expected {want}")


def find_sample(source):
    for folder in (os.environ.get("HM_SHARED_DATA"), os.path.join(source, "../shared/data")):
        for path in glob.glob(os.path.join(folder, "d1-*.tar.gz")) if folder else []:
            return path
    return None


def run(*args):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        sys.exit(f"{' '.join(args[:3])}: exit {p.returncode}: {p.stderr}")
    return p.stdout


def check_rows(hindmost, files, folder):
    """Rows of the rank files against the traces, read by Python's own parser."""
    info = {r["rank"]: r for r in json.loads(run(hindmost, "info", "--json", folder))["ranks"]}
    same("ranks", sorted(info), list(range(8)))
    for path in files:
        with open(path) as f:
            trace = json.load(f)
        rank = trace["distributedInfo"]["rank"]
        count = {}
        for e in trace["traceEvents"]:
            if e["ph"] == "X":
                count[e["cat"]] = count.get(e["cat"], 0) + 1
        rows = info[rank]["events"]
        same(f"rank {rank} kernels", rows["kernel"], count["kernel"])
        same(f"rank {rank} copies", rows["memcpy"], count["gpu_memcpy"])
        same(f"rank {rank} sets", rows.get("memset", 0), count.get("gpu_memset", 0))
        same(f"rank {rank} calls", rows["api"], count["cuda_runtime"])
        steps = sum(e.get("name", "").startswith("ProfilerStep#") for e in trace["traceEvents"])
        same(f"rank {rank} ranges", rows["range"] + steps,
             count["cpu_op"] + count["user_annotation"])
        same(f"rank {rank} step marks", rows["step"], 2 * steps)


def check_report(report):
    for r in report["ranks"]:
        got = tuple(r[k + "_ns"] for k in RANK_KEYS) + (r["last_arrivals"],)
        want = RANKS[r["rank"]]
        same(f"rank {r['rank']}", got, tuple(1000 * v for v in want[:-1]) + want[-1:])
    same("ranks reported", len(report["ranks"]), 8)
    same("collectives", len(report["collectives"]), len(COLLECTIVES))
    for i, (c, want) in enumerate(zip(report["collectives"], COLLECTIVES)):
        got = (c["func"], c["skew_ns"], c["last_rank"], c["margin_ns"], c["core_ns"],
               c["last_start_to_last_end_ns"], sum(c["wait_ns"]))
        same(f"collective {i}", got,
             (want[0], 1000 * want[1], want[2], *(1000 * v for v in want[3:])))
        same(f"collective {i} seq", c["seq"], i)
    for i, want in WAITS.items():
        same(f"waits of collective {i}", report["collectives"][i]["wait_ns"],
             [1000 * v for v in want])
    same("violations", report["quality"]["violations"], 0)
    same("grade", report["quality"]["grade"], "limited")
    same("verdict", report["verdict"]["status"], "insufficient")  # one step: nobody is accused
    same("findings", [f for f in report["findings"] if f["status"] == "straggler"], [])


def main(hindmost, source):
    sample = find_sample(source)
    if not sample:
        print("skipped: sample d1 is not here (HM_SHARED_DATA names its folder)")
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        with tarfile.open(sample) as t:
            for m in t.getmembers():
                if m.isfile() and m.name.endswith(".json"):
                    m.name = os.path.basename(m.name)
                    t.extract(m, tmp)
        files = sorted(glob.glob(tmp + "/*.json"))
        folder = tmp + "/run"
        run(hindmost, "import", "kineto", *files, "-o", folder)
        check_rows(hindmost, files, folder)
        report = json.loads(run(hindmost, "report", "--json=full", folder))
        check_report(report)
        # the folder of traces itself, packed: the same answer
        for path in files:
            with open(path, "rb") as f, gzip.open(path + ".gz", "wb") as packed:
                packed.write(f.read())
            os.remove(path)
        direct = json.loads(run(hindmost, "report", "--json=full", tmp))
        same("report of the folder", direct, report)
    print("\n".join(wrong) or f"8 ranks and {len(COLLECTIVES)} collectives as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
