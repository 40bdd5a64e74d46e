"""Rows of a table as text, one a line. usage: ranges.py FILE TABLE COLUMN...

Columns that are ids of texts (name, domain) are shown as their text, "-" = none; `open` is 1 where
the row had not ended; `thread` is the name of its track.
"""
import sys

import h5py

from decode import column

NO_ID = 2**32 - 1


def texts(f):
    raw, at, found = f["/def/string"]["text"][:].tobytes(), 0, []
    for n in f["/def/string"]["len"][:]:
        found.append(raw[at:at + n].decode())
        at += n
    return found


def main(path, table, *wanted):
    with h5py.File(path, "r") as f:
        if table not in f:
            return
        names, t = texts(f), f[table]
        show = {"name", "domain"}
        columns = []
        for c in wanted:
            if c == "open":
                values = [int(v == -2**63) for v in column(t, "dur")]
            elif c == "thread":
                track = column(f["/def/track"], "name")
                values = [names[track[i]] for i in column(t, "track")]
            else:
                values = column(t, c)
                if c in show:
                    values = ["-" if v == NO_ID else names[v] for v in values]
                elif c == "category":
                    values = ["-" if v == NO_ID else v for v in values]
            columns.append(values)
        for row in zip(*columns):
            print("|".join(str(v) for v in row))


main(*sys.argv[1:])
