"""The rules that readers of Chrome traces impose, as checks on a trace of ours.

python3 trace_rules.py TRACE  prints what is wrong and exits 1. Source: how Perfetto's importer,
catapult's and Python's json treat phases, times, flows and pids.
"""

import collections
import gzip
import json
import re
import sys
from decimal import Decimal


def load_text(path):
    with open(path, "rb") as f:
        raw = f.read()
    return (gzip.decompress(raw) if path.endswith(".gz") else raw).decode("utf-8")


def no_constant(text):
    raise ValueError("not JSON: " + text)


def load(path):
    """Strict JSON; times as exact decimals."""
    return json.loads(load_text(path), parse_float=Decimal, parse_constant=no_constant)


def ns(us):
    return int((Decimal(us) * 1000).to_integral_value())


def check_shape(trace, text, wrong):
    for key in ("traceEvents", "displayTimeUnit", "baseTimeNanoseconds", "metadata"):
        if key not in trace:
            wrong.append("no " + key)
    for us in re.findall(r'"(?:ts|dur)":([^,}]*)', text):
        # on the grid a double holds exactly, and unmistakable when rounded to ns
        if not re.fullmatch(r"-?\d+\.(\d{3}|\d{12})", us) or Decimal(us) * 4096 % 1:
            wrong.append("time not on the grid of 2^-12 us: " + us)
        elif abs(Decimal(us) * 1000 - ns(us)) > Decimal("0.25"):
            wrong.append("time between two ns: " + us)
    for e in trace["traceEvents"]:
        if e["ph"] not in "XsfiCM":
            wrong.append("phase " + e["ph"])
        if not (0 < e["pid"] < 2**32 and 0 <= e["tid"] < 2**32):
            wrong.append("pid or tid out of range: %r" % e)
        if e["ph"] == "X" and (e["dur"] < 0 or e["ts"] < 0):
            wrong.append("negative time: %r" % e)
        if e["ph"] == "X" and not e["name"]:
            wrong.append("no name: %r" % e)


def check_names(trace, wrong):
    names = collections.Counter()
    used = set()
    for e in trace["traceEvents"]:
        if e["ph"] == "M":
            names[(e["name"], e["pid"], e["tid"])] += 1
        elif e["tid"]:
            used.add((e["pid"], e["tid"]))
    for pid, tid in used:
        if names[("thread_name", pid, tid)] != 1:
            wrong.append("track %d/%d is named %d times" % (pid, tid, names[("thread_name", pid, tid)]))
        if names[("process_name", pid, 0)] != 1:
            wrong.append("process %d is not named once" % pid)


def tracks(trace):
    out = collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            out[(e["pid"], e["tid"])].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e))
    return out


def check_nesting(trace, wrong):
    for key, slices in tracks(trace).items():
        stack = []
        for t, end, e in sorted(slices, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1][1] <= t:
                stack.pop()
            if stack and stack[-1][1] < end:
                wrong.append("%r: %r overlaps %r" % (key, e["name"], stack[-1][2]["name"]))
            stack.append((t, end, e))


def check_doubles(trace, wrong):
    """As readers do it that add in doubles: slices that touch must touch there too."""
    for key, slices in tracks(trace).items():
        ends = {end: float(e["ts"]) + float(e["dur"]) for _, end, e in slices}
        for t, _, e in slices:
            if t in ends and ends[t] != float(e["ts"]):
                wrong.append("%r: %r does not touch the one before in doubles" % (key, e["name"]))


def check_flows(trace, wrong):
    begun, ended = {}, {}
    slices = tracks(trace)
    for i, e in enumerate(trace["traceEvents"]):
        if e["ph"] not in "sf":
            continue
        here = begun if e["ph"] == "s" else ended
        if e["id"] in here:
            wrong.append("flow id twice: " + e["id"])
        here[e["id"]] = e
        if not re.fullmatch(r"0x[0-9a-f]{16}", e["id"]):
            wrong.append("flow id " + e["id"])
        t = ns(e["ts"])
        if not any(a <= t <= b for a, b, _ in slices[(e["pid"], e["tid"])]):
            wrong.append("flow on no slice: %r" % e)
        if e["ph"] == "f" and e["id"] not in begun:
            wrong.append("f before its s in the file: " + e["id"])
        if e["ph"] == "f" and e.get("bp") != "e":
            wrong.append("f without bp e")
    if set(begun) != set(ended):
        wrong.append("%d arrows begin, %d end" % (len(begun), len(ended)))
    for i in set(begun) & set(ended):
        if ns(begun[i]["ts"]) > ns(ended[i]["ts"]):
            wrong.append("arrow into the past: " + i)
        if begun[i]["pid"] == ended[i]["pid"]:
            wrong.append("arrow within a rank: " + i)


def problems(path):
    wrong = []
    text = load_text(path)
    trace = json.loads(text, parse_float=Decimal, parse_constant=no_constant)
    check_shape(trace, text, wrong)
    check_names(trace, wrong)
    check_nesting(trace, wrong)
    check_doubles(trace, wrong)
    check_flows(trace, wrong)
    return wrong


if __name__ == "__main__":
    found = problems(sys.argv[1])
    for line in found[:20]:
        print(line)
    sys.exit(1 if found else 0)
