"""A plugin that was configured before ours hears through us what NCCL alone would have told it.

usage: chain.py BUILD JOB RECORDING_PLUGINS. The plugin behind is one that writes down each callback
(tests/vgpu_nccl_tests/plugin.c); its log with hindmost in front must equal the one without.
"""
import collections
import glob
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import releases  # noqa: E402
from releases import PATH, SO, Wrong, check_rank, run, same  # noqa: E402

FOLDER = os.path.abspath(sys.argv[3])
ARGS = [2, "destroy"]


def rec(kind):
    return os.path.join(FOLDER, "libnccl-profiler-rec%s.so" % kind)


def logs(folder):
    """Both ranks' callbacks: the application's thread in order, the proxy's as a bag (what it does
    first of two things is its own affair), how often it sleeps left out."""
    out = []
    for path in sorted(glob.glob(os.path.join(folder, "log.*"))):
        with open(path) as f:
            lines = [re.sub(r" @.*", "", l.strip()) for l in f if "ProxyCtrl" not in l]
        app = [l for l in lines if l[0] == "A"]
        ctx = [l for l in lines if l[0] == "O"]
        bare = [re.sub(r"([A-Za-z])\d+", r"\1", l) for l in lines if l[0] == "P"]
        out.append((app, collections.Counter(ctx), collections.Counter(bare)))
    return out


def one(release, env, mask, hindmost):
    folder = tempfile.mkdtemp(prefix="hm-chain-")
    full = dict(env, REC_LOG=os.path.join(folder, "log"), REC_MASK=mask)
    for key in ("NCCL_CONF_FILE", "HOME"):
        if key in full:  # the text of the file
            name = os.path.join(folder, ".nccl.conf" if key == "HOME" else "nccl.conf")
            with open(name, "w") as f:
                f.write(full[key])
            full[key] = folder if key == "HOME" else name
    try:
        text = run(folder, release, full, ARGS)
        if hindmost:
            for rank in range(2):
                check_rank(folder, release, rank)
        return text, logs(folder)
    finally:
        shutil.rmtree(folder)


def forwards(release, kind, mask, way):
    preload = {"LD_PRELOAD": PATH}
    conf = "# site\nNCCL_DEBUG=WARN\n NCCL_PROFILER_PLUGIN = %s # ours\n" % rec(kind)
    env = {"environment": dict(preload, NCCL_PROFILER_PLUGIN=rec(kind)),
           "suffix": dict(preload, NCCL_PROFILER_PLUGIN="rec" + kind),
           "file": dict(preload, NCCL_CONF_FILE=conf),
           "home": dict(preload, HOME=conf),
           "setting": {"NCCL_PROFILER_PLUGIN": SO, "HINDMOST_CHAIN_PLUGIN": rec(kind)}}[way]
    path = releases.LIB + ":" + os.path.join(releases.BUILD, "vgpu") + ":" + FOLDER
    env["LD_LIBRARY_PATH"] = path
    text, chained = one(release, env, mask, True)
    alone = one(release, {"NCCL_PROFILER_PLUGIN": rec(kind)}, mask, False)[1]
    same("two logs", len(chained), 2)
    for a, b in zip(chained, alone):
        for what, x, y in zip(("application", "init", "proxy"), a, b):
            if x != y and what == "application":
                i = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
                raise Wrong("callback %d: %r instead of %r" % (i, x[i:i + 2], y[i:i + 2]))
            same(what, x, y)
        if not a[0]:
            raise Wrong("an empty log proves nothing")
    if "runs behind this recording" not in text:
        raise Wrong("not named: %r" % text)


def off(way):
    env = {"LD_PRELOAD": PATH, "NCCL_PROFILER_PLUGIN": rec("5")}
    if way == "off":
        env["HINDMOST_CHAIN"] = "off"
    elif way == "interface":
        env["NCCL_PROFILER_PLUGIN"] = rec("4")
    elif way == "missing":
        env["NCCL_PROFILER_PLUGIN"] = "/nowhere/libx.so"
    text, found = one("2.28.9", env, "0xfff", True)
    same("logs", found, [])
    word = {"off": None, "interface": "has interface 4", "missing": "cannot be loaded"}[way]
    if (word and word not in text) or (not word and text.strip()):
        raise Wrong("said: %r" % text)


CASES = [("forwards", ("2.28.9", "5", "0xfff", w)) for w in
         ("environment", "suffix", "file", "home", "setting")]
CASES += [("forwards", ("2.28.9", "5", m, "environment")) for m in ("0x2", "0x4", "0x8", "0x800")]
CASES += [("forwards", ("2.27.7", "4", m, "environment")) for m in ("0xff", "0x3")]
CASES += [("off", (w,)) for w in ("off", "interface", "missing")]


def main():
    bad = 0
    for name, args in CASES:
        try:
            globals()[name](*args)
            print("ok   %s %s" % (name, " ".join(args)))
        except (Wrong, OSError, KeyError) as e:
            bad += 1
            print("FAIL %s %s: %s" % (name, " ".join(args), str(e)[:600]))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
