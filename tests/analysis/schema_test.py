"""Checks reports against docs/report.schema.json, and sums that a schema cannot express.

usage: schema_test.py SCHEMA PROGRAM: PROGRAM (analysis_report) writes reports into $HM_TEST_OUT.
Exit 77: python3-jsonschema is not installed.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)


def whys(node, path=""):
    """Every null in an object has its reason beside it."""
    if isinstance(node, dict):
        for key, value in node.items():
            if value is None:
                assert isinstance(node.get(key + "_why"), str), f"{path}.{key} is null without a reason"
            whys(value, f"{path}.{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            if value is not None:
                whys(value, f"{path}[{i}]")


def main(schema_path, program):
    schema = json.loads(pathlib.Path(schema_path).read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "-j1"], env={**os.environ, "HM_TEST_OUT": folder}, check=True,
                       stderr=subprocess.DEVNULL)
        reports = sorted(pathlib.Path(folder).glob("*.json"))
        assert len(reports) == 4, reports
        for path in reports:
            report = json.loads(path.read_text())
            errors = [f"{path.name}: {e.json_path}: {e.message}" for e in validator.iter_errors(report)]
            assert not errors, "\n".join(errors)
            whys(report)
            n = len(report["ranks"])
            assert sum(e["ns"] for e in report["ledger"]) == sum(r["window_ns"] for r in report["ranks"]) // n
            for r in report["ranks"]:
                assert r["compute_ns"] + r["exposed_comm_ns"] + r["memcpy_ns"] + r["idle_ns"] == r["window_ns"]
        # the schema can say no
        report["verdict"]["status"] = "guilty"
        assert list(validator.iter_errors(report))
    print(f"{len(reports)} reports are valid")


main(*sys.argv[1:])
