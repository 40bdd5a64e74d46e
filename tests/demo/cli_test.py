"""`hindmost demo` on the command line: every option once, wrong ones refused, truth.json is JSON.

Usage: cli_test.py HINDMOST
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

tool = sys.argv.pop(1)


def demo(*args):
    return subprocess.run([tool, "demo", *args], capture_output=True, text=True)


class Demo(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.run = os.path.join(self.top.name, "run")

    def truth(self, *args):
        done = demo(*args, "--steps", "12", "-o", self.run)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.run, "truth.json")) as f:
            return json.load(f)

    def test_mesh_sets_the_number_of_ranks(self):
        t = self.truth("--mesh", "dp=2,fsdp=1,pp=2,tp=1,ep=2", "--spin", "--persistent", "--proxy")
        self.assertEqual(t["ranks"], 8)
        self.assertEqual(t["mesh"], [["dp", 2], ["fsdp", 1], ["pp", 2], ["tp", 1], ["ep", 2]])
        self.assertEqual(t["verdict"]["status"], "none")
        self.assertEqual(len([f for f in os.listdir(self.run) if f.endswith(".h5")]), 8)

    def test_all_faults_at_once(self):
        t = self.truth(
            "--mesh", "dp=2,ep=2", "--node", "2", "--clocks", "probed", "--noise", "0.02", "--layers", "4",
            "--microbatches", "2", "--sync-every", "3", "--seed", "7",
            "--slow-gpu", "0:1.1", "--slow-input", "1:2@3", "--late-launch", "2:1", "--more-work", "3:1.2",
            "--pauses", "all:1", "--routing", "1:1.5", "--slow-link", "2:1.5", "--slow-node", "1:1.05",
            "--allocator", "0:3", "--checkpoint", "0:30", "--rotate", "1.1@2", "--clock-offset", "2:-40@5",
            "--clock-drift", "2:3.5", "--lost", "3:0.1", "--missing", "1")  # fmt: skip
        self.assertEqual(len(t["faults"]), 15)
        self.assertEqual(t["faults"][1]["from_step"], 3)
        self.assertLess(t["repaired_ns"], t["total_ns"])
        self.assertFalse(os.path.exists(os.path.join(self.run, "rank-00001.h5")))

    def test_two_worlds(self):
        t = self.truth("--mesh", "dp=2", "--worlds", "2", "--slow-gpu", "3:1.5")
        self.assertEqual((t["ranks"], t["worlds"]), (4, 2))
        self.assertEqual(t["verdict"]["subject"], {"kind": "device", "ids": [3]})

    def test_hang_and_mismatch(self):
        t = self.truth("--ranks", "3", "--hang", "1@5", "--restart", "4")
        self.assertEqual(t["verdict"]["status"], "hang")
        self.assertEqual(t["verdict"]["subject"]["ids"], [1])
        self.assertTrue(os.path.exists(os.path.join(self.run, "rank-00000.1.h5")))

    def test_mistakes(self):
        for args, word in [
            (["--mesh", "dp=2,dp=2"], "--mesh"),
            (["--mesh", "xx=2"], "--mesh"),
            (["--mesh", "dp=2,"], "--mesh"),
            (["--mesh", "dp=-2"], "--mesh"),
            (["--ranks", "4", "--mesh", "dp=3"], "mesh"),
            (["--slow-gpu", "1"], "R:VALUE"),
            (["--slow-gpu", "1:x"], "R:VALUE"),
            (["--slow-gpu", "1:1.2@"], "R:VALUE"),
            (["--slow-gpu", "-1:1.2"], "R:VALUE"),
            (["--slow-gpu", "all:1.2"], "slow_gpu"),
            (["--hang", "1"], "R@STEP"),
            (["--hang", "1@99"], "step 99"),
            (["--missing", "1,x"], "--missing"),
            (["--slow-node", "1:1.2"], "node"),
            (["--noise", "2"], "--noise"),
            (["--only", "9"], "--only"),
            (["--worlds", "3"], "worlds"),
            (["--mesh", "pp=4", "--microbatches", "2"], "microbatches"),
        ]:
            done = demo(*args, "--steps", "3", "-o", self.run)
            self.assertEqual(done.returncode, 64, args)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertFalse(os.path.exists(self.run), args)


unittest.main()
