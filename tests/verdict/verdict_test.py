"""The scenarios with a known right answer, end to end: rank files -> `hindmost report`.

usage: verdict_test.py SCENARIO_PROGRAM HINDMOST [scenarios|examples|odd|all [unittest arguments]]

What is right stands in expected.py, with the rows on which the analyser is known to be wrong: such
a row fails the test on the day it comes out right, so that it is taken off the list. Whatever the
scenario, the report must be valid JSON, agree with itself, and be fit for a terminal.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:  # not everywhere; tests/analysis says so
    jsonschema = None

sys.dont_write_bytecode = True  # the source tree stays as it is
from expected import NOT_YET, QUIET, TABLE  # noqa: E402

SCENARIO, HINDMOST = sys.argv[1:3]
GROUP = sys.argv[3] if len(sys.argv) > 3 else "all"
MS = 1_000_000
SCHEMA = None
if jsonschema:
    path = pathlib.Path(__file__).parents[2] / "docs" / "report.schema.json"
    SCHEMA = jsonschema.Draft7Validator(json.loads(path.read_text()))
TABLES = ("ranks", "steps", "collectives", "kernels", "ops", "ledger")


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


def at(r, path):
    for key in path.split("."):
        r = r[int(key) if key.isdigit() else key]
    return r


def wrong_exact(r, values):
    out = []
    for path, want in values.items():
        try:
            got = at(r, path)
        except (KeyError, IndexError):
            got = "not there"
        if isinstance(want, float) and isinstance(got, (int, float)):
            got = want if abs(got - want) < 1e-4 * want else got
        if got != want:
            out.append("%s is %s, not %s" % (path, got, want))
    return out


def wrong_trend(r, series, step, before, after):
    """A change of that series of all ranks; the times may be a percent off."""
    for t in r["trends"]:
        if (t["series"], t["kind"], t["rank"], t["step"]) == (series, "change", None, step):
            off = [abs(t["before_ns"] - before) / before, abs(t["after_ns"] - after) / after]
            return [] if max(off) < 0.01 else ["the change is off by %s" % off]
    return ["no change of '%s' at step %d" % (series, step)]


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
    if "gain" in want and len(r["findings"]) > 1:
        out.append("and further: " + "; ".join(f["text"] for f in r["findings"][1:]))
    if v.get("cause") not in (None, "unknown", "mixed") and "cause is not known" in v["text"]:
        out.append("the sentence does not know the cause %s" % v["cause"])
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
    total = (r["steps"]["total_ns"] or 0) / 1e9
    if "total" in want and not want["total"][0] <= total <= want["total"][1]:
        out.append("%.3f s analysed, not %s" % (total, want["total"]))
    if "good_only_with" in want and r["quality"]["grade"] == "full":
        if not want["good_only_with"][0] <= total <= want["good_only_with"][1]:
            out.append("grade full, with %.3f s analysed" % total)
    if "caused_by" in want:
        others = [x for x in r["ranks"] if x["rank"] != want["caused_by"]]
        charged = sum(x["wait_caused_ns"] + x["wait_caused_indirect_ns"] for x in others)
        if charged > 0.01 * sum(x["wait_ns"] for x in r["ranks"]):
            out.append("%d ns of waiting are charged to others" % charged)
    if "exact" in want:
        out += wrong_exact(r, want["exact"])
    if "trend" in want:
        out += wrong_trend(r, *want["trend"])
    if "message" in want:
        out += wrong_message(r, *want["message"])
    if "one_off" in want:
        out += wrong_one_off(r, *want["one_off"])
    return out


def unexplained(node, path=""):
    """Every null has its reason beside it."""
    out = []
    if isinstance(node, list):
        for i, value in enumerate(node):
            out += unexplained(value, "%s.%d" % (path, i))
    elif isinstance(node, dict):
        for key, value in node.items():
            if value is None and not node.get(key + "_why"):
                out.append("%s.%s is null without a reason" % (path, key))
            out += unexplained(value, path + "." + key)
    return out


def invalid(r):
    """Where report r is not as its schema says; of long lists the begin is enough."""
    short = {k: v[:3] if k in ("collectives", "step") else v for k, v in r.items()}
    out = unexplained(short)
    if SCHEMA:
        out += ["%s: %s" % (e.json_path, e.message) for e in SCHEMA.iter_errors(short)]
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
    out += broken_waits(r)
    for f in r["findings"]:
        if f["gain_ns"] is not None and not 0 <= f["gain_ns"] <= r["steps"]["total_ns"]:
            out.append("gain %d of %d" % (f["gain_ns"], r["steps"]["total_ns"]))
    steps = r["step"]
    if sum(s["time_ns"] for s in steps) != (r["steps"]["total_ns"] or 0):
        out.append("the steps do not sum to the total")
    if len(steps) != r["steps"]["n"]:
        out.append("%d steps listed, %d analysed" % (len(steps), r["steps"]["n"]))
    if not r["verdict"]["text"]:
        out.append("no sentence")
    if r["verdict"]["status"] == "none" and r["findings"]:
        out.append("none beside findings")
    if r["verdict"]["status"] not in QUIET and r["verdict"] != r["findings"][0]:
        out.append("the verdict is not the first finding")
    return out


def broken_waits(r):
    """Every wait of a rank is that of a collective, and no more is charged than was waited."""
    out = []
    suffered = sum(x["wait_ns"] or 0 for x in r["ranks"])
    caused = [x[k] or 0 for x in r["ranks"] for k in ("wait_caused_ns", "wait_caused_indirect_ns")]
    if min(caused, default=0) < 0 or sum(caused) > suffered:
        out.append("waits of %d are charged as %d" % (suffered, sum(caused)))
    by_comm = {}
    for c in r["collectives"]:
        known = [w for w in c["wait_ns"] if w is not None]
        if any(w < 0 for w in known) or (c["core_ns"] or 0) < 0:
            out.append("negative wait in %s #%d" % (c["comm"], c["seq"]))
        by_comm.setdefault((c["comm"], c["func"]), []).append(c)
    # The analysed steps are the last ones, and all steps of a scenario launch the same. Where more
    # than the warm-up is left out, those steps lie anywhere.
    if r["steps"]["n_skipped"] > 1:
        return out
    n_all = r["steps"]["n"] + r["steps"]["n_skipped"]
    total = 0
    for launches in by_comm.values():
        if len(launches) % n_all or any(None in c["wait_ns"] for c in launches):
            return out
        launches.sort(key=lambda c: c["seq"])
        first = len(launches) // n_all * r["steps"]["n_skipped"]
        total += sum(sum(c["wait_ns"]) for c in launches[first:])
    if r["quality"]["clock_error_ns"] is not None and total != suffered:
        out.append("ranks waited %d, in collectives %d" % (suffered, total))
    return out


class Verdict(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.reports, cls.said, cls.unfit = {}, {}, {}

    @classmethod
    def tearDownClass(cls):
        for name, reason in sorted(NOT_YET.items()):
            if GROUP not in ("all", group_of(name)):
                continue
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
            self.unfit[name] = self.read_as_text(run, every=name.startswith("odd"))
            self.reports[name] = json.loads(done.stdout, parse_constant=refuse)
        return self.reports[name]

    def read_as_text(self, run, every):
        """The words and the tables are for terminals and spreadsheets: no control characters."""
        ways = [[]]
        if every:
            ways += [["--digest"]] + [["--csv", t] for t in TABLES]
        unfit = []
        for way in ways:
            done = subprocess.run([HINDMOST, "report", run] + way, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = done.stdout.decode(errors="replace")
            if "\ufffd" in text or re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text):
                unfit.append("report %s prints what is no text" % " ".join(way))
            self.assertIsNone(re.search(r"\b-?(nan|inf)\b", text, re.IGNORECASE), way)
            if not way:
                self.assertIn("VERDICT", text)
        return unfit

    def judge(self, name):
        r = self.report(name)
        self.assertEqual(broken(r) + invalid(r), [])
        found = wrong(r, TABLE[name], self.said[name]) + self.unfit[name]
        if name in NOT_YET:
            self.assertTrue(found, "comes out right: take it off NOT_YET")
        else:
            self.assertEqual(found, [], r["verdict"]["text"])

    def test_the_lists_agree(self):
        self.assertEqual(set(NOT_YET) - set(TABLE), set())

    @unittest.skipUnless(GROUP in ("all", "scenarios"), "in the group scenarios")
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

    @unittest.skipUnless(GROUP in ("all", "scenarios"), "in the group scenarios")
    def test_u17_lateness(self):
        # 50 late in every step, though repairing it gains only 30
        r = self.report("u17")
        self.assertAlmostEqual(r["verdict"]["lateness_ns"] / r["steps"]["n"] / MS, 50, delta=0.1)


def group_of(name):
    if name.startswith("odd"):
        return "odd"
    return "examples" if re.match(r"e\d", name) else "scenarios"


for scenario in TABLE:
    if GROUP in ("all", group_of(scenario)):
        setattr(Verdict, "test_" + scenario.replace("-", "_"),
                lambda self, name=scenario: self.judge(name))

unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[4:])
