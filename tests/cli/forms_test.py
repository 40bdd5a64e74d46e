"""The forms of a report: printed on a pipe and on a terminal, Markdown, CSV of every table, expert.

usage: forms_test.py HINDMOST [unittest arguments]
The demo's own truth.json and its arguments say what must stand in the forms.
"""
import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

HINDMOST = os.path.abspath(sys.argv[1])


def hm(*args, **more):
    return subprocess.run([HINDMOST, *args], capture_output=True, text=True, timeout=120, **more)


def on_terminal(columns, env, *args):
    """What a terminal of that width gets."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    p = subprocess.Popen([HINDMOST, *args], stdout=slave, stderr=subprocess.PIPE, env=env)
    os.close(slave)
    out = b""
    while True:
        try:
            got = os.read(master, 65536)
        except OSError:
            break
        if not got:
            break
        out += got
    os.close(master)
    p.communicate(timeout=60)
    return out.decode().replace("\r\n", "\n")


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        cls.small = cls.top.name + "/it's *small*"
        cls.large = cls.top.name + "/large"
        for run, ranks in ((cls.small, "4"), (cls.large, "40")):
            done = hm("demo", "--ranks", ranks, "--steps", "30", "--seed", "3", "--slow-gpu", "1:1.2", "-o", run)
            assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def test_head_says_who_what_why_how_sure_and_what_next(self):
        text = hm("report", self.small).stdout
        labels = [line[:10].strip() for line in text.splitlines() if line[:10].strip().isupper()]
        self.assertEqual(labels[:6], ["VERDICT", "GAIN", "CAUSE", "RULED OUT", "SURE", "NEXT"])
        self.assertRegex(text, r"CAUSE     slow GPU \(slow_gpu\): \d+ % of its lateness")
        with open(self.small + "/truth.json") as f:
            truth = json.load(f)
        gain = float(re.search(r"GAIN +([0-9.]+) s of", text).group(1))
        self.assertAlmostEqual(gain, truth["gain_ns"] / 1e9, delta=0.1 * truth["gain_ns"] / 1e9)
        # the named command works as it stands, whatever the name of the run
        command = re.search(r"(hindmost merge .*? -o trace\.json)", re.sub(r"\n +", " ", text)).group(1)
        done = subprocess.run(["bash", "-c", command.replace("hindmost", HINDMOST, 1)], cwd=self.top.name,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.getsize(self.top.name + "/trace.json") > 1000)

    def test_lines_fit(self):
        for run in (self.small, self.large):
            lines = hm("report", run).stdout.splitlines()
            self.assertLessEqual(max(map(len, lines)), 80)
            self.assertEqual([line for line in lines if line != line.rstrip()], [])
        env = dict(os.environ, TERM="xterm", NO_COLOR="1")
        for columns in (60, 100, 140):
            lines = on_terminal(columns, env, "report", self.large).splitlines()
            self.assertLessEqual(max(map(len, lines)), columns)
        wide = on_terminal(140, env, "report", self.small)
        self.assertGreater(max(map(len, wide.splitlines())), 80)

    def test_colour_on_a_terminal_alone(self):
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        coloured = on_terminal(80, dict(env, TERM="xterm"), "report", self.small)
        self.assertIn("\x1b[1;31m", coloured)
        plain = hm("report", self.small, env=dict(env, TERM="xterm")).stdout
        self.assertNotIn("\x1b", plain)
        self.assertEqual(re.sub(r"\x1b\[[0-9;]*m", "", coloured), plain)
        for quiet in (dict(env, TERM="xterm", NO_COLOR="1"), dict(env, TERM="dumb")):
            self.assertNotIn("\x1b", on_terminal(80, quiet, "report", self.small))
        self.assertIn("\x1b[1;31m", on_terminal(80, dict(env, TERM="xterm", NO_COLOR=""), "report", self.small))

    def test_many_ranks(self):
        text = hm("report", self.large).stdout
        table = text.split("Per rank")[1].split("\n\n")[0].splitlines()
        rows = [line.split() for line in table[2:12]]
        self.assertEqual(rows[0][0], "1")
        self.assertEqual(rows[0][-1], "<-")
        self.assertIn("the 10 latest of 40", table[12])
        part = text.split("How late the ranks are")[1].split("\n\n")[0]
        # every rank in one row: 39 as they should be, the slow one at 20 % of 20 ms in a step of 27.4
        counts = {m.group(1): int(m.group(2)) for m in re.finditer(
            r"^(\S.*?(?:%| more))  .*? +(\d+)(?: #+)?$", part, re.M)}
        self.assertEqual(sum(counts.values()), 40)
        self.assertEqual(counts["10 to 20 %"], 1)
        self.assertNotIn("How late the ranks are", hm("report", self.small).stdout)

    def test_markdown(self):
        text = hm("report", self.small, "--md").stdout
        self.assertIn(r"it's \*small\*", text.splitlines()[0])
        self.assertIn("- **VERDICT** rank 1 ", text)
        self.assertNotIn("\x1b", text)
        report = json.loads(hm("report", self.small, "--json").stdout)
        rows = [line for line in text.split("**Per rank")[1].split("**Where")[0].splitlines() if line.startswith("|")]
        self.assertEqual(len(rows), 2 + len(report["ranks"]))
        cells = {line.count("|") - line.count(r"\|") for line in rows}
        self.assertEqual(len(cells), 1)  # as many cells in each row

    def test_csv_of_every_table(self):
        names = hm("report", self.small, "--csv", "nothing")
        self.assertEqual(names.returncode, 64)
        known = names.stderr.split("; ")[1].strip().split(", ")
        self.assertTrue({"ranks", "collectives", "kernels", "ops", "ledger", "findings", "quality"} <= set(known))
        for name in known + ["steps"]:
            done = hm("report", self.small, "--csv", name)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = list(csv.reader(io.StringIO(done.stdout)))
            self.assertEqual({len(row) for row in rows}, {len(rows[0])}, name)
        report = json.loads(hm("report", self.small, "--json=full").stdout)
        rows = list(csv.DictReader(io.StringIO(hm("report", self.small, "--csv", "ranks").stdout)))
        for row, want in zip(rows, report["ranks"], strict=True):
            for key in ("rank", "window_ns", "compute_ns", "late_ns"):
                self.assertEqual(int(row[key]), want[key])
        rows = list(csv.DictReader(io.StringIO(hm("report", self.small, "--csv", "steps").stdout)))
        self.assertEqual([int(r["step"]) for r in rows], [s["step"] for s in report["step"]])

    def test_expert_shows_every_table(self):
        text = hm("report", self.small, "--expert").stdout
        self.assertGreater(len(text), 2 * len(hm("report", self.small).stdout))
        report = json.loads(hm("report", self.small, "--json=full").stdout)
        self.assertIn(str(report["ranks"][1]["wait_caused_ns"]), text)
        self.assertIn(str(report["step"][7]["time_ns"]), text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_one_form_at_a_time(self):
        for more in (("--json", "--md"), ("--md", "--csv", "ranks"), ("--digest", "--md")):
            self.assertEqual(hm("report", self.small, *more).returncode, 64)

    def test_mesh_in_place_of_what_is_found(self):
        n = len(json.loads(hm("report", self.small, "--json").stdout)["ranks"])
        r = json.loads(hm("report", self.small, "--json", "--mesh", "pp=%d,tp=1" % n).stdout)
        self.assertEqual([x["role"] for x in r["ranks"]], ["stage %d" % i for i in range(n)])
        self.assertEqual({o["dim_from"] for o in r["ops"]}, {"the mesh given"})
        for wrong in ("tp=%d" % (n + 1), "tp", "tp=0", "xx=2", "tp=2,tp=2"):
            self.assertEqual(hm("report", self.small, "--mesh", wrong).returncode, 64, wrong)


unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[2:])
