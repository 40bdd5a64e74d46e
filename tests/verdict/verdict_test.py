"""The scenarios with a known right answer, end to end: rank files -> `hindmost report --json`.

usage: verdict_test.py SCENARIO_PROGRAM HINDMOST [unittest arguments]

TABLE holds what is right, from hand calculation written beside each row (times in ms a step; T is
the time of a step). It knows nothing of what the analyser says today. NOT_YET names the rows on
which the analyser is known to be wrong, with the reason; such a row fails the test on the day it
comes out right, so that it is taken off the list.
"""
import json
import re
import subprocess
import sys
import tempfile
import unittest

SCENARIO, HINDMOST = sys.argv[1:3]
MS = 1_000_000
DEVICE = ("rank", "device")

# gain: fraction of the analysed time, held to 2 % of itself. says: in the verdict, mentions:
# anywhere in the report's. Tuples allow any of their members. Every job has one more step than
# said, the first, which is warm-up and not analysed.
TABLE = {
    # T 122; repaired 110: 12 / 122
    "u1": dict(status="straggler", kind=DEVICE, ids=[5], pattern="persistent", cause="slow_gpu",
               gain=12 / 122),
    # [100, 100, 112, 110] + 10: both repaired 122 -> 110, r2 alone -> 120, r3 alone -> 122
    "u2": dict(status="straggler", kind="ranks", ids=[2, 3], pattern="persistent",
               cause="slow_gpu", gain=12 / 122),
    # T 130; work is conserved: the mean of a step is (7 x 100 + 120) / 8 = 102.5, so 112.5
    "u3-work": dict(status="imbalance", kind="all", pattern="rotating", cause="more_work",
                    gain=17.5 / 130),
    # T 130; a pause is not conserved: 110 without
    "u3-pause": dict(status=("imbalance", "jitter"), kind="all", pattern="rotating",
                     cause="host_cpu", gain=20 / 130),
    # a stop costs 150, two in one step no more: the program prints how many steps are hit, of 250
    # of 400; 1 - (1 - 8 / 250)^32 = 65 % are expected (512 ranks, one stop in 500: 64 %)
    "u4": dict(status="jitter", kind="all", cause="host_cpu",
               gain=lambda said: 150 * said["hit"] / (250 * 400 + 150 * said["hit"])),
    # last in 200 of 200 by 0.03 of 400: 0.0075 %, below the floor of 0.5 %
    "u5": dict(status="none"),
    # node 2's clock is 0.8 ahead, but every all-reduce lasts 1.0 on every rank: nobody waits
    "u6": dict(status="none", problem="clock"),
    # T 10 x (12 + 1) + 20 = 150; repaired 10 x (10 + 1) + 20 = 130
    "u7": dict(status="straggler", kind=DEVICE, ids=[3], dim="tp", cause="slow_gpu",
               pattern="persistent", gain=20 / 150),
    # the same 150 -> 130, for all of node 1; held at 500 of 700 W
    "u8": dict(status="straggler", kind="node", ids=list(range(8)), cause="gpu_config",
               pattern="persistent", gain=20 / 150, says="power"),
    # T = 7 x (4 + 8) + 3 x (3 + 6) + 12 = 123; even: 39 / 4 = 9.75 a stage, 11 x 9.75 = 107.25, of
    # which 3 / 11 = 29.25 is the bubble. Stage 3 is ranks 6 and 7. Messages and the gradients'
    # all-reduce add 0.12.
    "u9": dict(status="imbalance", kind="stage", ids=[6, 7], cause="more_work",
               pattern="persistent", gain=15.75 / 123.12, ledger=("bubble", 29.25 / 123.12)),
    # T = 200 + 100 + 0.4 + 200 + 0.4 + 100 + 10 = 610.8, without the input 410.8. The message of
    # 64 MiB goes in 0.4: 168 GB/s.
    "u11": dict(status="straggler", kind=DEVICE, ids=[0], cause="input", pattern="persistent",
                gain=200 / 610.8, message=(64 << 20, 0.4)),
    # T = 50 + 10 + 19 + 10 = 89; the work is conserved: 8900 / 8 tokens, 81.125
    "u12": dict(status="straggler", kind=DEVICE, ids=[6], cause="more_work", pattern="persistent",
                gain=7.875 / 89),
    # T = 180 + 50 + 20 + 10 = 260, with rank 7 repaired 180
    "u14": dict(status="straggler", kind=DEVICE, ids=[7], pattern="persistent", gain=80 / 260,
                grade="full", violations=0),
    "u14-empty": dict(status="straggler", kind=DEVICE, ids=[7], pattern="persistent",
                      gain=80 / 260, grade="full", violations=0),
    # T = 299.4 + 100 + 0.6 + 50 + 10 = 460
    "u15": dict(status="straggler", kind=DEVICE, ids=[9], cause="input", pattern="persistent",
                gain=299.4 / 460),
    "u15-unknown": dict(status="straggler", kind=DEVICE, ids=[9], cause="input",
                        pattern="persistent", gain=299.4 / 460, mentions="inferred"),
    # launches end at 40 and 90: T 90.003 + 40 = 130.003; launched alike, compute ends last: 100.
    "u17": dict(status="straggler", kind=DEVICE, ids=[1], cause="host_*", pattern="persistent",
                gain=30.003 / 130.003),
    # 80 of 400 in input on all, in the same steps
    "u19": dict(status="bottleneck", kind="all", cause="input", pattern="persistent", gain=0.20),
    # 8 of 64 steps take 600 instead of 200: mean 250, 400 x 8 / (64 x 250). The 50 us of the other
    # batches may count too: 0.05 x 56 / 3200 = 0.1 %.
    "u20": dict(status="bottleneck", kind="all", cause="input", pattern="periodic", gain=0.20,
                period=8),
    # 4 of 400 steps take 4400 instead of 400: 16 s of 176 s. A checkpoint is no straggler.
    "u21": dict(status="bottleneck", kind=DEVICE, ids=[0], cause="checkpoint", pattern="periodic",
                gain=16 / 176, period=100),
    # 120 in 30 of 100 steps of 400, in calls of the allocator
    "u22": dict(status="straggler", kind=DEVICE, ids=[4], cause="allocator", gain=36 / 436),
    # 45 s once in 200 steps of 0.4 s: nothing that goes on
    "u24": dict(status=("none", "straggler"), one_off=(2, 57, 45 / 125)),
    # +40 in 16 of 20 steps of 400, else -2 (then r0 is last and nothing is gained):
    # 640 of 20 x 400 + 640
    "u26": dict(status="straggler", kind=DEVICE, ids=[1], pattern="persistent", gain=640 / 8640),
    # there is nothing to compare, and it is no hang
    "u27": dict(status="insufficient", says="graph", no_findings=True),
    # 31 wait at #4711, two of them are ahead; rank 17 was killed 600 s before the end
    "u28": dict(status="hang", kind=DEVICE, ids=[17], says="4711", mentions="died|killed|signal"),
    # T 122 -> 110 in each attempt, on the same GPU
    "u29": dict(status="straggler", kind=DEVICE, ids=[6], cause="slow_gpu", gain=12 / 122,
                uuid=r"0*a$", mentions="attempt", all_present=True),
    # T 122 -> 110, by the facts that the driver tells of rank 9's GPU
    "u31-limit": dict(status="straggler", kind=DEVICE, ids=[9], cause="gpu_config",
                      pattern="persistent", gain=12 / 122, mentions="500"),
    "u31-shared": dict(status="straggler", kind=DEVICE, ids=[9], cause="gpu_shared",
                       pattern="persistent", gain=12 / 122, mentions="31337"),
    # +30 in steps 100 to 110 and 2 s once: the profiler's doing. It is said, and nobody is accused.
    "u32": dict(status=("none", "bottleneck"), cause=(None, "observer"), mentions="profiler"),
    # nothing wrong at all
    "even": dict(status="none", grade="full", clock_error=0),
    # r3 takes 20 more, for certain by the durations, but nothing ties the nodes' clocks together
    "two-nodes": dict(status=("undecided", "straggler"), grade="limited", only=[3]),
    # the same with clocks compared to 5 us: T 130 -> 110
    "two-nodes-probed": dict(status="straggler", kind=DEVICE, ids=[3], pattern="persistent",
                             cause="slow_gpu", gain=20 / 130, grade="full"),
    # three steps are not enough, whatever they hold
    "few": dict(status="insufficient"),
}

