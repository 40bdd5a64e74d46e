"""Made-up Kineto traces: exact times, names of files, process groups, bad files.

usage: kineto_test.py HINDMOST. 77 = no h5py.
"""
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError:
    print("skipped: python3-h5py is not installed")
    sys.exit(77)

HINDMOST = sys.argv[1]
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
wrong = []


def same(what, got, want):
    if got != want:
        wrong.append(f"{what}: got {got!r}, expected {want!r}")


def hindmost(*args):
    p = subprocess.run([HINDMOST, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p.returncode, p.stdout, p.stderr


def event(cat, name, ts, dur, pid, tid, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid,
            "args": args}


def kernel(name, ts, dur, correlation, device, stream=7, **args):
    return event("kernel", name, ts, dur, device, stream, device=device, context=1, stream=stream,
                 correlation=correlation, grid=[4, 2, 1], block=[128, 1, 1], **args)


def launch(ts, correlation):
    return event("cuda_runtime", "cudaLaunchKernel", ts, 5, 77, 88, correlation=correlation)


def trace(events, **head):
    return {"schemaVersion": 1, **head, "traceEvents": events}


def write(path, text):
    with open(path, "w") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))
    return path


def column(f, table, name):
    v = f[table][name][:]
    return np.cumsum(v, dtype=v.dtype) if name in ("t", "correlation", "step") else v


def exact_times(tmp):
    """Decimals that a double cannot hold next to a wall clock."""
    times = ["1694128201426556.001", "1694128201426556.9994", "1694128201426557.0006",
             "1.694128201426558003e15", "1694128201426559", "-5", "99999999999999999999", "1e400",
             '"soon"']
    want = [1694128201426556001, 1694128201426556999, 1694128201426557001, 1694128201426558003,
            1694128201426559000]
    events = ", ".join(
        f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 3, "tid": 7, "ts": {t}, "dur": 0.5,'
        f' "args": {{"device": 3, "stream": 7, "correlation": {i}}}}}'
        for i, t in enumerate(times))
    a = write(tmp + "/x_rank3.json", '{"traceEvents": [%s,], "occupancy": nan}' % events)
    same("exact: exit", hindmost("import", "kineto", a, "-o", tmp + "/exact")[0], 0)
    with h5py.File(tmp + "/exact/rank-00003.h5") as f:
        same("exact: times", [int(v) for v in column(f, "kernel", "t")], want)
        same("exact: durations", [int(v) for v in f["kernel/dur"]], [500] * 5)
        same("exact: rank", int(f["meta"].attrs["rank"]), 3)
    out = json.loads(hindmost("info", "--json", tmp + "/exact")[1])
    same("exact: times that are none", out["ranks"][0]["lost"]["cupti_bad_time"], 4)


def base_time(tmp):
    head = {"baseTimeNanoseconds": 1700000000000000000, "distributedInfo": {"rank": 0,
                                                                           "world_size": 2}}
    events = [kernel("k", 12.5, 2, 1, 0), event("user_annotation", "ProfilerStep#42", 10, 20, 9, 9)]
    path = tmp + "/t_9.5.pt.trace.json.gz"
    with gzip.open(path, "wt") as f:
        json.dump(trace(events, **head), f)
    same("base: exit", hindmost("import", "kineto", path, "-o", tmp + "/base")[0], 0)
    with h5py.File(tmp + "/base/rank-00000.h5") as f:
        same("base: time", int(f["kernel/t"][0]), 1700000000000012500)
        same("base: marks", list(column(f, "step", "step")), [42, 42])
        same("base: mark times", [int(v) for v in column(f, "step", "t")],
             [1700000000000010000, 1700000000000030000])
        same("base: ranks", int(f["meta"].attrs["n_ranks"]), 2)
        same("base: host of torch's file name", f["meta"].attrs["host"].decode(), "t")
        same("base: source", f["meta"].attrs["source"].decode(), "kineto")


