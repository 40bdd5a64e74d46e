"""python -m hindmost: what a PyTorch training does, as the rank file shows it.

usage: python_test.py BUILD [unittest arguments]
Expected counts come from tests/python/train.py, read by hand.
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

BUILD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
HINDMOST = BUILD + "/bin/hindmost"
RUN = [HINDMOST, "run", "--preload", "--", sys.executable, "-m", "hindmost"]
try:
    import torch  # noqa: F401
    NO_TORCH = None
except ImportError:
    NO_TORCH = "skipped: no torch (Debian: python3-torch)"

sys.path.insert(0, HERE + "/../record")
from decode import column  # noqa: E402


class Python(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.out = self.top.name + "/run"

    def tearDown(self):
        self.top.cleanup()

    def run_it(self, command, env=None, code=0):
        full = {k: v for k, v in os.environ.items() if not k.startswith("HINDMOST")}
        full.update({"HINDMOST_OUT": self.out, "HINDMOST_DIGEST": "0",
                     "HINDMOST_HEALTH": "off"}, **(env or {}))
        done = subprocess.run(command, capture_output=True, text=True, env=full, timeout=200,
                              cwd=self.top.name)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def script(self, text):
        path = self.top.name + "/script.py"
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def ranges(self):
        """name -> [(t, dur)] ns, and the STEP events [(step, aux)]."""
        (path,) = glob.glob(self.out + "/rank-*.h5")
        with h5py.File(path) as f:
            strings = self.strings(f["/def/string"])
            out = {}
            if "/range" in f:
                t, dur = column(f["/range"], "t"), column(f["/range"], "dur")
                for i, name in enumerate(column(f["/range"], "name")):
                    out.setdefault(strings[name], []).append((int(t[i]), int(dur[i])))
            steps = []
            if "/step" in f:
                steps = list(zip(map(int, column(f["/step"], "step")),
                                 map(int, column(f["/step"], "t"))))
            return out, steps

    @staticmethod
    def strings(table):
        lengths = [int(n) for n in column(table, "len")]
        raw = bytes(numpy.array(table["text"]))
        ends = numpy.cumsum(lengths)
        return [raw[end - n:end].decode() for n, end in zip(lengths, ends)]

    @unittest.skipIf(NO_TORCH, NO_TORCH)
    def test_training(self):
        done = self.run_it(RUN + [HERE + "/train.py", "6", "weights.pt"])
        self.assertEqual(done.stdout, "trained ['6', 'weights.pt'] __main__\n")
        ranges, steps = self.ranges()
        # the first batch is asked for in step 0, the end of the data in step 6
        self.assertEqual(sorted({s for s, _ in steps}), list(range(7)))
        inputs = [d for _, d in ranges["input"]]
        self.assertGreaterEqual(sum(d >= 10_000_000 for d in inputs), 6)
        self.assertEqual(len(ranges["checkpoint"]), 1)
        self.assertGreaterEqual(len(ranges["gc"]), 1)
        # the batch of step 3 is waited for between the third optimizer step and the fourth
        begin = dict((s, t) for s, t in reversed(steps))
        saved = ranges["checkpoint"][0][0]
        self.assertTrue(begin[3] <= saved < begin[4], "saved after the third optimizer step")

    @unittest.skipIf(NO_TORCH, NO_TORCH)
    def test_a_loader_with_workers_and_a_closure(self):
        path = self.script("""
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(1, 1)
class Own(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
opt = Own(model.parameters(), lr=.1)
def closure():
    opt.zero_grad()
    loss = model(torch.ones(1)).sum()
    loss.backward()
    return loss
if __name__ == "__main__":
    for x in DataLoader(torch.arange(8), batch_size=2, num_workers=2):
        opt.step(closure)
    print(len(opt.state_dict()["param_groups"]))
""")
        self.assertEqual(self.run_it(RUN + [path]).stdout, "1\n")
        _, steps = self.ranges()
        self.assertEqual(sorted({s for s, _ in steps}), [0, 1, 2, 3, 4])

    def test_without_torch(self):
        path = self.script("import gc, sys, hindmost\nhindmost.step(0)\ngc.collect()\nprint(sys.argv)\nsys.exit(7)\n")
        done = self.run_it(RUN + [path, "a", "-b"], code=7)
        self.assertEqual(done.stdout, repr([path, "a", "-b"]) + "\n")
        self.assertIn("gc", self.ranges()[0])

    def test_own_marks(self):
        path = self.script("""
import hindmost
for n in range(3):
    hindmost.step(n)
    with hindmost.range("forward"):
        hindmost.counter("loss", 0.5)
        hindmost.counter("tokens", 7)
        hindmost.mark("here")
hindmost.step_end()
""")
        self.run_it(RUN + [path])
        ranges, steps = self.ranges()
        self.assertEqual(len(ranges["forward"]), 3)
        self.assertEqual(sorted({s for s, _ in steps}), [0, 1, 2])
        (path,) = glob.glob(self.out + "/rank-*.h5")
        with h5py.File(path) as f:
            self.assertEqual(len(column(f["/counter"], "value")), 6)
            self.assertEqual(len(column(f["/mark"], "name")), 3)

    def test_module_form_and_a_failing_script(self):
        self.script("raise ValueError('as it was')\n")
        done = self.run_it(RUN + ["-m", "script"], code=1)
        self.assertIn("ValueError: as it was", done.stderr)

    def test_switched_off_and_absent(self):
        path = self.script("print('same')\n")
        done = self.run_it(RUN + [path], env={"HINDMOST": "off"})
        self.assertEqual(done.stdout, "same\n")
        self.assertFalse(os.path.exists(self.out))
        done = self.run_it([sys.executable, "-m", "hindmost", path],
                           env={"PYTHONPATH": BUILD + "/share/hindmost/python"})
        self.assertEqual(done.stdout, "same\n")
        self.assertFalse(glob.glob(self.out + "/rank-*"), "recorded without the library")

    def test_usage(self):
        self.run_it(RUN, code=64)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
