"""JSON reports of all kinds of runs against docs/report.schema.json; every null with its reason; sums.

usage: schema_test.py HINDMOST SOURCE_DIR. 77 = python3-jsonschema is not installed.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

HINDMOST, SOURCE = os.path.abspath(sys.argv[1]), sys.argv[2]
RUNS = {
    "healthy": ("--ranks", "4"), "gpu": ("--ranks", "4", "--slow-gpu", "1:1.3"), "input": ("--ranks", "4", "--slow-input", "2:9@15"),
    "rotate": ("--ranks", "4", "--rotate", "1.3"), "hang": ("--ranks", "4", "--hang", "3@20"),
    "mismatch": ("--ranks", "4", "--mismatch", "2@20"), "missing": ("--ranks", "4", "--missing", "1"),
    "unprobed": ("--ranks", "4", "--node", "2", "--clocks", "unprobed"), "pipeline": ("--mesh", "dp=2,pp=2", "--slow-gpu", "3:1.3"),
    "few": ("--ranks", "4", "--steps", "3"), "one": ("--ranks", "1"), "lossy": ("--ranks", "4", "--lost", "2:0.3"),
}
wrong = []


def whys(node, path):
    if isinstance(node, dict):
        for key, value in node.items():
            if value is None and not isinstance(node.get(key + "_why"), str):
                wrong.append(f"{path}.{key} is null without a reason")
            whys(value, f"{path}.{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            if value is not None:
                whys(value, f"{path}[{i}]")


def check(validator, name, *args):
    p = subprocess.run([HINDMOST, "report", *args], capture_output=True, text=True, timeout=120)
    if p.returncode:
        wrong.append(f"{name}: exit {p.returncode}: {p.stderr}")
        return
    for bad in ("NaN", "Infinity", "nan", "inf,"):
        if f": {bad}" in p.stdout:
            wrong.append(f"{name}: {bad}")
    report = json.loads(p.stdout)
    wrong.extend(f"{name}: {e.json_path}: {e.message}" for e in list(validator.iter_errors(report))[:3])
    whys(report, name)
    for r in report["ranks"]:
        if r["compute_ns"] + r["exposed_comm_ns"] + r["memcpy_ns"] + r["idle_ns"] != r["window_ns"]:
            wrong.append(f"{name}: rank {r['rank']}: parts do not sum to the window")
    first = report["findings"][0] if report["findings"] else None
    if report["verdict"]["status"] not in ("none", "undecided", "insufficient") and report["verdict"] != first:
        wrong.append(f"{name}: the verdict is not the first finding")


def main():
    with open(SOURCE + "/docs/report.schema.json", encoding="utf-8") as f:
        schema = json.load(f)
    validator = jsonschema.Draft7Validator(schema)
    with tempfile.TemporaryDirectory() as tmp:
        for name, args in RUNS.items():
            run = f"{tmp}/{name}"
            done = subprocess.run([HINDMOST, "demo", *(("--steps", "30") if "--steps" not in args else ()), "--seed", "5", *args, "-o", run],
                                  capture_output=True, text=True, timeout=120)
            if done.returncode:
                wrong.append(f"{name}: {done.stderr}")
                continue
            check(validator, name, run, "--json=full")
        check(validator, "selected", tmp + "/gpu", "--json=full", "--steps", "3..20", "--ranks", "0,2")
        line = {"header": {"id": "0x1", "comm_name": "", "rank": 0, "n_ranks": 2, "nnodes": 1}, "metadata": {"hostname": "h", "pid": 1},
                "coll_perf": {"coll": "AllReduce", "coll_sn": 0, "coll_msg_size_bytes": 8, "coll_exec_time_us": 5}}
        with open(tmp + "/i.jsonl", "w") as f:
            f.write(json.dumps(line) + "\n")
        check(validator, "inspector", tmp + "/i.jsonl", "--json=full")
        with open(tmp + "/k.json", "w") as f:
            json.dump({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 7}]}, f)
        check(validator, "kineto", tmp + "/k.json", "--json=full")
    print("\n".join(wrong[:20]) or f"{len(RUNS) + 3} reports are valid")
    return 1 if wrong else 0


sys.exit(main())