def groups(tmp):
    """Two groups on two streams whose kernels interleave another way on each rank: order on the
    stream alone would still pair them, the communicators must be told apart by name."""
    files = []
    for rank in range(4):
        group = {"Group size": 2, "Process Group Name": f"tp{rank // 2}",
                 "Process Group Ranks": f"[{rank // 2 * 2}, {rank // 2 * 2 + 1}]", "dtype": "Float"}
        world = {"Group size": 4, "Process Group Name": "default_pg",
                 "Process Group Ranks": "[0, 1, 2, 3]", "dtype": "BFloat16"}
        ev = []
        for i in range(3):
            t = 1000 * i
            ev += [launch(t, 10 * i + 1), launch(t + 20, 10 * i + 2),
                   kernel(NCCL, t + 100 + 10 * rank, 200 - 10 * rank, 10 * i + 1, rank, 20, Seq=i,
                          **{"Collective name": "allreduce", "In msg nelems": 1000 + i,
                             "Out msg nelems": 1000 + i}, **group),
                   kernel(GATHER, t + 90 + 5 * rank, 300 - 5 * rank, 10 * i + 2, rank, 24, Seq=i,
                          **{"Collective name": "_allgather_base", "In msg nelems": 64,
                             "Out msg nelems": 256}, **world)]
        files.append(write(f"{tmp}/g{rank}.json", trace(ev, distributedInfo={
            "rank": rank, "world_size": 4})))
    same("groups: exit", hindmost("import", "kineto", *files, "-o", tmp + "/groups")[0], 0)
    with h5py.File(tmp + "/groups/rank-00001.h5") as f:
        coll = f["nccl/coll"]
        order = np.argsort(column(f, "nccl/coll", "t"), kind="stable")
        same("groups: counts", [int(coll["count"][i]) for i in order],
             [1000, 64, 1001, 64, 1002, 64])
        # at the call that launched the kernel
        same("groups: times", [int(column(f, "nccl/coll", "t")[i]) for i in order],
             [0, 20000, 1000000, 1020000, 2000000, 2020000])
        same("groups: members", sorted((int(a), int(b)) for a, b in zip(
            f["def/comm/crank"][:], f["def/comm/n_ranks"][:])), [(1, 2), (1, 4)])
    code, out, err = hindmost("report", "--json=full", tmp + "/groups")
    same("groups: report", code, 0)
    if code:
        wrong.append(err)
        return
    got = sorted((c["func"], c["seq"], tuple(c["ranks"]), c["bytes"], c["skew_ns"], c["last_rank"])
                 for c in json.loads(out)["collectives"])
    want = [("AllGather", i, (0, 1, 2, 3), 64 * 2 * 4, 15000, 3) for i in range(3)]
    want += [("AllReduce", i, pair, (1000 + i) * 4, 10000, pair[1])
             for i in range(3) for pair in ((0, 1), (2, 3))]
    same("groups: collectives", got, sorted(want))


def ranks_and_hosts(tmp):
    """Without distributedInfo: digits of the names; a device that comes again is another host."""
    files = [write(f"{tmp}/trace_{r}.json", trace([kernel("k", 5, 1, 1, r % 2)])) for r in (3, 0, 2, 1)]
    same("names: exit", hindmost("import", "kineto", *files, "-o", tmp + "/names")[0], 0)
    info = json.loads(hindmost("info", "--json", tmp + "/names")[1])
    same("names: hosts", [(r["rank"], r["host"]) for r in info["ranks"]],
         [(0, "host0"), (1, "host0"), (2, "host1"), (3, "host1")])


