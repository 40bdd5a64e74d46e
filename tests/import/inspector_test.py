"""Made-up JSON lines of NCCL's inspector plugin, formats v4.0 to v4.3: who came last by durations,
bandwidths of the plugin's own README, ranks, losses, hostile files.

usage: inspector_test.py HINDMOST
"""
import json
import os
import random
import subprocess
import sys
import tempfile

HINDMOST = sys.argv[1]
wrong = []


def same(what, got, want):
    if got != want:
        wrong.append(f"{what}: got {got!r}, expected {want!r}")


def hindmost(*args):
    p = subprocess.run([HINDMOST, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


def header(rank, n_ranks=4, comm="0x7f8c496ae9f661"):
    return {"id": comm, "comm_name": "unknown", "rank": rank, "n_ranks": n_ranks, "nnodes": 1}


def metadata(pid, host="node1", version="v4.2"):
    return {"inspector_output_format_version": version, "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": 1748030377748202, "hostname": host, "pid": pid}


def coll(sn, us, func="AllReduce", size=1 << 20):
    return {"coll": func, "coll_algo": "RING", "coll_proto": "SIMPLE", "coll_sn": sn, "coll_msg_size_bytes": size,
            "coll_exec_time_us": us, "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.5, "coll_busbw_gbs": 2.5}


def old(rank, pid, records, **more):
    """Up to v4.2: everything in every line."""
    return [{"header": header(rank, **more), "metadata": metadata(pid), "coll_perf": r} for r in records]


def new(rank, pid, records, dropped=0, **more):
    """v4.3: a marker, then the records."""
    return [{"header": header(rank, **more), "metadata": metadata(pid, version="v4.3"),
             "dump_stats": {"coll_records": len(records), "coll_dropped_total": dropped,
                            "coll_dropped_since_last_dump": dropped}}] + [{"coll_perf": r} for r in records]


def write(path, lines, tail=""):
    with open(path, "w") as f:
        f.write("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return path


def exec_us(rank, sn):
    """Rank 2 comes last in all but sn 5, where rank 0 does; the others wait 250, 310, 370 us longer."""
    last = 0 if sn == 5 else 2
    return 100 if rank == last else 100 + 250 + 60 * rank


def who_came_last(tmp):
    want_wait = {sn: [exec_us(r, sn) - 100 for r in range(4)] for sn in range(12)}
    for name, form in (("old", old), ("new", new)):
        folder = f"{tmp}/{name}"
        os.mkdir(folder)
        for rank in range(4):
            records = [coll(sn, exec_us(rank, sn)) for sn in range(12)]
            random.Random(rank).shuffle(records)
            write(f"{folder}/inspector-{100 + rank}.log", form(rank, 100 + rank, records))
        code, out, err = hindmost("report", "--json=full", folder)
        same(name, code, 0)
        same(f"{name}: said", ("durations alone" in err, len(err.splitlines())), (True, 1))
        report = json.loads(out)
        same(f"{name}: grade", report["quality"]["grade"], "limited")
        same(f"{name}: arrivals", report["quality"]["arrival_source"], "ptimer")
        colls = report["collectives"]
        same(f"{name}: seqs", [c["seq"] for c in colls], list(range(12)))
        for c in colls:
            same(f"{name}: waits of {c['seq']}", c["wait_ns"], [1000 * w for w in want_wait[c["seq"]]])
            same(f"{name}: last of {c['seq']}", c["last_rank"], 0 if c["seq"] == 5 else 2)
            same(f"{name}: core of {c['seq']}", c["core_ns"], 100000)
        same(f"{name}: last arrivals", [r["last_arrivals"] for r in report["ranks"]], [1, 0, 11, 0])
        same(f"{name}: findings", report["findings"], [])
        same(f"{name}: verdict", report["verdict"]["status"], "insufficient")
        # AllReduce of 1 MiB in 100 us, times 2 * 3 / 4
        same(f"{name}: busbw", round(report["ops"][0]["busbw_bps"] / 1e9, 3), 15.729)


def bandwidths_of_the_readme(tmp):
    lines = []
    for rank in range(8):
        lines += old(rank, 1000 + rank, [coll(1407, 61974 + 7 * (rank != 3), "AllReduce", 17179869184),
                                         coll(1408, 41057 + 9 * (rank != 1), "ReduceScatter", 2147483648)], n_ranks=8)
    code, out, _ = hindmost("report", "--json", write(tmp + "/readme.jsonl", lines))
    same("readme", code, 0)
    got = {o["func"]: round(o["busbw_bps"] / 1e9, 2) for o in json.loads(out)["ops"]}
    same("bandwidths", got, {"AllReduce": 485.12, "ReduceScatter": 366.13})


def ranks(tmp):
    """The rank in the widest communicator; several GPUs in a process are several ranks."""
    lines = []
    for rank in range(4):
        lines += old(rank // 2, 10 + rank, [coll(0, 50)], n_ranks=2, comm=f"0xaa{rank % 2}")
        lines += old(rank, 10 + rank, [coll(0, 60 + rank)])
    run = tmp + "/widest"
    same("widest", hindmost("import", "inspector", write(tmp + "/w.jsonl", lines), "-o", run)[0], 0)
    info = json.loads(hindmost("info", "--json", run)[1])
    same("ranks of the widest", [(r["rank"], r["events"]["kernel"]) for r in info["ranks"]], [(r, 2) for r in range(4)])
    report = json.loads(hindmost("report", "--json", run)[1])
    same("communicators", sorted(o["n_ranks"] for o in report["ops"]), [2, 2, 4])
    one = write(tmp + "/one.jsonl", [x for r in range(4) for x in old(r, 77, [coll(s, 10 + r) for s in range(3)])])
    report = json.loads(hindmost("report", "--json=full", one)[1])
    same("one process, four GPUs", [c["last_rank"] for c in report["collectives"]], [0, 0, 0])


def losses(tmp):
    """What a ring lost shifts nobody's sequence; it is counted, and no wait is made up."""
    lines = []
    for rank in range(4):
        records = [coll(sn, exec_us(rank, sn)) for sn in range(12) if not (rank == 1 and sn == 3)]
        lines += new(rank, 100 + rank, records, dropped=int(rank == 1))
    lines += [{"header": header(0), "metadata": metadata(100), "p2p_perf": {"p2p": "Send", "p2p_sn": 1}}]
    path = write(tmp + "/lossy.jsonl", lines, tail='{"coll_perf": {"coll": "AllRed')
    code, out, err = hindmost("report", "--json=full", path)
    same("lossy", code, 0)
    same("cut line is said", "cut off" in err, True)
    report = json.loads(out)
    same("lost", sum(report["quality"]["lost"].values()), 1)
    by_seq = {c["seq"]: c for c in report["collectives"]}
    same("after the hole", by_seq[4]["wait_ns"], [1000 * (exec_us(r, 4) - 100) for r in range(4)])
    same("the hole", by_seq[3]["wait_ns"][1], None)


def hostile(tmp):
    good = old(0, 1, [coll(0, 5)])
    huge = 2 ** 70
    cases = {
        "empty": "", "half": '{"header": {"id": "0x1", "rank"', "list": "[1, 2]", "deep": '{"header": ' + '{"a": ' * 1000,
        "no header": json.dumps({"coll_perf": coll(0, 5)}), "text times": json.dumps(dict(good[0], coll_perf=coll("x", "y"))),
        "negative": json.dumps(dict(good[0], coll_perf=coll(-1, -5))), "huge": json.dumps(dict(good[0], coll_perf=coll(huge, huge))),
        "rank beyond": json.dumps(dict(good[0], header=header(9))), "no colls": json.dumps(dict(good[0], coll_perf=None)),
        "noise behind": json.dumps(good[0]) + "\n}{",
    }
    for name, text in cases.items():
        path = f"{tmp}/{name}.jsonl"
        with open(path, "w") as f:
            f.write(text)
        code, _, err = hindmost("import", "inspector", path, "-o", tmp + "/refused")
        if code != 65 or len(err.strip().splitlines()) != 1:
            wrong.append(f"{name}: exit {code}: {err}")
        if os.path.exists(tmp + "/refused"):
            wrong.append(f"{name}: left a folder behind")
        same(f"report of {name}", hindmost("report", path)[0], 65)
    # long names and odd types among good lines
    odd = [dict(good[0], header=dict(header(0), id="y" * 5000, comm_name="\x1b[31m" * 999)), {"header": 5, "metadata": [], "coll_perf": "x"},
           7, None, "text", {"coll_perf": coll(2 ** 62, 7 * 86400 * 10 ** 6)}]
    code, _, err = hindmost("report", write(tmp + "/odd.jsonl", good + odd))
    same("odd lines", code, 0)


def mutations(tmp):
    text = "".join(json.dumps(x) + "\n" for r in range(3) for x in old(r, 50 + r, [coll(s, 10 + r + s) for s in range(20)], n_ranks=3)
                   + new(r, 50 + r, [coll(s, 10 + r + s) for s in range(20, 25)], n_ranks=3)).encode()
    rng = random.Random(20261202)
    for turn in range(80):
        data = bytearray(text)
        for _ in range(rng.choice((1, 5, 50))):
            at = rng.randrange(len(data))
            how = rng.randrange(4)
            if how == 0:
                data[at] = rng.randrange(256)
            elif how == 1:
                del data[at:at + rng.choice((1, 10, 400))]
            elif how == 2:
                data[at:at] = data[at:at + rng.choice((1, 10, 400))]
            else:
                data[at:at + 1] = b"99999999999999999999"
        path = tmp + "/mutated.jsonl"
        with open(path, "wb") as f:
            f.write(data)
        code, _, err = hindmost("report", "--json", path)
        if code not in (0, 65) or "runtime error" in err or "Sanitizer" in err:
            wrong.append(f"mutation {turn}: exit {code}: {err[:400]}")


def main():
    with tempfile.TemporaryDirectory() as tmp:
        os.environ["TMPDIR"] = tmp
        for test in (who_came_last, bandwidths_of_the_readme, ranks, losses, hostile, mutations):
            test(tmp)
        same("left behind", [n for n in os.listdir(tmp) if n.startswith("hindmost-")], [])
    print("\n".join(wrong[:20]) or "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
