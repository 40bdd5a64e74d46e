"""A finished rank file opens with h5py and h5dump, with stock filters only.

usage: h5py_test.py FILE   (written by store_test: t = 1000 i, correlation = i, grid_x = i mod 7)
"""
import subprocess
import sys

try:
    import h5py
    import numpy
except ImportError as e:
    print(f"skipped: {e} in {sys.executable}")
    sys.exit(77)

CHUNK = 16384
with h5py.File(sys.argv[1]) as f:
    def column(name):
        d = f["kernel/" + name]
        v = d[:]
        return v

    def delta(name):
        v = column(name)
        return numpy.concatenate([numpy.cumsum(v[i:i + CHUNK], dtype=v.dtype) for i in range(0, len(v), CHUNK)])

    i = numpy.arange(40000)
    assert (delta("t") == 1000 * i).all()
    assert (delta("correlation") == i).all()
    assert (column("grid_x") == i % 7).all()
    assert (column("dur") == 500).all()
    assert f["kernel/t"].compression == "gzip" and f["kernel/t"].shuffle
    assert f["kernel/t"].attrs["unit"] == b"ns"
    assert f["meta"].attrs["end"] == b"clean" and f["meta"].attrs["schema"] == 1
    length, text = f["def/string/len"][:], bytes(f["def/string/text"][:])
    at = [0] + [int(x) for x in numpy.cumsum(length)]
    names = [text[at[k]:at[k + 1]] for k in range(len(length))]
    assert names == [b"stream", b"kernel", b"", b"", b'last "\n\xff'], names
    assert list(f["kernel/index/row"][:]) == [0, 16384, 32768]
    assert list(f["kernel/index/t_min"][:]) == [0, 16384000, 32768000]
out = subprocess.run(["h5dump", "-d", "/kernel/grid_x", "-s", "16385", "-c", "3", sys.argv[1]],
                     capture_output=True, text=True, check=True).stdout
assert ", ".join(str(x % 7) for x in (16385, 16386, 16387)) in out, out
print("h5py and h5dump agree")
