"""Marks for the hindmost recorder from Python: steps, ranges, counters.

    import hindmost
    hindmost.step(n)                    # step n begins, the one before it ends
    with hindmost.range("input"): ...   # nests; per thread
    hindmost.counter("loss", 0.25)

`python -m hindmost train.py` sets these marks in a PyTorch training by itself. Standard library
only. Without the recorder in the process every call does nothing. Thread: any; about 1 us a call.
"""

import contextlib
import ctypes
import os

_NAMES = ("libnccl-profiler-hindmost.so", "libhindmost.so")


def _call(*args):
    return ctypes.PYFUNCTYPE(None, *args)  # keeps the interpreter's lock: no call here ever waits


class _Api(ctypes.Structure):
    """struct hm_api of hindmost.h."""

    _fields_ = [("size", ctypes.c_size_t),
                ("step", _call(ctypes.c_int64)),
                ("step_end", _call()),
                ("range_push", _call(ctypes.c_char_p, ctypes.c_size_t)),
                ("range_pop", _call()),
                ("mark", _call(ctypes.c_char_p, ctypes.c_size_t)),
                ("counter_i64", _call(ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64)),
                ("counter_f64", _call(ctypes.c_char_p, ctypes.c_size_t, ctypes.c_double)),
                ("start", _call()),
                ("stop", _call())]


def _places():
    """Where the library may lie: where the launcher says, else beside this package."""
    for variable in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"):
        path = os.environ.get(variable, "")
        if os.path.basename(path) in _NAMES and os.path.isabs(path):
            yield path
    root = os.path.dirname(os.path.abspath(__file__))
    for _ in (1, 2, 3, 4, 5):
        root = os.path.dirname(root)
        for lib in ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"):
            yield os.path.join(root, lib, _NAMES[0])


def _find(load):
    """The recorder's table: from the process, else (`load`) from the library; None without it."""
    if os.environ.get("HINDMOST", "").lower() in ("off", "0", "no", "false"):
        return None
    paths = [p for p in _places() if os.path.exists(p)] if load else []
    for path in [None] + paths:
        try:
            api = _Api.in_dll(ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL), "hindmost_api_1")
        except (OSError, ValueError):
            continue
        if api.size >= ctypes.sizeof(_Api):
            return api
    return None


_api = _find(load=False)


def attach():
    """Loads the recorder when it is not in the process yet. Returns whether it is there now."""
    global _api
    _api = _api or _find(load=True)
    return _api is not None


def step(number):
    """Step `number` begins and the one before it ends; count upwards on all ranks alike."""
    if _api:
        _api.step(number)


def step_end():
    """The running step ends here; what follows belongs to no step."""
    if _api:
        _api.step_end()


def range_push(name):
    """A range of this thread begins. "input" is taken for waiting on data, "checkpoint" for saving."""
    if _api:
        text = name.encode()
        _api.range_push(text, len(text))


def range_pop():
    """The innermost range of this thread ends."""
    if _api:
        _api.range_pop()


@contextlib.contextmanager
def range(name):  # pylint: disable=redefined-builtin
    """A range around a block."""
    range_push(name)
    try:
        yield
    finally:
        range_pop()


def mark(name):
    """An instant with a name."""
    if _api:
        text = name.encode()
        _api.mark(text, len(text))


def counter(name, value):
    """The value of a counter from now on: int or float."""
    if _api:
        text = name.encode()
        (_api.counter_i64 if isinstance(value, int) else _api.counter_f64)(text, len(text), value)


def start():
    """Recording goes on."""
    if _api:
        _api.start()


def stop():
    """Recording pauses; step marks are still taken."""
    if _api:
        _api.stop()
