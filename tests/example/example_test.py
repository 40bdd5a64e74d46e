"""The example trains: loss falls, weights agree on all ranks and in every repetition, any rank count.

usage: example_test.py DDP_TRAIN
"""
import os
import re
import subprocess
import sys
import unittest

TRAIN = sys.argv[1]
ENV = {k: v for k, v in os.environ.items() if not k.startswith("HINDMOST")}
ENV["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"


def train(n, *args):
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(n), TRAIN, *args],
                          capture_output=True, text=True, env=ENV, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    m = re.fullmatch(r"ddp-train: loss ([0-9.]+) -> ([0-9.]+) weights ([0-9a-f]{16})", lines[-1])
    assert m, lines
    assert lines[0].startswith("device: "), lines
    return float(m.group(1)), float(m.group(2)), m.group(3)


class Example(unittest.TestCase):
    def test_loss_falls_and_weights_repeat(self):
        for n in (1, 2, 4):
            first, last, weights = train(n)
            self.assertLess(last, 0.7 * first)
            self.assertEqual(train(n)[2], weights)

    def test_faults_do_not_change_the_result(self):
        self.assertEqual(train(2, "--steps", "20")[2], train(2, "--steps", "20", "--slow-gpu", "1:1.5")[2])
        self.assertEqual(train(2, "--steps", "20")[2], train(2, "--steps", "20", "--slow-input", "0:3@10")[2])

    def test_seed_changes_it(self):
        self.assertNotEqual(train(1, "--steps", "5")[2], train(1, "--steps", "5", "--seed", "9")[2])

    def test_usage(self):
        for args in (["--slow-gpu", "x"], ["--slow-gpu", "1:0.5"], ["--nonsense", "1"], ["--steps"]):
            done = subprocess.run([TRAIN, *args], capture_output=True, text=True, env=ENV)
            self.assertEqual(done.returncode, 64, args)


unittest.main(argv=[sys.argv[0], "-v"])
