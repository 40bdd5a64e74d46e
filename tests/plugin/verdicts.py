"""The same slow rank under every NCCL: each interface must lead to the same verdict.

usage: verdicts.py BUILD. A training on the virtual GPU with the virtual NCCL as that release; rank 1
computes 1.25 times slower, and nothing else is wrong.
"""
import json
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
HINDMOST, TRAIN = BUILD + "/bin/hindmost", BUILD + "/examples/ddp-train"
RELEASES = ["2.20.5", "2.23.4", "2.25.1", "2.26.6", "2.27.7", "2.30.7", "2.31.2"]


def verdict(release, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HINDMOST", "NCCL_", "VGPU_"))}
    env.update(OMPI_MCA_btl_vader_single_copy_mechanism="none", HINDMOST_DIGEST="0",
               HINDMOST_OUT=folder + "/run", VGPU_NCCL_RELEASE=release)
    subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", HINDMOST, "run",
                    "--", TRAIN, "--steps", "40", "--slow-gpu", "1:1.25"], env=env, check=True,
                   stdout=subprocess.DEVNULL, timeout=120)
    done = subprocess.run([HINDMOST, "report", folder + "/run", "--json"], check=True,
                          stdout=subprocess.PIPE)
    r = json.loads(done.stdout)
    v, q = r["verdict"], r["quality"]
    return (v["status"], v.get("subject", {}).get("ids"), v.get("cause"), q["grade"],
            q["matched_frac"], q["arrival_source"])


def main():
    bad = 0
    for release in RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            got = verdict(release, folder)
        ok = got == ("straggler", [1], "slow_gpu", "full", 1, "kernel")
        bad += not ok
        print("%s %s: %r" % ("ok  " if ok else "FAIL", release, got))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
