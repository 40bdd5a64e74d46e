"""hindmost diff: slower, faster, the same, undecided; where the difference lies.

usage: diff_test.py HINDMOST [unittest arguments]
What differs between the runs is what the demo was told.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

HINDMOST = os.path.abspath(sys.argv[1])


def hm(*args):
    return subprocess.run([HINDMOST, *args], capture_output=True, text=True, timeout=120)


class Diff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        for name, args in (("a", ()), ("again", ()), ("gpu", ("--slow-gpu", "1:1.2")), ("few", ())):
            done = hm("demo", "--ranks", "4", "--steps", "6" if name == "few" else "40", "--seed",
                      "4" if name == "again" else "3", *args, "-o", f"{cls.top.name}/{name}")
            assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def diff(self, a, b):
        done = hm("diff", f"{self.top.name}/{a}", f"{self.top.name}/{b}", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_slower_and_where(self):
        d = self.diff("a", "gpu")
        self.assertEqual(d["status"], "slower")
        # all 39 step times of one run above all of the other: z = (n m / 2 - 1/2) / sqrt(n m (n + m + 1) / 12)
        z = (39 * 39 / 2 - 0.5) / math.sqrt(39 * 39 * 79 / 12)
        self.assertAlmostEqual(math.log(d["p_value"]), math.log(math.erfc(z / math.sqrt(2))), delta=0.01)
        for side, ids in (("a", []), ("b", [1])):
            report = json.loads(hm("report", d[side]["run"], "--json").stdout)
            self.assertEqual(d["step_median"][side + "_ns"], report["steps"]["median_ns"])
            self.assertEqual(d[side]["verdict"]["ids"], ids)
            self.assertEqual(d[side]["verdict"]["text"], report["verdict"]["text"])
            for row, want in zip(d["ledger"], report["ledger"], strict=True):
                self.assertEqual((row["key"], row[side + "_ns"]), (want["kind"], int(want["ns"] / 39)))
        # one of four ranks computes 1.2 times as long: that is the straggler's, the rest is as before
        compute = next(r for r in d["ledger"] if r["key"] == "compute")
        self.assertAlmostEqual(compute["change_frac"], 0, delta=0.003)
        straggler = next(r for r in d["ledger"] if r["key"] == "straggler")
        self.assertEqual(straggler["a_ns"], 0)
        self.assertAlmostEqual(straggler["b_ns"], 0.2 * compute["b_ns"], delta=0.01 * compute["b_ns"])
        for kernel in d["kernels"]:
            self.assertAlmostEqual(kernel["change_frac"], 0.05, delta=0.005)

    def test_the_other_way_round(self):
        there, back = self.diff("a", "gpu"), self.diff("gpu", "a")
        self.assertEqual(back["status"], "faster")
        self.assertEqual(there["step_median"]["change_ns"], -back["step_median"]["change_ns"])
        self.assertEqual(there["p_value"], back["p_value"])

    def test_the_same(self):
        self.assertEqual(self.diff("a", "a")["status"], "same")
        self.assertEqual(self.diff("a", "again")["status"], "same")  # other noise, same job
        self.assertTrue(all(r["change_ns"] == 0 for r in self.diff("a", "a")["ledger"]))

    def test_too_few_steps(self):
        d = self.diff("few", "gpu")
        self.assertEqual(d["status"], "undecided")
        self.assertIsNone(d["p_value"])
        self.assertIn("undecided", hm("diff", self.top.name + "/few", self.top.name + "/gpu").stdout)

    def test_text(self):
        text = hm("diff", self.top.name + "/a", self.top.name + "/gpu").stdout
        self.assertRegex(text, r"VERDICT   B is slower: [0-9.]+ -> [0-9.]+ ms a step \(median, \+[0-9.]+ %")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertRegex(text, r"held up by the ranks above +(-|0\.000) +4\.[0-9]+ +\+4\.[0-9]+")
        self.assertIn("none by 1 % or more", hm("diff", self.top.name + "/a", self.top.name + "/again").stdout)

    def test_bad_input(self):
        for args, code in (((), 64), (("a",), 64), (("a", "b", "c"), 64), ((self.top.name + "/a", "/missing"), 66),
                           (("/missing", self.top.name + "/a"), 66)):
            done = hm("diff", *args)
            self.assertEqual((done.returncode, done.stdout), (code, ""), args)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_traces_of_other_tools(self):
        def trace(name, factor):
            events = []
            for step in range(12):
                t = 1e6 + 1e4 * step
                events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": t, "dur": 9e3, "pid": 1, "tid": 1},
                           {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": t + 10, "dur": 5, "pid": 1, "tid": 1,
                            "args": {"correlation": step + 1}},
                           {"ph": "X", "cat": "kernel", "name": "k", "ts": t + 100, "dur": 1000 * factor, "pid": 0, "tid": 7,
                            "args": {"device": 0, "stream": 7, "correlation": step + 1, "grid": [1, 1, 1], "block": [1, 1, 1]}}]
            path = f"{self.top.name}/{name}.json"
            with open(path, "w") as f:
                json.dump({"schemaVersion": 1, "traceEvents": events}, f)
            return path
        done = hm("diff", trace("x", 1), trace("y", 3), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        d = json.loads(done.stdout)
        kernel, = d["kernels"]
        self.assertEqual((kernel["a_ns"], kernel["b_ns"]), (1000000, 3000000))
        self.assertTrue(re.search("x.json$", d["a"]["run"]))


unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[2:])
