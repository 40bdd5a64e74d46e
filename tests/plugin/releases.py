"""Every release of NCCL, every way to be loaded: what happened is in the rank files, exactly once.

usage: releases.py BUILD JOB [CASE...]; the truth is written by the virtual NCCL. Expected ways and
interfaces: NCCL's own loaders, as observed with a reference plugin.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import h5py
except ImportError:
    print("skipped: no h5py")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "record"))
from decode import column  # noqa: E402

BUILD, JOB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
LIB = os.path.join(BUILD, "lib")
SO = "libnccl-profiler-hindmost.so"
PATH = os.path.join(LIB, SO)
CALL_P2P = 1 << 31
FUNC = {"AllReduce": 1, "AllGather": 2, "ReduceScatter": 3, "Broadcast": 4, "Reduce": 5,
        "Send": 6, "Recv": 7}
ROOTED = ("Broadcast", "Reduce")
INTERFACE = {"2.20.5": 0, "2.23.4": 1, "2.24.3": 2, "2.25.1": 2, "2.26.6": 3, "2.27.3": 4, "2.27.7": 4,
             "2.28.9": 5, "2.29.7": 6, "2.30.7": 6, "2.31.2": 7}


def number(release):
    a, b, c = (int(v) for v in release.split("."))
    return a * 10000 + b * 100 + c


WAYS = {  # name: (variables, from which releases on it works, and in which it does not)
    "path": ({"NCCL_PROFILER_PLUGIN": PATH}, 0, ("2.27.3",)),
    "bare": ({"NCCL_PROFILER_PLUGIN": SO}, 0, ()),
    "suffix": ({"NCCL_PROFILER_PLUGIN": "hindmost"}, 22600, ()),
    "preload": ({"LD_PRELOAD": PATH}, 0, ()),
    "preload-link": ({"LD_PRELOAD": os.path.join(LIB, "libhindmost.so")}, 0, ()),
    "preload-again": ({"LD_PRELOAD": PATH, "NCCL_PROFILER_PLUGIN": PATH}, 0, ("2.27.3",)),
    "static": ({"LD_PRELOAD": PATH, "NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN"}, 0, ()),  # replaced
}


class Wrong(Exception):
    pass


def same(what, got, want):
    if got != want:
        raise Wrong("%s: %r instead of %r" % (what, got, want))


def table(f, path):
    if path not in f:
        return []
    t = f[path]
    names = [n for n in t.keys() if isinstance(t[n], h5py.Dataset)]
    cols = [[int(v) for v in column(t, n)] for n in names]
    return [dict(zip(names, row)) for row in zip(*cols)]


def run(folder, release, env, args, with_=""):
    full = {k: v for k, v in os.environ.items()
            if not k.startswith(("HINDMOST", "NCCL_", "VGPU_", "OMPI_", "PMI", "SLURM", "LD_"))}
    full.update(LD_LIBRARY_PATH=LIB + ":" + os.path.join(BUILD, "vgpu"), HINDMOST_RUN="releases",
                HINDMOST_OUT=os.path.join(folder, "run"), HINDMOST_DIGEST="0",
                VGPU_NCCL_TRUTH=os.path.join(folder, "truth"), VGPU_NCCL_NODES="2",
                VGPU_NCCL_RELEASE=release, VGPU_NCCL_WITH=with_, CUDA_INJECTION64_PATH="",
                HINDMOST_KERNELS="0", HINDMOST_POOL="64M", HOME=folder)
    full.update(env)
    done = subprocess.run([JOB] + [str(a) for a in args], env=full, cwd=folder, timeout=170,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    same("status (%s)" % text.strip()[-400:], done.returncode, 0)
    return text


def truth_of(folder, rank):
    with open(os.path.join(folder, "truth")) as f:
        rows = [json.loads(line) for line in f]
    rows = [r for r in rows if r["rank"] == rank]
    nth = collections.Counter()
    for r in sorted(rows, key=lambda r: (r["comm"], r["call"])):  # the order of the calls
        p2p = r["func"] in ("Send", "Recv")
        r["index"] = nth[r["comm"], p2p] | (CALL_P2P if p2p else 0)
        nth[r["comm"], p2p] += 1
    return rows


def peer_of(r):
    return r["peer"] if r["func"] in ROOTED + ("Send", "Recv") else -1


def check_rank(folder, release, rank, end="destroy", preloaded=True):
    v = INTERFACE[release]
    api_order = v >= 5 or v == 0  # else it is NCCL's plan that counts
    calls_known = v >= 5 or preloaded  # by NCCL, or by our own ncclAllReduce and the others
    truth = truth_of(folder, rank)
    if not truth:
        raise Wrong("no truth")
    with h5py.File(os.path.join(folder, "run", "rank-%05d.h5" % rank), "r") as f:
        comms = table(f, "/def/comm")
        calls, colls, p2ps = (table(f, "/nccl/" + n) for n in ("call", "coll", "p2p"))
        launches, ops = table(f, "/nccl/launch"), table(f, "/nccl/proxy_op")
        states = {s["comm"]: s for s in table(f, "/nccl/state") if s["aux"] == 65535}
    if v >= 5:  # holes are counted: broadcasts of some releases, outside groups in this job
        same("calls without a launch", sum(s["unlaunched"] for s in states.values()),
             sum(r["func"] == "Broadcast" for r in truth) if 22902 <= number(release) <= 23102
             else 0)
    states = {c: s for c, s in states.items() if s["alive"]}
    for c in comms:
        same("interface", c["interface"], v)
        same("crank", c["crank"], rank)
        same("n_ranks", c["n_ranks"], 0 if 0 < v < 4 and not preloaded else 2)
        same("nccl_version", c["nccl_version"], number(release))
    key = {i: "%016x" % c["hash"] for i, c in enumerate(comms)}
    if v == 0:  # a hash of our own: the communicators by their order
        names = list(dict.fromkeys(r["comm"] for r in truth))
        same("communicators", len(key), len(names))
        key = dict(enumerate(names))

    def what(row, count, dtype, peer):
        return (key[row["comm"]], row["aux"] & 255, row["aux"] >> 8, row["count"], row["peer"])

    def true(r, as_told):
        in_bytes = as_told and not calls_known and r["func"] in ("AllGather", "Broadcast")
        size = {7: 4, 9: 2}.get(r["dtype"], 1)
        return (r["comm"], FUNC[r["func"]], 1 if in_bytes else 1 + r["dtype"],
                r["count"] * size if in_bytes else r["count"], peer_of(r))

    def bag(rows):
        return collections.Counter(rows)
    # calls: each exactly once, in order
    def index(row):
        return (row.get("index", row.get("call")),) if api_order else ()
    want = bag(true(r, 0) + index(r) for r in truth
               if r["func"] not in ("Send", "Recv")) if calls_known else bag([])
    got = bag(what(c, 0, 0, 0) + index({"call": c["call"]}) for c in calls
              if not c["call"] & CALL_P2P)
    same("calls", got - want, bag([]))
    same("calls missing", want - got, bag([]))
    want_p2p = bag((r["comm"], FUNC[r["func"]], r["count"]) + index(r) for r in truth
                   if calls_known and r["func"] in ("Send", "Recv"))
    got = bag((key[c["comm"]], c["aux"] & 255, c["count"]) + index({"call": c["call"]})
              for c in calls if c["call"] & CALL_P2P)
    same("send and receive calls", got, want_p2p)
    # operations
    hole = 22902 <= number(release) <= 23102
    told = [r for r in truth if r["func"] not in ("Send", "Recv") and v > 0 and
            not (hole and r["func"] == "Broadcast")]
    same("operations", bag(what(c, 0, 0, 0) + (c["nccl_seq"],) + index({"call": c["call"]})
                           for c in colls),
         bag(true(r, 1) + (r["seq"],) + index(r) for r in told))
    same("sends and receives", bag(what(c, 0, 0, 0) + index({"call": c["call"]}) for c in p2ps),
         bag(true(r, 1) + index(r) for r in truth if r["func"] in ("Send", "Recv") and v > 0))
    if v == 0:
        same("launches", sum(l["n_ops"] for l in launches), len(truth))
        same("identity", len(set(c["hash"] for c in comms)), len(comms))
        return
    if v < 5:  # our own count, in the plan's order: each index once
        for comm in set(c["comm"] for c in colls):
            mine = sorted(c["call"] for c in colls if c["comm"] == comm)
            same("own count", mine, list(range(len(mine))))
        if calls_known:  # the call and its operation have one identity
            same("calls of operations", sorted((c["comm"], c["call"], c["aux"]) for c in calls),
                 sorted((c["comm"], c["call"], c["aux"]) for c in colls + p2ps))
    for c in colls + p2ps:
        if v >= 7:
            same("tag", c["user_tag"], 1000 + next(
                r["call"] for r in truth if r["index"] == c["call"] and r["comm"] == key[c["comm"]]))
    # launches: every operation announced under one, and counted by it
    if calls_known:
        per = collections.Counter(c["launch"] for c in colls + p2ps)
        same("launch.n_ops", {l["launch"]: l["n_ops"] for l in launches}, dict(per))
    else:
        same("launches", launches, [])
    # where the communicators stood at the end: those that were never destroyed
    if end == "return":
        same("living communicators", sorted(states), [0])
        told = [c for c in colls + p2ps if c["comm"] == 0]
        same("state", [states[0][k] for k in ("called", "launched", "announced", "enqueued")],
             [len([r for r in truth if r["comm"] == key[0]]) if v >= 5 else len(told),
              len([l for l in launches if l["comm"] == 0]), len(told), len(told)])
    elif end != "abort":
        same("living communicators", states, {})
    # network work: both directions of every operation between the two nodes, under its call; a
    # program that ends without destroying its communicators does not wait for NCCL's thread
    if v >= 5:
        width = {(key[c["comm"]], c["call"]): c["n_channels"] for c in colls + p2ps}
        most = sum((1 if r["func"] in ("Send", "Recv") else 2) * width.get((r["comm"], r["index"]), 0)
                   for r in truth)
        ours = [o for o in ops if o["comm"] in key and o["n_steps"]]
        if len(ours) > most or (len(ours) < most and end in ("destroy", "again")):
            raise Wrong("%d proxy operations instead of %d" % (len(ours), most))
    ids = set((c["comm"], c["call"]) for c in colls + p2ps)
    for o in ops:
        if o["comm"] in key and o["n_steps"] and (o["comm"], o["call"]) not in ids:
            raise Wrong("network work of nobody: %r" % o)


def load_case(release, way):
    env, since, never = WAYS[way]
    works = number(release) >= since and release not in never
    works = works and (INTERFACE[release] > 0 or "LD_PRELOAD" in env)
    folder = tempfile.mkdtemp(prefix="hm-releases-")
    try:
        end = "return" if way == "bare" else "destroy"
        run(folder, release, env, [2, end])
        if not works:
            same("a run folder", os.path.exists(os.path.join(folder, "run")), False)
            return
        for rank in range(2):
            check_rank(folder, release, rank, end, "LD_PRELOAD" in env)
        seen = []
        for rank in range(2):
            with h5py.File(os.path.join(folder, "run", "rank-%05d.h5" % rank), "r") as f:
                seen.append([c["hash"] for c in table(f, "/def/comm")])
        same("hashes of the other rank", seen[0], seen[1])
    finally:
        shutil.rmtree(folder)


ODD = {  # name: (release, oddities, settings, program's arguments)
    "stale-handles": ("2.28.9", "stale", {"HINDMOST_KERNEL_CH": "1"}, [3, "destroy"]),
    "foreign-pointers": ("2.28.9", "pxn", {"HINDMOST_PROXY_STEPS": "1"}, [3, "destroy"]),
    "late-events": ("2.28.9", "late", {"HINDMOST_PROXY_STEPS": "1"}, [3, "destroy"]),
    "end-before-start": ("2.28.9", "reorder,stale", {"HINDMOST_KERNEL_CH": "1"}, [3, "destroy"]),
    "zero-stamps": ("2.28.9", "zero-stamps", {"HINDMOST_KERNEL_CH": "1"}, [3, "destroy"]),
    "kernel-channel-200": ("2.31.2", "high-channel", {"HINDMOST_KERNEL_PHASES": "1"},
                           [3, "destroy"]),
    "net-plugin": ("2.30.7", "net-plugin", {"HINDMOST_PROXY_STEPS": "1"}, [3, "destroy"]),
    "abort": ("2.28.9", "", {}, [3, "abort"]),
    "unload-and-reload": ("2.28.9", "", {}, [2, "again"]),
    "reload-of-a-file": ("2.30.7", "", {"LD_PRELOAD": "", "NCCL_PROFILER_PLUGIN": PATH},
                         [2, "again"]),
    "never-finalized": ("2.26.6", "", {}, [3, "return"]),
    "all-oddities-2.27": ("2.27.7", "stale,pxn,late,net-plugin", {"HINDMOST_PROXY_STEPS": "1"},
                          [3, "destroy"]),
    "steps-never-stopped": ("2.25.1", "stale,pxn,late", {"HINDMOST_PROXY_STEPS": "1"},
                            [3, "destroy"]),
    "kernels-2.23": ("2.23.4", "", {"HINDMOST_KERNELS": "1", "CUDA_INJECTION64_PATH": PATH},
                     [3, "destroy"]),
    "kernels-2.27": ("2.27.7", "", {"HINDMOST_KERNELS": "1", "CUDA_INJECTION64_PATH": PATH},
                     [3, "destroy"]),
    "kernels-2.28": ("2.28.9", "", {"HINDMOST_KERNELS": "1", "CUDA_INJECTION64_PATH": PATH},
                     [3, "destroy"]),
    "many-splits": ("2.28.9", "", {}, [1, "destroy", 300]),
}


def odd_case(name):
    release, with_, settings, args = ODD[name]
    folder = tempfile.mkdtemp(prefix="hm-releases-")
    env = dict(WAYS["preload"][0], **settings)
    try:
        run(folder, release, env, args, with_)
        for rank in range(2):
            check_rank(folder, release, rank, args[1], bool(env["LD_PRELOAD"]))
            with h5py.File(os.path.join(folder, "run", "rank-%05d.h5" % rank), "r") as f:
                channels, steps, nets, ops = (table(f, "/nccl/" + n) for n in (
                    "kernel_ch", "proxy_step", "net", "proxy_op"))
            truth = truth_of(folder, rank)
            if "pxn" in with_:
                foreign = [o for o in ops if o["comm"] == 0xffffffff]
                same("foreign network work is marked", bool(foreign) and all(
                    o["call"] == 0xffffffff and o["origin_pid"] > 0 for o in foreign), True)
            if "late" in with_:  # the finalized communicators' own, without a parent
                late = [o for o in ops if not o["n_steps"] and o["comm"] in (0, 1)]
                same("late ones", (len(late), set(o["call"] for o in late)), (2, {0xffffffff}))
            if name == "zero-stamps":
                same("some without a stamp", any(c["gpu_start"] == 0 for c in channels), True)
                same("some with", any(c["gpu_start"] for c in channels), True)
            if name == "kernel-channel-200":
                plain = [c for c in channels if not c["aux"]]
                same("channels", min(c["channel"] for c in plain), 200)
                same("phases", len(channels) - len(plain), 3 * len(plain))
                for c in channels:
                    same("stamps in order", c["gpu_start"] <= c["gpu_stop"] and c["gpu_start"] > 0,
                         True)
            if name == "net-plugin":
                same("network plugin", bool(nets) and all(n["id"] == 65537 for n in nets), True)
                numbers = set(o["proxy"] for o in ops)
                same("steps of known work", set(s["proxy"] for s in steps) <= numbers and
                     set(n["proxy"] for n in nets) <= numbers, True)
            if name.startswith("kernels"):  # each launch bears the id of exactly one kernel
                with h5py.File(os.path.join(folder, "run", "rank-%05d.h5" % rank), "r") as f:
                    ran = set(k["correlation"] for k in table(f, "/kernel"))
                    by = collections.Counter(a["external"] for a in table(f, "/api")
                                             if a["correlation"] in ran)
                    launches = [l["launch"] for l in table(f, "/nccl/launch")]
                same("kernels of launches", {l: by[l] for l in launches}, dict.fromkeys(launches, 1))
                same("launches", len(launches), len(set((r["comm"], r["plan"]) for r in truth)))
            if name == "many-splits":
                same("communicators", len(set(r["comm"] for r in truth)), 2)
    finally:
        shutil.rmtree(folder)


def hole_case(name):
    """Work of which NCCL tells the call alone, or the call and the copy engines' part."""
    release, with_ = {"hole-symmetric": ("2.28.9", "symmetric"),
                      "hole-copy-engine-2.28": ("2.28.9", "copy-engine"),
                      "copy-engine-2.30": ("2.30.7", "copy-engine")}[name]
    folder = tempfile.mkdtemp(prefix="hm-releases-")
    try:
        run(folder, release, WAYS["preload"][0], [3, "destroy"], with_)
        for rank in range(2):
            truth = truth_of(folder, rank)
            with h5py.File(os.path.join(folder, "run", "rank-%05d.h5" % rank), "r") as f:
                calls, colls, ce, parts, states = (table(f, "/nccl/" + n) for n in (
                    "call", "coll", "ce", "ce_part", "state"))
                key = ["%016x" % c["hash"] for c in table(f, "/def/comm")]
            same("calls", len(calls), len(truth))
            hidden = [r for r in truth if r["func"] == "AllGather" or
                      (with_ == "symmetric" and r["func"] not in ("Send", "Recv"))]
            if release == "2.30.7":
                hidden += [r for r in truth if r["func"] == "Broadcast"]
            gone = set((r["comm"], r["index"]) for r in hidden)
            same("operations", set((key[c["comm"]], c["call"]) for c in colls),
                 set((r["comm"], r["index"]) for r in truth
                     if r["func"] not in ("Send", "Recv")) - gone)
            grouped = 2 * 3 if with_ == "symmetric" else 0  # two in a group, a round
            same("unlaunched", sum(s["unlaunched"] for s in states), len(hidden) - grouped)
            gathers = [r for r in truth if r["func"] == "AllGather"]
            told = gathers if release == "2.30.7" else []
            same("copy engine", sorted((key[c["comm"]], c["call"], c["count"], c["aux"])
                                       for c in ce),
                 sorted((r["comm"], r["index"], r["count"], 2 | 8 << 8) for r in told))
            same("its parts", sorted((key[c["comm"]], c["call"], c["aux"], c["complete"])
                                     for c in parts),
                 sorted((r["comm"], r["index"]) + part for r in told
                        for part in ((1, 0), (2, 0), (1, 1))))
    finally:
        shutil.rmtree(folder)


def main():
    cases = [(r, w) for r in INTERFACE for w in WAYS
             if w in ("bare", "path", "preload") or r in ("2.25.1", "2.27.3", "2.28.9", "2.31.2")]
    todo = [("%s/%s" % c, load_case, c) for c in cases] + [(n, odd_case, (n,)) for n in ODD]
    todo += [(n, hole_case, (n,)) for n in ("hole-symmetric", "hole-copy-engine-2.28",
                                            "copy-engine-2.30")]
    wanted = sys.argv[3:]
    bad = 0
    for name, case, args in todo:
        if wanted and name not in wanted:
            continue
        try:
            case(*args)
            print("ok   " + name)
        except (Wrong, OSError, KeyError, StopIteration) as e:
            bad += 1
            print("FAIL %s: %s %s" % (name, type(e).__name__, e))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
