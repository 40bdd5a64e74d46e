"""python -m hindmost [-m] TRAIN ARGS: runs a training and marks what PyTorch does in it.

    optimizer.step()   ends a step (of the first optimizer that steps)
    DataLoader         range "input" while the training waits for a batch
    torch.save         range "checkpoint", torch.distributed.checkpoint's save too
    garbage collection range "gc"

Where torch is absent only "gc" is marked; where the recorder is, one line says so and the training
runs as it would. Nothing is patched before the training imports it.
"""

import functools
import gc
import importlib.abc
import os
import runpy
import sys
import weakref

import hindmost


class _Steps:
    """Numbers the steps by the first optimizer that takes one."""

    def __init__(self):
        self.number = -1
        self.counts = lambda: None

    def begin(self):
        if self.number < 0:
            self.number = 0
            hindmost.step(0)

    def taken(self, optimizer):
        if self.counts() is None:
            self.counts = weakref.ref(optimizer)
        if self.counts() is optimizer:
            self.number = max(self.number, 0) + 1
            hindmost.step(self.number)


steps = _Steps()


def ranged(name, call, before=None):
    """`call` inside a range."""

    @functools.wraps(call)
    def wrapper(*args, **kwargs):
        if before:
            before()
        hindmost.range_push(name)
        try:
            return call(*args, **kwargs)
        finally:
            hindmost.range_pop()

    return wrapper


def stepped(call):
    """`step` of an optimizer class; a subclass that calls its parent's counts once."""

    @functools.wraps(call)
    def step(self, *args, **kwargs):
        inner, self._hindmost_inside = getattr(self, "_hindmost_inside", False), True
        try:
            return call(self, *args, **kwargs)
        finally:
            self._hindmost_inside = inner
            if not inner:
                steps.taken(self)

    step._hindmost = True
    return step


def patch_optimizer(module):
    init = module.Optimizer.__init__

    @functools.wraps(init)
    def wrapper(self, *args, **kwargs):
        init(self, *args, **kwargs)
        kind = type(self)
        if not getattr(kind.step, "_hindmost", False):
            kind.step = stepped(kind.step)

    module.Optimizer.__init__ = wrapper


def patch_loader(module):
    base = module._BaseDataLoaderIter
    base.__next__ = ranged("input", base.__next__, steps.begin)
    module.DataLoader.__iter__ = ranged("input", module.DataLoader.__iter__, steps.begin)


def patch_save(module):
    for name in ("save", "async_save", "save_state_dict"):
        if hasattr(module, name):
            setattr(module, name, ranged("checkpoint", getattr(module, name)))


PATCHES = {"torch.optim.optimizer": patch_optimizer,
           "torch.utils.data.dataloader": patch_loader,
           "torch.serialization": patch_save,
           "torch.distributed.checkpoint.state_dict_saver": patch_save}


class _Patched(importlib.abc.Loader):
    """A module's own loader, and the patch after it. A patch that fails is named and left out."""

    def __init__(self, loader, patch):
        self.loader, self.patch = loader, patch

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        try:
            self.patch(module)
        except Exception as error:  # torch changed: the training goes on without this mark
            print(f"hindmost: {module.__name__}: not marked ({error!r})", file=sys.stderr)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in PATCHES:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec and spec.loader:
                spec.loader = _Patched(spec.loader, PATCHES[name])
                return spec
        return None


def collected(phase, info):
    """The youngest generation is collected all the time and costs microseconds: left out."""
    if info["generation"] == 0:
        return
    if phase == "start":
        hindmost.range_push("gc")
    else:
        hindmost.range_pop()


def main():
    args = sys.argv[1:]
    as_module = args[:1] == ["-m"]
    args = args[as_module:]
    if not args or args[0].startswith("-"):
        print("usage: python -m hindmost [-m] TRAIN [ARGS]", file=sys.stderr)
        return 64
    if hindmost.attach():
        sys.meta_path.insert(0, _Finder())
        gc.callbacks.append(collected)
    else:
        print("hindmost: the recorder was not found, nothing is recorded", file=sys.stderr)
    sys.argv = args
    if as_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(args[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(args[0]))
        runpy.run_path(args[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
