"""The public 8-rank DLRM trace (param, torch.profiler, 8 x V100) against numbers known to be right.

usage: d1_test.py HINDMOST ROOT. Exit 77 = skipped: the sample data are not here.
Expected: an exact computation of the breakdown and of waits on this trace, in us, made apart from
this project (equal to HTA's and TraceLens' where those are exact).
"""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

#        span   compute idle  comm   overlap exposed wait   transfer last
RANKS = [(13009, 1034, 6419, 5798, 261, 5537, 5580, 218, 0),
         (18749, 1246, 6428, 11336, 280, 11056, 11125, 211, 0),
         (11350, 1068, 7046, 3492, 275, 3217, 3280, 212, 0),
         (18853, 1240, 8145, 9774, 324, 9450, 9571, 203, 0),
         (16589, 1126, 8887, 6587, 37, 6550, 6370, 217, 1),
         (16392, 1041, 9121, 6251, 40, 6211, 6041, 210, 2),
         (11410, 1051, 7051, 3558, 269, 3289, 3342, 216, 0),
         (10967, 1059, 8308, 1746, 166, 1580, 1534, 212, 5)]
# skew, last rank, margin, core, last start to last end, sum of waits
COLLECTIVES = [(7624, 7, 505, 9, 11, 26435), (1101, 7, 509, 6, 8, 6231), (168, 7, 162, 7, 8, 1161),
               (125, 7, 124, 6, 8, 871), (223, 7, 9, 82, 87, 854), (534, 5, 52, 8, 11, 2903),
               (584, 5, 49, 18, 23, 3379), (885, 4, 14, 62, 69, 5009)]
WAITS = {0: [2135, 7624, 508, 6122, 4872, 4669, 505, 0], 4: [159, 223, 116, 208, 9, 12, 127, 0],
         7: [885, 858, 846, 817, 0, 14, 851, 738]}
bad = []


def same(what, got, want_us):
    if got is None or round(got / 1000) != want_us:
        bad.append(f"{what}: {got} ns, expected {want_us} us")


def main(hindmost, root):
    data = os.environ.get("HM_SHARED_DATA") or pathlib.Path(root).parent / "shared" / "data"
    archive = pathlib.Path(data) / "d1-param-dlrm-8xV100-kineto.tar.gz"
    if not archive.exists():
        print(f"skipped: {archive} is not here")
        return 77
    with tempfile.TemporaryDirectory() as top:
        with tarfile.open(archive) as tar:
            tar.extractall(top)
        folder = next(pathlib.Path(top).rglob("*.json")).parent
        done = subprocess.run([hindmost, "report", folder, "--json=full"], capture_output=True,
                              text=True, env={**os.environ, "TMPDIR": top})
        left = list(pathlib.Path(top).glob("hindmost-*"))
    if done.returncode:
        print(done.stderr)
        return 1
    r = json.loads(done.stdout)
    if left:
        bad.append(f"left behind: {left}")
    keys = ["window_ns", "compute_ns", "idle_ns", "comm_ns", "overlap_ns", "exposed_comm_ns",
            "wait_ns", "transfer_ns"]
    if [x["rank"] for x in r["ranks"]] != list(range(8)):
        bad.append("ranks are not 0 to 7")
    for x, want in zip(r["ranks"], RANKS):
        for key, us in zip(keys, want):
            same(f"rank {x['rank']} {key}", x[key], us)
        if x["last_arrivals"] != want[8]:
            bad.append(f"rank {x['rank']} last_arrivals: {x['last_arrivals']}, not {want[8]}")
        parts = x["compute_ns"] + x["exposed_comm_ns"] + x["memcpy_ns"] + x["idle_ns"]
        if parts != x["window_ns"]:
            bad.append(f"rank {x['rank']}: parts are {parts}, window {x['window_ns']}")
    if len(r["collectives"]) != 8:
        bad.append(f"{len(r['collectives'])} collectives, not 8")
    for i, (c, want) in enumerate(zip(sorted(r["collectives"], key=lambda c: c["start_ns"]),
                                      COLLECTIVES)):
        for key, us in zip(["skew_ns", None, "margin_ns", "core_ns", "last_start_to_last_end_ns"],
                           want):
            if key:
                same(f"collective {i} {key}", c[key], us)
        same(f"collective {i} waits", sum(c["wait_ns"]), want[5])
        if c["last_rank"] != want[1]:
            bad.append(f"collective {i}: last rank {c['last_rank']}, not {want[1]}")
        for rank, us in enumerate(WAITS.get(i, [])):
            same(f"collective {i} wait of rank {rank}", c["wait_ns"][rank], us)
    if r["verdict"]["status"] in ("straggler", "imbalance", "jitter"):
        bad.append(f"one step is no ground for a verdict: {r['verdict']['text']}")
    if r["quality"]["violations"]:
        bad.append("causality violations where there are none")
    print("\n".join(bad) or "8 ranks and 8 collectives as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
