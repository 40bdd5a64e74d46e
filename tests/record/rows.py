"""Counts rows of a rank file with h5py alone. usage: rows.py FILE TABLE... prints "TABLE N" lines.

TABLE.COLUMN prints the values of a column.
"""
import sys

import h5py

from decode import column


def main(path, *wanted):
    with h5py.File(path, "r") as f:
        for what in wanted:
            table, _, name = what.partition(".")
            if table not in f:
                print(what, 0)
            elif name:
                print(what, *column(f[table], name))
            else:
                print(what, f[table]["t"].shape[0])


main(*sys.argv[1:])
