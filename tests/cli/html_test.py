"""report --html: one page that needs nothing else, says what the JSON says, and runs nothing.

usage: html_test.py HINDMOST [unittest arguments]
With Chromium the page is also opened, with the network off.
"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HINDMOST = os.path.abspath(sys.argv[1])
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\" onload='x' \x1b[31m\u202e&amp;"


def hm(*args):
    return subprocess.run([HINDMOST, *args], capture_output=True, text=True, timeout=120)


class Page(html.parser.HTMLParser):
    """Tags, attributes, text, rows of tables."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attrs, self.text, self.rows, self.data, self.open = [], [], [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attrs += [(tag, *a) for a in attrs]
        if tag != "meta":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.data += data
        elif self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] != "style":
            self.text.append(data)


class Html(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        cls.run_ = cls.top.name + "/run"
        assert hm("demo", "--ranks", "40", "--steps", "30", "--seed", "3", "--slow-gpu", "1:1.2", "-o", cls.run_).returncode == 0
        cls.path = cls.top.name + "/page.html"
        cls.done = hm("report", cls.run_, "--html", cls.path)
        with open(cls.path, encoding="utf-8") as f:
            cls.page = f.read()

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def test_written_and_said(self):
        self.assertEqual((self.done.returncode, self.done.stdout), (0, ""))
        self.assertIn("page.html", self.done.stderr)
        done = hm("report", self.run_, "--html", self.top.name + "/no/such/folder.html")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        both = hm("report", self.run_, "--html", self.top.name + "/both.html", "--json")
        self.assertEqual(json.loads(both.stdout)["verdict"]["subject"]["ids"], [1])
        self.assertLess(len(self.page), 1 << 20)

    def test_says_what_the_json_says(self):
        page = Page(self.page)
        self.assertEqual(page.open, [])
        report = json.loads(hm("report", self.run_, "--json").stdout)
        self.assertEqual(json.loads(page.data), report)
        text = " ".join(page.text)
        for label in ("VERDICT", "GAIN", "CAUSE", "RULED OUT", "SURE", "NEXT"):
            self.assertIn(label, text)
        self.assertIn(report["verdict"]["text"], text)
        marked = [row for row in page.rows if row and row[-1] == "<-"]
        self.assertEqual([row[0] for row in marked], ["1"])
        # every step has a column, every one of the 32 latest ranks a bar
        self.assertEqual(len(re.findall(r"<title>step \d+: ", self.page)), report["steps"]["n"])
        self.assertEqual(len(re.findall(r'class="end(?: bad)?">rank \d+ ', self.page)), 32)

    def test_bars_are_as_long_as_the_times(self):
        report = json.loads(hm("report", self.run_, "--json").stdout)
        n = report["steps"]["n"]
        line = next(s for s in self.page.splitlines() if s.startswith("<text") and ">rank 1 " in s)
        width = {m.group(2): float(m.group(1)) for m in re.finditer(r'width="([0-9.]+)"[^>]*><title>([^:]+): ', line)}
        rank = report["ranks"][1]
        longest = max(r["window_ns"] for r in report["ranks"])
        self.assertAlmostEqual(width["compute"], 810 * rank["compute_ns"] / longest, delta=0.01)
        self.assertIn(f"compute: {rank['compute_ns'] / n / 1e6:.3f} ms", line)

    def test_needs_nothing_and_runs_nothing(self):
        page = Page(self.page)
        self.assertEqual(page.tags.count("script"), 1)
        self.assertIn(("script", "type", "application/json"), page.attrs)
        self.assertEqual([a for a in page.attrs if a[1] in ("src", "href", "srcset", "action", "xlink:href")
                          or a[1].startswith("on")], [])
        self.assertNotRegex(self.page, r"https?:|//[a-z]|url\(|@import")
        policy = next(a[2] for a in page.attrs if a[0] == "meta" and "default-src" in (a[2] or ""))
        self.assertIn("default-src 'none'", policy)
        # the page is fine without what only eyes see
        self.assertEqual(page.tags.count("svg"), len([a for a in page.attrs if a[0] == "svg" and a[1] == "aria-label"]))

    def hostile(self):
        folder = self.top.name + "/<b>&\"evil'"
        os.makedirs(folder, exist_ok=True)
        events = [{"ph": "X", "cat": "kernel", "name": EVIL, "ts": 100 + 50 * k, "dur": 10, "pid": 0, "tid": 7,
                   "args": {"device": 0, "stream": 7, "correlation": k, "grid": [1, 1, 1], "block": [1, 1, 1]}} for k in range(9)]
        for rank in (0, 1):
            with open(f"{folder}/rank{rank}.json", "w") as f:
                json.dump({"schemaVersion": 1, "traceEvents": events}, f)
        with open(f"{folder}/<script>alert(2)</script>.json".replace("</", "<"), "w") as f:
            f.write('{"schemaVersion": 1, "traceEvents": [{"ph": "X"')
        return folder

    def test_hostile_names_stay_text(self):
        path = self.top.name + "/evil.html"
        done = hm("report", self.hostile(), "--html", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        page = Page(text)
        self.assertEqual(page.tags.count("script"), 1)
        self.assertNotIn("img", page.tags)
        self.assertEqual([a for a in page.attrs if a[1].startswith("on") or a[1] == "src"], [])
        self.assertNotIn("\x1b", text)
        cells = [c for row in page.rows for c in row]
        self.assertTrue(any("<script>alert(1)</script>" in c for c in cells))  # as text
        json.loads(page.data)

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
    def test_opens_in_a_browser_without_a_complaint(self):
        hostile = self.top.name + "/evil2.html"
        hm("report", self.hostile(), "--html", hostile)
        for path in (self.path, hostile):
            done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
                                   "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.top.name}/chromium",
                                   "--dump-dom", "file://" + path], capture_output=True, text=True, timeout=120)
            self.assertIn("VERDICT", done.stdout)
            complaints = [s for s in done.stderr.splitlines() if "CONSOLE" in s or "Content Security Policy" in s]
            self.assertEqual(complaints, [])
            self.assertEqual(done.stdout.count("<script"), 1)


unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[2:])
