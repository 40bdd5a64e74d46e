"""The main job, end to end: mpirun -> recorder -> rank files -> report and merge.

usage: e2e_test.py BUILD [unittest arguments]
The injected fault is the truth that each verdict is held against.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv[1])
HINDMOST = BUILD + "/bin/hindmost"
TRAIN = BUILD + "/examples/ddp-train"
LIBRARY = BUILD + "/lib/libhindmost.so"
CRASH = BUILD + "/tests/e2e/hm_crash"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
QUIET = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "HINDMOST_DIGEST": "0"}


def run(command, env=None, timeout=300):
    full = {k: v for k, v in os.environ.items() if not k.startswith("HINDMOST")}
    full.update(QUIET)
    full.update(env or {})
    return subprocess.run(command, capture_output=True, text=True, env=full, timeout=timeout)


class Job(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.out = self.top.name + "/run"

    def tearDown(self):
        self.top.cleanup()

    def job(self, *args, n=4, how="run", env=None):
        env = dict(env or {})
        env["HINDMOST_OUT"] = self.out
        command = MPIRUN + ["-np", str(n)]
        if how == "run":
            command += [HINDMOST, "run", "--", TRAIN]
        elif how == "preload":
            command += ["-x", "LD_PRELOAD=" + LIBRARY, TRAIN]
        elif how == "plugin":
            command += ["-x", "NCCL_PROFILER_PLUGIN=" + os.path.realpath(LIBRARY), TRAIN]
        done = run(command + list(args), env)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertRegex(done.stdout, r"ddp-train: loss [0-9.e+-]+ -> [0-9.e+-]+ weights [0-9a-f]+")
        # after a normal end every rank file is complete when mpirun returns
        self.assertEqual(len(glob.glob(self.out + "/rank-*.h5")), n, os.listdir(self.out))
        self.assertEqual(glob.glob(self.out + "/*.tail"), [])
        return done

    def report(self, *args, code=0):
        done = run([HINDMOST, "report", self.out, "--json", *args])
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def assert_accused(self, report, rank, cause):
        v = report["verdict"]
        self.assertEqual(v["status"], "straggler", v)
        self.assertIn(v["subject"]["kind"], ("rank", "device"))
        self.assertEqual(v["subject"]["ids"], [rank])
        self.assertTrue(v["cause"].startswith(cause), v)

    def test_slow_gpu_by_run(self):
        self.job("--slow-gpu", "2:1.2")
        r = self.report()
        self.assert_accused(r, 2, "slow_gpu")
        self.assertEqual(r["quality"]["grade"], "full", r["quality"])
        self.assertEqual(r["quality"]["matched_frac"], 1)
        self.assertEqual(r["steps"]["source"], "marks")
        self.assertEqual(sum(r["quality"]["lost"].values()), 0)

    def test_slow_gpu_by_preload_gives_the_same_report(self):
        self.job("--slow-gpu", "2:1.2", how="preload")
        preload = self.report()
        self.assert_accused(preload, 2, "slow_gpu")
        self.out += "2"
        self.job("--slow-gpu", "2:1.2")
        run_form = self.report()
        for key in ("status", "subject", "cause", "pattern", "where"):
            self.assertEqual(preload["verdict"].get(key), run_form["verdict"].get(key), key)
        self.assertEqual(preload["steps"]["n"], run_form["steps"]["n"])
        self.assertAlmostEqual(preload["verdict"]["gain_frac"], run_form["verdict"]["gain_frac"], delta=0.01)

    def test_a_power_limit_is_the_cause(self):
        """A stand-in libnvidia-ml holds rank 2's GPU down to 500 W and 1230 MHz."""
        library = BUILD + "/tests/writer/libnvidia-ml.so"
        if not os.path.exists(library):
            self.skipTest("skipped: no stand-in libnvidia-ml")
        self.job("--slow-gpu", "2:1.2", "--steps", "150",
                 env={"HINDMOST_NVML": library, "HM_TEST_NVML_LIMITED": "2"})
        r = self.report()
        self.assert_accused(r, 2, "gpu_config")
        # "virtual-gpu", then the local rank
        self.assertEqual(r["verdict"]["subject"]["gpu_uuid"], "GPU-76697274-7561-6c2d-6770-750002000000")
        self.assertIn("power limit 500 W, its peers 700 W", r["verdict"]["evidence"])
        self.assertIn("SM clock 1230 MHz on average, its peers 1980 MHz", r["verdict"]["evidence"])
        health = {h["rank"]: h for h in r["health"]}
        self.assertEqual([health[i]["power_limit_mw"] for i in range(4)],
                         [700000, 700000, 500000, 700000])
        trace = self.top.name + "/t.json"
        self.assertEqual(run([HINDMOST, "merge", self.out, "-o", trace]).returncode, 0)
        with open(trace, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        clocks = [e for e in events if e["ph"] == "C" and "gpu.sm_clock" in e["name"]]
        self.assertEqual({(e["pid"], *e["args"].values()) for e in clocks},
                         {(1, 1980), (2, 1980), (3, 1230), (4, 1980)})

    def test_plugin_alone_records(self):
        self.job("--slow-gpu", "2:1.2", how="plugin")
        r = self.report()
        self.assert_accused(r, 2, "slow_gpu")

    def test_interface_v4(self):
        self.job("--slow-gpu", "1:1.2", env={"VGPU_NCCL_INTERFACE": "4"})
        self.assert_accused(self.report(), 1, "slow_gpu")

    def test_no_fault_no_accusation(self):
        self.job()
        r = self.report()
        self.assertEqual(r["verdict"]["status"], "none", r["verdict"])
        self.assertEqual(r["findings"], [])

    def test_slow_input_is_input(self):
        self.job("--slow-input", "1:40")
        self.assert_accused(self.report(), 1, "input")

    def test_late_launch_is_host(self):
        self.job("--late-launch", "3:40")
        self.assert_accused(self.report(), 3, "host_")

    def test_from_a_step_on(self):
        self.job("--slow-gpu", "0:1.3@30")
        r = self.report()
        self.assert_accused(r, 0, "slow_gpu")
        self.assertEqual(r["verdict"]["pattern"], "from_step")

    def test_merge_of_the_job(self):
        self.job("--slow-gpu", "2:1.2")
        path = self.top.name + "/trace.json"
        done = run([HINDMOST, "merge", self.out, "-o", path])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path) as f:
            events = json.load(f)["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
        self.assertEqual(sorted(names), [1, 2, 3, 4])
        self.assertTrue(names[3].startswith("rank 2 "), names)
        late = [e for e in events if e["ph"] == "s" and e.get("cat") == "late"]
        self.assertTrue(late)
        # the arrows start at the slow rank in nearly every collective
        from_slow = sum(e["pid"] == 3 for e in late)
        self.assertGreater(from_slow, 0.8 * len(late))
        waits = [e for e in events if e.get("cat") == "wait"]
        self.assertGreater(sum(e["name"] == "wait for rank 2" for e in waits), 0.8 * len(waits))

    def test_one_rank_file_missing_or_cut(self):
        self.job("--slow-gpu", "2:1.2")
        os.remove(glob.glob(self.out + "/rank-00000.h5")[0])
        r = self.report()
        self.assertEqual(r["quality"]["grade"], "limited")
        self.assertEqual(r["quality"]["ranks_present"], 3)
        self.assertEqual(r["quality"]["ranks_expected"], 4)
        victim = self.out + "/rank-00001.h5"
        with open(victim, "r+b") as f:
            f.truncate(os.path.getsize(victim) // 3)
        done = run([HINDMOST, "report", self.out, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sum("rank-00001.h5" in line for line in done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(any("rank-00001" in p["file"] for p in json.loads(done.stdout)["quality"]["problems"]))
        self.assertEqual(run([HINDMOST, "report", self.out, "--strict"]).returncode, 65)

    def test_off_on_one_rank(self):
        # rank 0 has HINDMOST=off: nobody hangs, the others' files are there or one line says why not
        env = {"HINDMOST_OUT": self.out}
        command = MPIRUN + ["-np", "1", "-x", "HINDMOST=off", HINDMOST, "run", "--", TRAIN, "--steps", "8",
                            ":", "-np", "1", HINDMOST, "run", "--", TRAIN, "--steps", "8"]
        done = run(command, env, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_library_on_some_ranks_only(self):
        env = {"HINDMOST_OUT": self.out}
        command = MPIRUN + ["-np", "1", TRAIN, "--steps", "8",
                            ":", "-np", "1", "-x", "LD_PRELOAD=" + LIBRARY, TRAIN, "--steps", "8"]
        done = run(command, env, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("without the library", done.stderr)


class Crash(unittest.TestCase):
    def test_kill_9_of_one_rank(self):
        # rank 1 commits 50,000 counters and kills itself at once: all of them must be in its file
        with tempfile.TemporaryDirectory() as top:
            out = top + "/run"
            done = run(MPIRUN + ["-np", "3", "-x", "LD_PRELOAD=" + LIBRARY, CRASH, "50000"],
                       {"HINDMOST_OUT": out}, timeout=120)
            self.assertNotEqual(done.returncode, 0)
            report = run([HINDMOST, "report", out, "--json"])  # waits for the writer to finish
            self.assertEqual(report.returncode, 0, report.stderr)
            info = run([HINDMOST, "info", out, "--json"])
            self.assertEqual(info.returncode, 0, info.stderr)
            ranks = {r["rank"]: r for r in json.loads(info.stdout)["ranks"]}
            self.assertEqual(ranks[1]["events"]["counter"], 50000)
            self.assertEqual(ranks[1]["end"], "died")
            self.assertEqual(sum(ranks[1]["lost"].values()), 0)
            merge = run([HINDMOST, "merge", out, "-o", top + "/t.json"])
            self.assertEqual(merge.returncode, 0, merge.stderr)

    def test_kill_9_of_a_training_rank(self):
        with tempfile.TemporaryDirectory() as top:
            out = top + "/run"
            full = dict(os.environ, HINDMOST_OUT=out, **QUIET)
            job = subprocess.Popen(MPIRUN + ["-np", "2", HINDMOST, "run", "--", TRAIN, "--steps", "2000"],
                                   env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            victim = None
            deadline = time.monotonic() + 60
            while victim is None and time.monotonic() < deadline:
                ranks = subprocess.run(["pgrep", "-P", str(job.pid), "-f", "ddp-train"],
                                       capture_output=True, text=True).stdout.split()
                if len(ranks) == 2 and len(glob.glob(out + "/rank-*.h5")) == 2:
                    victim = int(ranks[1])
                else:
                    time.sleep(0.1)
            self.assertIsNotNone(victim, "the job did not start")
            time.sleep(2)  # some steps; how many does not matter
            os.kill(victim, signal.SIGKILL)
            job.wait(timeout=60)
            report = run([HINDMOST, "report", out, "--json"])
            self.assertEqual(report.returncode, 0, report.stderr)
            r = json.loads(report.stdout)
            self.assertEqual(r["quality"]["ranks_present"], 2)
            self.assertGreater(r["steps"]["n"], 5)
            merge = run([HINDMOST, "merge", out, "-o", top + "/t.json"])
            self.assertEqual(merge.returncode, 0, merge.stderr)


unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[2:])
