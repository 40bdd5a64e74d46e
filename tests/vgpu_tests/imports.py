"""Every cuda, nccl and cupti symbol the example and the recorder import by name is exported by a stand-in.

usage: imports.py STAND_IN_FOLDER PROGRAM...
"""
import re
import subprocess
import sys

folder, programs = sys.argv[1], sys.argv[2:]


def symbols(path, *options):
    done = subprocess.run(["nm", "-D", *options, path], capture_output=True, text=True, check=True)
    return [line.split()[-1] for line in done.stdout.splitlines() if line.strip()]


exported = set()
for name in ("libcudart.so.13", "libnccl.so.2", "libcupti.so.13"):
    exported |= set(symbols(f"{folder}/{name}", "--defined-only"))
exported |= {s.replace("@@", "@") for s in exported} | {s.split("@")[0] for s in exported if s.startswith("nccl")}
failed = 0
for program in programs:
    wanted = [s for s in symbols(program, "--undefined-only") if re.match(r"(__)?cuda|p?nccl|cupti", s)]
    missing = [s for s in wanted if s not in exported]
    print(f"{program}: {len(wanted)} imports, missing: {missing or 'none'}")
    failed |= bool(missing) or not wanted
    # the version node is the real library's, or the program would not start on a GPU machine
    cuda = [s for s in wanted if "cuda" in s]
    failed |= any(not s.endswith("@libcudart.so.13") for s in cuda)
sys.exit(failed)
