"""The scenarios with a known right answer, end to end: rank files -> `hindmost report --json`.

usage: verdict_test.py SCENARIO_PROGRAM HINDMOST
Expected values are hand calculations, written beside each check (times in ms).
"""
import json
import subprocess
import sys
import tempfile
import unittest

SCENARIO, HINDMOST = sys.argv[1:3]
MS = 1_000_000


class Verdict(unittest.TestCase):
    def report(self, name, full=False):
        with tempfile.TemporaryDirectory() as top:
            run = top + "/run"
            subprocess.run([SCENARIO, name, run], check=True)
            done = subprocess.run([HINDMOST, "report", run, "--json=full" if full else "--json"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = subprocess.run([HINDMOST, "report", run], capture_output=True, text=True)
            self.assertEqual(text.returncode, 0, text.stderr)
            self.assertIn("VERDICT", text.stdout)
            return json.loads(done.stdout)

    def gain_per_step(self, r):
        return r["verdict"]["gain_ns"] / r["steps"]["n"] / MS

    def test_u1_one_slow_gpu(self):
        # 8 ranks, r5 computes 112, the others 100, all-reduce 10: T 122 -> 110
        r = self.report("u1")
        v = r["verdict"]
        self.assertEqual(v["status"], "straggler")
        self.assertIn(v["subject"]["kind"], ("rank", "device"))
        self.assertEqual(v["subject"]["ids"], [5])
        self.assertEqual(v["cause"], "slow_gpu")
        self.assertAlmostEqual(self.gain_per_step(r), 12, delta=0.6)
        self.assertAlmostEqual(v["gain_frac"], 12 / 122, delta=0.005)
        self.assertEqual(v["pattern"], "persistent")
        self.assertAlmostEqual(r["steps"]["median_ns"] / MS, 122, delta=0.1)

    def test_u2_two_slow_gpus_only_together(self):
        # [100, 100, 112, 110], all-reduce 10: both 122 -> 110, r2 alone 122 -> 120, r3 alone 0
        r = self.report("u2")
        v = r["verdict"]
        self.assertEqual(v["status"], "straggler")
        self.assertEqual(v["subject"]["kind"], "ranks")
        self.assertEqual(v["subject"]["ids"], [2, 3])
        self.assertEqual(v["cause"], "slow_gpu")
        self.assertAlmostEqual(self.gain_per_step(r), 12, delta=0.6)

    def test_u5_always_last_but_it_costs_nothing(self):
        # last in 200 of 200 by 0.03 of 400: 0.0075 %
        r = self.report("u5")
        self.assertEqual(r["verdict"]["status"], "none")
        self.assertIn("largest_loss", r["verdict"])
        self.assertEqual(r["findings"], [])

    def test_u6_clock_offset_is_no_straggler(self):
        # node B's clock is 0.8 ahead; every all-reduce lasts 1.0 on every rank, so nobody waits
        r = self.report("u6")
        self.assertEqual(r["verdict"]["status"], "none")
        self.assertEqual(r["findings"], [])
        self.assertTrue(any("clock" in p["what"] for p in r["quality"]["problems"]),
                        r["quality"]["problems"])

    def test_two_nodes_never_compared(self):
        # the durations accuse r3, but nothing ties the clocks of the two nodes together: whatever
        # is said, it must not be said of anyone else, and the grade must not be full
        r = self.report("two-nodes")
        self.assertNotEqual(r["quality"]["grade"], "full")
        for f in r["findings"]:
            self.assertEqual(f["subject"]["ids"], [3])

    def test_u17_the_gate_not_the_partition(self):
        # launch ends 40 / 90, start 0.003 later, compute [0,100) on both, transfer 40:
        # T 130.003; with r1 launching like r0: max(100, 80.003) = 100 -> gain 30.003; lateness 50
        r = self.report("u17")
        v = r["verdict"]
        self.assertEqual(v["status"], "straggler")
        self.assertEqual(v["subject"]["ids"], [1])
        self.assertTrue(v["cause"].startswith("host_"), v["cause"])
        self.assertAlmostEqual(self.gain_per_step(r), 30.003, delta=1.5)
        self.assertAlmostEqual(v["lateness_ns"] / MS, 50 * r["steps"]["n"], delta=2.5 * r["steps"]["n"])

    def test_even_ranks(self):
        r = self.report("even")
        self.assertEqual(r["verdict"]["status"], "none")
        self.assertEqual(r["quality"]["grade"], "full")
        self.assertEqual(r["quality"]["clock_error_ns"], 0)

    def test_three_steps_are_not_enough(self):
        r = self.report("few")
        self.assertEqual(r["verdict"]["status"], "insufficient")

    def test_rank_table_sums_and_collectives(self):
        # u1: the waits are 12 on every rank but 5; each rank's columns sum to its window
        r = self.report("u1", full=True)
        for row in r["ranks"]:
            self.assertEqual(row["window_ns"], row["compute_ns"] + row["exposed_comm_ns"]
                             + row["memcpy_ns"] + row["idle_ns"])
            n = r["steps"]["n"]
            self.assertEqual(row["wait_ns"], 0 if row["rank"] == 5 else 12 * MS * n)
            self.assertEqual(row["last_arrivals"], n if row["rank"] == 5 else 0)
        self.assertEqual(r["ranks"][5]["wait_caused_ns"], 7 * 12 * MS * r["steps"]["n"])
        self.assertEqual(len(r["collectives"]), 40)
        for i, c in enumerate(sorted(r["collectives"], key=lambda c: c["seq"])):
            self.assertEqual((c["seq"], c["func"], c["bytes"], c["last_rank"]),
                             (i, "AllReduce", 4 << 20, 5))
            self.assertEqual(c["skew_ns"], 12 * MS)
            self.assertEqual(c["core_ns"], 10 * MS)
            self.assertEqual(c["comm"], "1122334455667788")


unittest.main(argv=[sys.argv[0], "-v"])
