"""Columns of a rank file with h5py alone, by docs/format.md."""
import numpy


def column(table, name):
    """Values of a column; differences restart in every chunk."""
    data = table[name]
    values = data[:]
    step = data.chunks[0] if data.chunks else max(len(values), 1)
    if data.attrs.get("delta", data.attrs.get("encoding", 0)) in (1, "delta", b"delta"):
        for at in range(0, len(values), step):
            values[at:at + step] = numpy.cumsum(values[at:at + step])
    return values
