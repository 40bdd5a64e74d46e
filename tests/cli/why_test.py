"""`hindmost why`: the parts name what was done to the rank, and every sum holds.

usage: why_test.py HINDMOST [unittest arguments]
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

HINDMOST = os.path.abspath(sys.argv[1])


def hm(*args):
    return subprocess.run([HINDMOST, *args], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "COLUMNS": "200"})


class Why(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        cls.run_ = cls.top.name + "/run"
        # from step 10 on rank 2's input takes 20 ms longer
        done = hm("demo", "--ranks", "4", "--steps", "30", "--seed", "3", "--slow-input", "2:20@10",
                  "-o", cls.run_)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def why(self, *args):
        done = hm("why", *args, "--run", self.run_)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def parts(self, text):
        """Rows of the comparison: name -> (this rank, the other, more); the sum last."""
        rows = re.findall(r"^(\S.*?) +(-?[\d.]+) +(-?[\d.]+) +([+-][\d.]+)$", text, re.M)
        self.assertTrue(rows, text)
        return [(name.strip(), float(a), float(b), float(more)) for name, a, b, more in rows]

    def check_sums(self, text):
        rows = self.parts(text)
        for k in (1, 2, 3): # each figure is rounded to a microsecond
            self.assertAlmostEqual(sum(r[k] for r in rows[:-1]), rows[-1][k], delta=0.001 * len(rows))
        links = re.findall(r"^ *\+[\d.]+ +([\d.]+) ", text, re.M)
        hidden = re.search(r"shorter ones, ([\d.]+) ms", text)
        whole = float(re.search(r"all together ([\d.]+) ms", text).group(1))
        listed = sum(map(float, links)) + (float(hidden.group(1)) if hidden else 0)
        self.assertAlmostEqual(listed, whole, delta=0.001 * (len(links) + 1))

    def test_names_the_input(self):
        text = self.why("2", "20")
        self.assertIn("Rank 2, step 20", text)
        more = {name: m for name, _, _, m in self.parts(text)}
        self.assertAlmostEqual(more["input"], 20, delta=1)
        self.assertGreater(more["input"], 0.8 * self.parts(text)[-1][3])
        self.check_sums(text)

    def test_without_a_step_it_takes_the_latest(self):
        step = int(re.search(r"Rank 2, step (\d+)", self.why("2")).group(1))
        self.assertGreaterEqual(step, 10)

    def test_every_sum_holds(self):
        for rank in range(4):
            for step in (3, 10, 29):
                self.check_sums(self.why(str(rank), str(step)))

    def test_what_cannot_be_asked(self):
        for args, code in ((("why",), 64), (("why", "two"), 64), (("why", "1", "-3"), 64),
                           (("why", "77", "--run", self.run_), 65),
                           (("why", "1", "7777", "--run", self.run_), 65),
                           (("why", "1", "--run", self.top.name + "/none"), 66)):
            done = hm(*args)
            self.assertEqual(done.returncode, code, args)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[2:])