NOT_YET = {
    "u8": "no node as a subject; the driver's facts are not read",
    "u11": "messages bind nobody: none",
    "u12": "the gain is that of slowness, not of work spread evenly",
    "u14": "an all-to-all without some pair is not matched",
    "u14-empty": "an all-to-all without some pair is not matched",
    "u15": "kernels that synchronise and are not NCCL's count as compute",
    "u15-unknown": "kernels that synchronise and are not NCCL's count as compute",
    "u27": "graphs are not known: 'was the plugin loaded?'",
    "u28": "no hangs yet",
    "u29": "GPUs are not told apart by UUID, ranks of the first attempt are mixed in",
    "u31-limit": "the driver's facts are not read",
    "u31-shared": "the driver's facts are not read",
    "u32": "observers are not known: rank 0 once",
    "u3-work": "the gain is that of pauses, not of work spread evenly",
    "u7": "the gain is 18 instead of 20, the dimension world instead of tp",
    "u9": "stages are not compared: none",
    "u20": "the pattern of what holds all ranks is always persistent",
    "u21": "ranges of checkpoints are not known: jitter of all ranks",
}


def refuse(constant):
    raise ValueError("not JSON: " + constant)


def among(value, allowed):
    if isinstance(allowed, tuple):
        return any(among(value, a) for a in allowed)
    if isinstance(allowed, str) and allowed.endswith("*"):
        return isinstance(value, str) and value.startswith(allowed[:-1])
    return value == allowed


