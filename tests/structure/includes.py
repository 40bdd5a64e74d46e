"""Checks every #include of the project against the boxes of docs/architecture.md.

usage: includes.py ROOT. Exit 1 with one line per include that crosses a border.
"""
import pathlib
import re
import sys

# box -> project boxes it may include from; None in the second place = no foreign header beyond libc
RULES = {
    "lib/include": {"uses": set()},
    "lib/core": {"uses": {"core"}},
    "lib/record": {"uses": {"core", "record", "hindmost"}},
    "nccl-plugin": {"uses": {"core", "record/state.h", "plugin"}},
    "lib/writer": {"uses": {"core", "store", "writer"}},
    "lib/store": {"uses": {"core", "store"}},
    "lib/align": {"uses": {"core", "align"}},
    "lib/analysis": {"uses": {"core", "align", "analysis", "store/rank.h"}},
    "merge": {"uses": {"core", "store", "align", "analysis", "merge", "hindmost"}},
}
# foreign headers that only some boxes may name
FOREIGN = {
    "hdf5": {"lib/store"},
    "zlib": {"lib/store", "merge"},
    "mpi.h": set(),
    "cupti": set(),
    "cuda": set(),
    "nccl.h": set(),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
MERGE_PARTS = {"engine", "timeline", "report", "out", "import", "demo", "cmd", "cli.h", "cli_run.h"}


def box_of(path):
    for box in sorted(RULES, key=len, reverse=True):
        if path.startswith(box + "/"):
            return box
    return None


def main(root):
    bad = []
    n = 0
    for path in sorted(pathlib.Path(root).rglob("*")):
        rel = path.relative_to(root).as_posix()
        box = box_of(rel)
        if box is None or path.suffix not in (".c", ".h", ".def"):
            continue
        for quote, name in INCLUDE.findall(path.read_text(errors="replace")):
            n += 1
            first = name.split("/")[0]
            if quote == "<":
                for key, boxes in FOREIGN.items():
                    if name.lower().startswith(key) and box not in boxes:
                        bad.append(f"{rel}: <{name}> is not for {box}")
                continue
            uses = RULES[box]["uses"]
            local = (path.parent / name).exists() and "/" not in name
            if local or name in uses or first in uses:
                continue
            if box == "merge" and (first in MERGE_PARTS or name in MERGE_PARTS):
                continue
            bad.append(f'{rel}: "{name}" is not for {box}')
    for line in bad:
        print(line)
    if n < 50:
        print(f"only {n} includes seen: wrong folder?")
        return 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
