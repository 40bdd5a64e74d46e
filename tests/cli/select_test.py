"""--steps and --ranks: what is analysed, what is shown, and that the report says so.

usage: select_test.py HINDMOST [unittest arguments]
"""
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

HINDMOST = os.path.abspath(sys.argv[1])


def hm(*args):
    return subprocess.run([HINDMOST, *args], capture_output=True, text=True, timeout=120)


class Select(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        cls.run_ = cls.top.name + "/run"
        # from step 30 on rank 2's input comes 20 ms late in every step
        done = hm("demo", "--ranks", "4", "--steps", "60", "--seed", "3", "--slow-input", "2:20@30", "-o", cls.run_)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def report(self, *args):
        done = hm("report", self.run_, *args, "--json=full")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_only_these_steps_are_analysed(self):
        before, after = self.report("--steps", "2..28"), self.report("--steps", "31..")
        self.assertEqual([s["step"] for s in before["step"]], list(range(2, 29)))
        self.assertEqual([s["step"] for s in after["step"]], list(range(31, 60)))
        self.assertEqual(before["verdict"]["status"], "none")
        self.assertEqual(after["verdict"]["subject"]["ids"], [2])
        self.assertEqual(after["verdict"]["cause"], "input")
        # 20 ms in each of 29 steps, of which the replay may find a little less
        self.assertAlmostEqual(after["verdict"]["gain_ns"], 29 * 20e6, delta=0.02 * 29 * 20e6)
        self.assertEqual(before["selection"], {"first_step": 2, "last_step": 28})
        self.assertEqual(before["steps"]["n_skipped"], 0)  # the warm-up step is not among them
        self.assertNotIn("selection", self.report())

    def test_sums_add_up(self):
        whole = self.report("--steps", "1..")
        parts = [self.report("--steps", f"{a}..{b}") for a, b in ((1, 17), (18, 18), (19, 59))]
        for r in range(4):
            for key in ("window_ns", "compute_ns", "idle_ns", "stall_ns", "last_arrivals"):
                self.assertEqual(sum(p["ranks"][r][key] for p in parts), whole["ranks"][r][key], key)
        self.assertEqual(sum(len(p["collectives"]) for p in parts), len(whole["collectives"]))

    def test_only_these_ranks_are_shown(self):
        some, whole = self.report("--ranks", "0,2..3"), self.report()
        self.assertEqual(some["ranks"], [whole["ranks"][i] for i in (0, 2, 3)])
        self.assertEqual(some["verdict"], whole["verdict"])
        self.assertEqual(some["ledger"], whole["ledger"])
        self.assertEqual(some["selection"], {"ranks": [0, 2, 3]})
        rows = list(csv.DictReader(io.StringIO(hm("report", self.run_, "--ranks", "1", "--csv", "ranks").stdout)))
        self.assertEqual([r["rank"] for r in rows], ["1"])

    def test_the_report_says_so(self):
        for form in ((), ("--md",)):
            text = hm("report", self.run_, "--steps", "10..20", "--ranks", "1,3", *form).stdout
            self.assertIn("only steps 10 to 20 are analysed", text)
            self.assertIn("only ranks 1,3 are shown; all were analysed", text)
        self.assertIn("only steps 10 to the end", hm("report", self.run_, "--steps", "10..").stdout)

    def test_what_is_not_there(self):
        for args, word in ((("--steps", "60..70"), "the run has 0..59"), (("--ranks", "4"), "rank 4"),
                           (("--ranks", "9-12"), "9..12"), (("--steps", "9..3"), "A..B"), (("--steps", "x"), "A..B"),
                           (("--steps", ""), "A..B"), (("--steps", "1..2..3"), "A..B"), (("--ranks", ",1"), "0,3"),
                           (("--ranks", "1,"), "0,3"), (("--ranks", "99999999999999999999"), "0,3")):
            done = hm("report", self.run_, *args)
            self.assertEqual((done.returncode, done.stdout), (64, ""), args)
            self.assertIn(word, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)


unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[2:])