def wrong_one_off(r, rank, step, gain):
    """One finding tells of the step; nothing persistent is said of the rank."""
    once = [f for f in r["findings"] if f["pattern"] == "one_off"]
    if len(once) != 1 or once[0]["subject"]["ids"] != [rank] or once[0]["from_step"] != step:
        return ["no one-off of rank %d at step %d" % (rank, step)]
    if len(r["findings"]) > 1:
        return ["more than the one-off is found"]
    if abs(once[0]["gain_frac"] - gain) > 0.02 * gain:
        return ["gain %.4f, not %.4f" % (once[0]["gain_frac"], gain)]
    return []


def wrong_message(r, size, ms):
    """Messages of that size take ms on the wire, whenever the receive was posted."""
    for op in r["ops"]:
        if op["bytes"] == size and op["core_p50_ns"] is not None:
            if abs(op["core_p50_ns"] / MS - ms) < 0.02 * ms:
                return []
            return ["the message takes %.2f, not %.2f" % (op["core_p50_ns"] / MS, ms)]
    return ["no message of %d bytes" % size]


def words(r):
    """All that the report says in words."""
    said = [p["what"] for p in r["quality"]["problems"]]
    for f in [r["verdict"]] + r["findings"]:
        said += [f["text"]] + f.get("evidence", []) + f.get("ruled_out", []) + f.get("next", [])
    return " ".join(said)


def wrong(r, want, said):
    """Where report r differs from the row: a list of sentences. said: the scenario's own counts."""
    v, out = r["verdict"], []
    gain_wanted = want.get("gain")
    if callable(gain_wanted):
        gain_wanted = gain_wanted(said)

    def check(what, value, allowed):
        if allowed is not None and not among(value, allowed):
            out.append("%s is %r, not %r" % (what, value, allowed))

    subject = v.get("subject") or {}
    check("status", v["status"], want.get("status"))
    check("kind", subject.get("kind"), want.get("kind"))
    check("ids", subject.get("ids"), want.get("ids"))
    check("pattern", v.get("pattern"), want.get("pattern"))
    check("cause", v.get("cause"), want.get("cause"))
    check("dim", (v.get("where") or {}).get("dim"), want.get("dim"))
    check("grade", r["quality"]["grade"], want.get("grade"))
    check("clock error", r["quality"]["clock_error_ns"], want.get("clock_error"))
    check("violations", r["quality"]["violations"], want.get("violations"))
    check("period", v.get("period_steps"), want.get("period"))
    if gain_wanted is not None:
        gain, within = v.get("gain_frac"), 0.02 * gain_wanted
        if gain is None or abs(gain - gain_wanted) > within:
            out.append("gain is %s, not %.4f +- %.4f" % (gain, gain_wanted, within))
    if want.get("status") == "none":
        if r["findings"]:
            out.append("%d findings" % len(r["findings"]))
        if "largest_loss" not in v:
            out.append("no largest loss")
    if "only" in want and any(f["subject"]["ids"] != want["only"] for f in r["findings"]):
        out.append("others than %s are accused" % want["only"])
    problems = [p["what"] for p in r["quality"]["problems"]]
    if "problem" in want and not any(want["problem"] in what for what in problems):
        out.append("no problem tells of '%s'" % want["problem"])
    if "says" in want:
        text = " ".join([v["text"]] + v.get("evidence", []))
        if not re.search(want["says"], text):
            out.append("'%s' does not say /%s/" % (text, want["says"]))
    if "mentions" in want and not re.search(want["mentions"], words(r)):
        out.append("nothing mentions /%s/" % want["mentions"])
    if "no_findings" in want and r["findings"]:
        out.append("%d findings" % len(r["findings"]))
    if "uuid" in want and not re.search(want["uuid"], subject.get("gpu_uuid") or ""):
        out.append("GPU %s, not /%s/" % (subject.get("gpu_uuid"), want["uuid"]))
    if "all_present" in want and r["quality"]["ranks_present"] != r["quality"]["ranks_expected"]:
        out.append("%(ranks_present)d of %(ranks_expected)d ranks present" % r["quality"])
    if "ledger" in want:
        kind, frac = want["ledger"]
        got = sum(l["frac"] for l in r["ledger"] if l["kind"] == kind)
        if abs(got - frac) > 0.05 * frac:
            out.append("ledger: %s %.4f, not %.4f" % (kind, got, frac))
    if "message" in want:
        out += wrong_message(r, *want["message"])
    if "one_off" in want:
        out += wrong_one_off(r, *want["one_off"])
    return out


