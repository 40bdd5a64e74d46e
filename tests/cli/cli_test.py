"""Exit codes, bad input and options of the program, on generated runs.

usage: cli_test.py HINDMOST [unittest arguments]
Expected codes: 0 done, 1 failed, 3 --fail-on holds, 4 not evaluated, 64 usage, 65 bad data, 66 no such
run, 69 something needed is missing.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HINDMOST = os.path.abspath(sys.argv[1])


def hm(*args, cwd=None):
    return subprocess.run([HINDMOST, *args], capture_output=True, text=True, cwd=cwd, timeout=120)


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        cls.good = cls.top.name + "/good"
        done = hm("demo", "--ranks", "4", "--steps", "30", "--seed", "3", "--slow-gpu", "1:1.2", "-o", cls.good)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def copy(self, name):
        path = f"{self.top.name}/{name}"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.good, path)
        return path

    def assert_one_line(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("hindmost: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])

    def test_usage(self):
        self.assertEqual(hm().returncode, 64)
        self.assert_one_line(hm("repor"), 64, "report")
        self.assert_one_line(hm("report", "--jsn"), 64, "--json")
        self.assert_one_line(hm("demo", "--ranks", "x", "-o", "y"), 64, "--ranks")
        self.assertEqual(hm("--help").returncode, 0)
        self.assertRegex(hm("--version").stdout, r"^hindmost \d+\.\d+\.\d+\n$")

    def test_every_command_has_help(self):
        for line in hm("--help").stdout.splitlines():
            m = re.match(r"^  (\w+) +\S", line)
            if m:
                done = hm(m.group(1), "--help")
                self.assertEqual(done.returncode, 0)
                self.assertIn("usage: hindmost " + m.group(1), done.stdout)

    def test_not_built_yet_says_so(self):
        for command in ("clockd", "watch"):
            self.assert_one_line(hm(command), 69, "not built yet")

    def test_no_such_run(self):
        missing = self.top.name + "/missing"
        for command in (("report", missing), ("merge", missing, "-o", self.top.name + "/x.json"), ("info", missing)):
            self.assert_one_line(hm(*command), 66, "missing")
        empty = self.top.name + "/empty"
        os.makedirs(empty, exist_ok=True)
        self.assert_one_line(hm("report", empty), 66, "empty")
        self.assert_one_line(hm("report", cwd=empty), 66)

    def test_good_run(self):
        done = hm("report", self.good, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        r = json.loads(done.stdout)
        self.assertEqual(r["schema"], 1)
        self.assertEqual(r["quality"]["problems"], [])
        self.assertEqual(r["verdict"]["subject"]["ids"], [1])
        text = hm("report", self.good)
        self.assertIn("rank 1", text.stdout)
        self.assertLessEqual(max(len(line) for line in text.stdout.splitlines()), 80)
        self.assertIn(f"hindmost merge {self.good} -o trace.json", text.stdout)
        self.assertNotIn("\x1b", text.stdout)

    def test_reports_do_not_depend_on_the_run_of_the_tool(self):
        self.assertEqual(hm("report", self.good, "--json=full").stdout, hm("report", self.good, "--json=full").stdout)

    def test_missing_rank_file(self):
        run = self.copy("lacks-one")
        os.remove(run + "/rank-00002.h5")
        done = hm("report", run, "--json")
        self.assert_one_line(done, 0, "rank 2")
        r = json.loads(done.stdout)
        self.assertEqual(r["quality"]["grade"], "limited")
        self.assertEqual(r["quality"]["ranks_present"], 3)
        self.assertEqual(hm("report", run, "--strict").returncode, 65)
        self.assertEqual(hm("merge", run, "-o", self.top.name + "/a.json").returncode, 0)

    def test_truncated_rank_file_among_good_ones(self):
        run = self.copy("cut-one")
        os.truncate(run + "/rank-00000.h5", 1000)
        done = hm("report", run, "--json")
        self.assert_one_line(done, 0, "rank-00000.h5")
        self.assertEqual(json.loads(done.stdout)["quality"]["grade"], "limited")

    def test_only_file_truncated(self):
        run = self.copy("cut-all")
        for rank in (1, 2, 3):
            os.remove(f"{run}/rank-0000{rank}.h5")
        os.truncate(run + "/rank-00000.h5", 1000)
        for command in (("report", run), ("merge", run, "-o", self.top.name + "/x.json"), ("info", run)):
            self.assertEqual(hm(*command).returncode, 65, command)
        self.assertFalse(os.path.exists(self.top.name + "/x.json"))

    def test_not_a_rank_file_at_all(self):
        run = self.copy("noise")
        for content in (b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + os.urandom(5000), os.urandom(5000)):
            with open(run + "/rank-00003.h5", "wb") as f:
                f.write(content)
            self.assert_one_line(hm("report", run, "--json"), 0, "rank-00003.h5")

    def test_pipes_are_not_waited_for(self):
        run = self.copy("pipe")
        os.remove(run + "/rank-00001.h5")
        os.mkfifo(run + "/rank-00001.h5")
        for command in (("report", run, "--json"), ("info", run), ("merge", run, "-o", self.top.name + "/p.json")):
            done = hm(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("rank-00001.h5", done.stderr)
        pipe = self.top.name + "/pipe.json"
        os.mkfifo(pipe)
        self.assert_one_line(hm("import", "kineto", pipe, "-o", self.top.name + "/from-pipe"), 65, "pipe.json")

    def test_two_runs_in_one_folder(self):
        run = self.copy("two")
        other = self.top.name + "/other"
        shutil.rmtree(other, ignore_errors=True)
        self.assertEqual(hm("demo", "--ranks", "4", "--steps", "30", "--seed", "9", "-o", other).returncode, 0)
        for rank in (2, 3):
            shutil.copy(f"{other}/rank-0000{rank}.h5", f"{run}/rank-0000{rank}.h5")
        done = hm("report", run)
        self.assertEqual(done.returncode, 65, done.stderr)

    def test_demo_refuses_an_existing_run(self):
        self.assert_one_line(hm("demo", "--ranks", "2", "--steps", "3", "-o", self.good), 65, "good")

    def test_fail_on(self):
        self.assertEqual(hm("report", self.good, "--fail-on", "gain>5%").returncode, 3)
        self.assertEqual(hm("report", self.good, "--fail-on", "gain>50%").returncode, 0)
        self.assertEqual(hm("report", self.good, "--fail-on", "lost>0").returncode, 0)
        self.assertEqual(hm("report", self.good, "--fail-on", "bananas>1").returncode, 64)

    def test_kineto_cut_in_half(self):
        path = self.top.name + "/half.json"
        with open(path, "w") as f:
            f.write('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur"')
        self.assert_one_line(hm("import", "kineto", path, "-o", self.top.name + "/imported"), 65, "half.json")
        self.assertEqual(hm("report", path).returncode, 65)

    def test_merge_writes_atomically(self):
        path = self.top.name + "/out.json"
        with open(path, "w") as f:
            f.write("old")
        self.assertEqual(hm("merge", self.top.name + "/missing", "-o", path).returncode, 66)
        with open(path) as f:
            self.assertEqual(f.read(), "old")
        self.assertEqual(hm("merge", self.good, "-o", path).returncode, 0)
        with open(path) as f:
            json.load(f)
        self.assertEqual([n for n in os.listdir(self.top.name) if n.startswith("out.json.")], [])

    def test_hostile_environment(self):
        env = dict(os.environ, HINDMOST_POOL="banana", HINDMOST_POLO="1")
        done = subprocess.run([HINDMOST, "config", "-a"], capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 64)
        self.assertIn("did you mean HINDMOST_POOL", done.stderr)


unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[2:])
