"""core/mpi.def against the prototypes of mpi.h: number of arguments, and what each role stands for.

usage: table.py MPI_DEF MPI_H
"""
import re
import sys

rows = re.findall(r'^HM_MPI\((\d+), (\w+), (\d+), "([^"]*)"\)$', open(sys.argv[1]).read(), re.M)
header = re.sub(r"/\*.*?\*/", "", open(sys.argv[2]).read(), flags=re.S)
# what an argument must be called or typed like, by role
ROLES = {
    "c": r"MPI_Comm \w*comm",
    "t": r"MPI_Datatype \w*type\w*",
    "n": r"int \w*count\w*",
    "N": r"int \w*count",
    "V": r"const int \w*counts\[\]",
    "b": r"(const )?void \*(sendbuf|recvbuf)",
    "p": r"int (dest|source|root|rank|target_rank)",
    "g": r"int (tag|sendtag)",
    "r": r"int (count|incount)",
    "f": r"int \*?(flag|outcount)(\[\])?",
}
seen = set()
for number, name, n, roles in rows:
    assert number not in seen, f"{name}: number {number} is taken"
    seen.add(number)
    found = re.search(r"\bint\s+MPI_" + name + r"\(([^;]*?)\)\s*;", header)
    assert found, f"MPI_{name} is not in mpi.h"
    args = [" ".join(a.split()) for a in found.group(1).split(",")]
    assert len(args) == int(n) == len(roles), f"MPI_{name}: {len(args)} arguments, not {n}: {args}"
    for role, arg in zip(roles, args):
        if role != "-":
            assert re.fullmatch(ROLES[role], arg), f"MPI_{name}: role {role} for \"{arg}\""
    if "c" not in roles:
        assert not any(re.fullmatch(r"MPI_Comm comm", a) for a in args), f"MPI_{name}: comm is forgotten"
assert len(rows) > 100
print(len(rows), "rows agree with mpi.h")