def damaged_among_good(tmp):
    """In a folder what can be used is used, and the report says that a rank is missing."""
    folder = tmp + "/folder"
    os.mkdir(folder)
    for rank in range(3):
        text = json.dumps(trace([kernel("k", 5, 1, 1, rank)] * 20,
                                distributedInfo={"rank": rank, "world_size": 3}))
        write(f"{folder}/r{rank}.json", text[:len(text) // 2] if rank == 1 else text)
    write(folder + "/other.json", '{"a": 1}')
    code, out, err = hindmost("report", "--json", folder)
    same("folder: exit", code, 0)
    same("folder: the bad file is named", "r1.json: cut off" in err, True)
    quality = json.loads(out)["quality"]
    same("folder: quality", (quality["grade"], quality["ranks_present"],
                             quality["ranks_expected"]), ("limited", 2, 3))
    os.remove(folder + "/r0.json")
    os.remove(folder + "/r2.json")
    same("folder: nothing left", hindmost("report", folder)[0], 65)
    os.remove(folder + "/r1.json")
    same("folder: no trace", hindmost("import", "kineto", folder, "-o", tmp + "/bad")[0], 66)


def bad_files(tmp):
    good = write(tmp + "/good.json", trace([kernel("k", 5, 1, 1, 0)], distributedInfo={
        "rank": 0, "world_size": 2}))
    text = open(good).read()
    cases = {"half": text[:len(text) // 2], "empty": "", "array": "[]", "number": "5",
             "object": "{}", "nothing": '{"traceEvents": []}', "deep": "[" * 100000,
             "brace": text[:-1], "behind": text + "x", "comma": text.replace(",", "", 1),
             "base": text.replace('"schemaVersion"', '"baseTimeNanoseconds": -99999, "x"')}
    for name, bad in cases.items():
        path = write(f"{tmp}/bad_{name}.json", bad)
        for files in ((path,), (good, path)):
            code, out, err = hindmost("import", "kineto", *files, "-o", tmp + "/bad")
            same(f"{name}: exit", code, 65)
            same(f"{name}: lines", (out, len(err.splitlines())), ("", 1))
            same(f"{name}: names the file", path in err, True)
            same(f"{name}: left behind", os.path.exists(tmp + "/bad"), False)
    half = tmp + "/half.json.gz"
    with open(half, "wb") as f:
        packed = gzip.compress(text.encode() * 50)
        f.write(packed[:len(packed) // 2])
    same("half gzip", hindmost("import", "kineto", half, "-o", tmp + "/bad")[0], 65)
    same("no file", hindmost("import", "kineto", tmp + "/none", "-o", tmp + "/bad")[0], 65)
    same("one rank twice", hindmost("import", "kineto", good, good, "-o", tmp + "/bad")[0], 65)
    same("no output", hindmost("import", "kineto", good)[0], 64)
    same("no format", hindmost("import", good, "-o", tmp + "/bad")[0], 64)
    same("left behind", os.path.exists(tmp + "/bad"), False)
    same("first time", hindmost("import", "kineto", good, "-o", tmp + "/twice")[0], 0)
    before = os.listdir(tmp + "/twice")
    same("exists", hindmost("import", "kineto", good, "-o", tmp + "/twice")[0], 65)
    same("exists: untouched", os.listdir(tmp + "/twice"), before)


def mutations(tmp):
    """Bytes changed at random: an answer or 65 with a line, never a signal, never a hang."""
    events = [e for k in range(1, 30) for e in
              (launch(1000 * k, k), kernel(NCCL if k % 3 == 0 else "k", 1000 * k + 9, 50, k, 0,
               **({"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float", "Group size": 2,
                   "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": k} if k % 3 == 0 else {})),
               event("user_annotation", f"ProfilerStep#{k}", 1000 * k - 5, 900, 77, 88))]
    text = json.dumps(trace(events, distributedInfo={"rank": 0, "world_size": 2})).encode()
    rng = random.Random(20261203)
    for turn in range(60):
        data = bytearray(text)
        for _ in range(rng.choice((1, 5, 50))):
            at, how = rng.randrange(len(data)), rng.randrange(4)
            if how == 0:
                data[at] = rng.randrange(256)
            elif how == 1:
                del data[at:at + rng.choice((1, 10, 400))]
            elif how == 2:
                data[at:at] = data[at:at + rng.choice((1, 10, 400))]
            else:
                data[at:at + 1] = b"9223372036854775807"
        path = tmp + "/mutated.json"
        with open(path, "wb") as f:
            f.write(data)
        for command in (("report", path, "--json"), ("merge", path, "-o", tmp + "/mutated-out.json")):
            code, _, err = hindmost(*command)
            if code not in (0, 65) or "runtime error" in err or "Sanitizer" in err:
                wrong.append(f"mutation {turn}, {command[0]}: exit {code}: {err[:400]}")


def merge_folder(tmp):
    """merge takes a folder of traces as report does."""
    d = tmp + "/to-merge"
    os.mkdir(d)
    for rank in (0, 1):
        write(f"{d}/rank{rank}.json", trace([launch(10, 1), kernel("k", 20, 30 + rank, 1, 0), launch(100, 2), kernel("k", 120, 5, 2, 0)]))
    code, _, _ = hindmost("merge", d, "-o", tmp + "/merged.json")
    same("merge of a folder", code, 0)
    with open(tmp + "/merged.json") as f:
        events = json.load(f)["traceEvents"]
    got = sorted((e["pid"], e["dur"]) for e in events if e.get("cat") == "kernel")
    same("kernels of the merged ranks", got, [(1, 5), (1, 30), (2, 5), (2, 31)])
    same("nothing beside", sorted(os.listdir(d)), ["rank0.json", "rank1.json"])


with tempfile.TemporaryDirectory() as folder:
    for test in (exact_times, base_time, groups, ranks_and_hosts, damaged_among_good,
                 bad_files, merge_folder, mutations):
        test(folder)
print("\n".join(wrong[:20]) or "all as expected")
sys.exit(1 if wrong else 0)
