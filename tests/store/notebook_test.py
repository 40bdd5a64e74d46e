"""Runs the code of examples/notebook on a rank file whose kernels are known.

usage: notebook_test.py HINDMOST NOTEBOOK. 77 = no h5py.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import h5py  # noqa: F401
except ImportError:
    print("skipped: python3-h5py is not installed")
    sys.exit(77)

hindmost, notebook = sys.argv[1:]
# stream 7: 20,000 kernels of 3 us, one every 10 us (more than one chunk); stream 9: 10 of 500 us
events = [{"ph": "X", "cat": "kernel", "name": "small", "pid": 2, "tid": 7, "ts": 1000 + 10 * i,
           "dur": 3, "args": {"device": 2, "stream": 7}} for i in range(20000)]
events += [{"ph": "X", "cat": "kernel", "name": "large", "pid": 2, "tid": 9, "ts": 1000 * i,
            "dur": 500.5, "args": {"device": 2, "stream": 9}} for i in range(10)]
want = """rank 1 of 4 ended clean
device 2 stream 7: 20000 kernels, 60.000 ms busy in 199.993 ms
device 2 stream 9: 10 kernels, 5.005 ms busy in 9.501 ms
   60.000 ms   20000 x  small
    5.005 ms      10 x  large
"""
with tempfile.TemporaryDirectory() as tmp:
    with open(tmp + "/trace.json", "w") as f:
        json.dump({"distributedInfo": {"rank": 1, "world_size": 4}, "traceEvents": events}, f)
    subprocess.run([hindmost, "import", "kineto", tmp + "/trace.json", "-o", tmp + "/run"],
                   check=True)
    with open(notebook) as f:
        cells = [c for c in json.load(f)["cells"] if c["cell_type"] == "code"]
    program = "\n".join("".join(c["source"]) for c in cells)
    got = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "HM_RANK_FILE": tmp + "/run/rank-00001.h5"}, check=True)
if got.stdout != want:
    sys.exit(f"got:\n{got.stdout}expected:\n{want}")
print("the notebook prints what is in the file")
