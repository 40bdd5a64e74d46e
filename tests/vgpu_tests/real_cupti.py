"""The stand-in libcupti answers like the toolkit's own on a machine without a GPU.

usage: real_cupti.py CUPTI_ASK STAND_IN REAL; exit 77 = skipped
"""
import difflib
import os
import subprocess
import sys

ask, stand_in, real = sys.argv[1:]
if not os.path.exists(real):
    print(f"skipped: no {real}")
    sys.exit(77)
if os.path.exists("/dev/nvidia0"):
    print("skipped: with a GPU the real library has other answers")
    sys.exit(77)


def answers(library):
    done = subprocess.run([ask, library], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


ours, theirs = answers(stand_in), answers(real)
assert len(theirs) > 1000, len(theirs)
diff = list(difflib.unified_diff(theirs, ours, "real", "stand-in", n=0, lineterm=""))
print("\n".join(diff) or f"{len(theirs)} answers, all the same")
sys.exit(1 if diff else 0)