def broken(r):
    """Where report r contradicts itself, whatever the scenario: a list of sentences."""
    out = []
    for row in r["ranks"]:
        parts = [row[k] for k in ("compute_ns", "exposed_comm_ns", "memcpy_ns", "idle_ns")]
        if row["window_ns"] != sum(parts):
            out.append("rank %d: %s do not sum to %d" % (row["rank"], parts, row["window_ns"]))
        if row["overlap_ns"] + row["exposed_comm_ns"] != row["comm_ns"]:
            out.append("rank %d: overlap and exposed do not sum to comm" % row["rank"])
    if r["ranks"] and r["ledger"]:
        total, windows = sum(l["ns"] for l in r["ledger"]), sum(x["window_ns"] for x in r["ranks"])
        if abs(total - windows / len(r["ranks"])) >= 1:
            out.append("ledger %d, mean window %.1f" % (total, windows / len(r["ranks"])))
    for c in r.get("collectives", []):
        if any(w is not None and w < 0 for w in c["wait_ns"]) or (c["core_ns"] or 0) < 0:
            out.append("negative wait in %s #%d" % (c["comm"], c["seq"]))
    if r["verdict"]["status"] in ("none", "undecided", "insufficient"):
        if r["verdict"]["status"] == "none" and r["findings"]:
            out.append("none beside findings")
    elif r["verdict"] != r["findings"][0]:
        out.append("the verdict is not the first finding")
    return out


class Verdict(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.reports, cls.said = {}, {}

    @classmethod
    def tearDownClass(cls):
        for name, reason in sorted(NOT_YET.items()):
            print("not yet right: %-12s %s" % (name, reason), file=sys.stderr)

    def report(self, name):
        if name in self.reports:
            return self.reports[name]
        with tempfile.TemporaryDirectory() as top:
            run = top + "/run"
            made = subprocess.run([SCENARIO, name, run], check=True, capture_output=True, text=True)
            self.said[name] = {k: int(n) for k, n in (x.split() for x in made.stdout.splitlines())}
            done = subprocess.run([HINDMOST, "report", run, "--json=full"], capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = subprocess.run([HINDMOST, "report", run], capture_output=True, text=True)
            self.assertEqual(text.returncode, 0, text.stderr)
            self.assertIn("VERDICT", text.stdout)
            self.reports[name] = json.loads(done.stdout, parse_constant=refuse)
        return self.reports[name]

    def judge(self, name):
        r = self.report(name)
        self.assertEqual(broken(r), [])
        found = wrong(r, TABLE[name], self.said[name])
        if name in NOT_YET:
            self.assertTrue(found, "comes out right: take it off NOT_YET")
        else:
            self.assertEqual(found, [], r["verdict"]["text"])

    def test_the_lists_agree(self):
        self.assertEqual(set(NOT_YET) - set(TABLE), set())

    def test_u1_table_and_collectives(self):
        # the waits are 12 on every rank but 5
        r = self.report("u1")
        n = r["steps"]["n"]
        self.assertEqual(r["steps"]["median_ns"], 122 * MS)
        for row in r["ranks"]:
            self.assertEqual(row["wait_ns"], 0 if row["rank"] == 5 else 12 * MS * n)
            self.assertEqual(row["last_arrivals"], n if row["rank"] == 5 else 0)
        self.assertEqual(r["ranks"][5]["wait_caused_ns"], 7 * 12 * MS * n)
        self.assertEqual(len(r["collectives"]), 41)
        for i, c in enumerate(sorted(r["collectives"], key=lambda c: c["seq"])):
            self.assertEqual((c["seq"], c["func"], c["bytes"], c["last_rank"]),
                             (i, "AllReduce", 4 << 20, 5))
            self.assertEqual((c["skew_ns"], c["core_ns"]), (12 * MS, 10 * MS))
            self.assertEqual(c["comm"], "1122334455667788")

    def test_u17_lateness(self):
        # 50 late in every step, though repairing it gains only 30
        r = self.report("u17")
        self.assertAlmostEqual(r["verdict"]["lateness_ns"] / r["steps"]["n"] / MS, 50, delta=0.1)


for scenario in TABLE:
    setattr(Verdict, "test_" + scenario.replace("-", "_"),
            lambda self, name=scenario: self.judge(name))

unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[3:])
