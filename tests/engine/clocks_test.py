"""A real job whose ranks have clocks of their own: offsets of seconds, drifts of tens of ppm.

usage: clocks_test.py HINDMOST RECORDER SHIM DDP_TRAIN
Truth: the fault that the example injects; and that in its model all ranks leave a collective at one
instant, so that ends on one timeline may differ by the clock error alone.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HINDMOST, RECORDER, SHIM, TRAIN = sys.argv[1:5]
CLOCKS = "1:raw=5000000/20000;2:raw=-3000000000/-30000;3:raw=70000000000/45000"


def run(top, *fault):
    out = os.path.join(top, "run")
    env = {k: v for k, v in os.environ.items() if not k.startswith("HINDMOST")}
    env.update(HINDMOST_OUT=out, HM_TEST_BOOT="1", HM_TEST_CLOCK=CLOCKS,
               HM_TEST_WRITER_PRELOAD=SHIM, OMPI_MCA_btl_vader_single_copy_mechanism="none")
    export = [x for k in ("HINDMOST_OUT", "HM_TEST_BOOT", "HM_TEST_CLOCK", "HM_TEST_WRITER_PRELOAD")
              for x in ("-x", k)]
    job = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", *export,
                          "-x", f"LD_PRELOAD={SHIM} {RECORDER}", TRAIN, "--steps", "30", *fault],
                         capture_output=True, text=True, env=env, timeout=120)
    assert job.returncode == 0, job.stderr
    report = subprocess.run([HINDMOST, "report", out, "--json=full"], capture_output=True, text=True)
    assert report.returncode == 0, report.stderr
    return job.stderr, json.loads(report.stdout)


class Clocks(unittest.TestCase):
    def check_clocks(self, r):
        q = r["quality"]
        self.assertEqual(q["problems"], [])
        self.assertEqual(q["violations"], 0)
        self.assertEqual(q["matched_frac"], 1)
        self.assertGreater(q["clock_error_ns"], 0, "four clocks are never compared exactly")
        self.assertLess(q["clock_error_ns"], 1000000)
        self.assertEqual(len(r["collectives"]), 61)
        # core is unknown where the clock error hides it, and for the broadcast of the weights
        known = [c for c in r["collectives"] if c["core_ns"] is not None]
        self.assertGreater(len(known), 5)
        for c in known:
            tail = c["last_start_to_last_end_ns"] - c["core_ns"]
            self.assertLessEqual(tail, 2 * q["clock_error_ns"] + 2000, c)

    def test_slow_gpu(self):
        with tempfile.TemporaryDirectory() as top:
            said, r = run(top, "--slow-gpu", "2:1.3")
        self.check_clocks(r)
        self.assertEqual(r["verdict"]["status"], "straggler")
        self.assertEqual(r["verdict"]["subject"]["ids"], [2])
        self.assertEqual(r["verdict"]["cause"], "slow_gpu")
        self.assertIn("rank 2", said, "the three lines at the end of the job say so too")

    def test_nothing(self):
        with tempfile.TemporaryDirectory() as top:
            r = run(top)[1]
        self.check_clocks(r)
        self.assertEqual(r["verdict"]["status"], "none")


unittest.main(argv=[sys.argv[0], "-v"])
