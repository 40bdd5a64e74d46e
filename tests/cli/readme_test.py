"""The README names every command, and no other; its examples of options exist.

usage: readme_test.py HINDMOST SOURCE_DIR
"""
import os
import re
import subprocess
import sys

HINDMOST, SOURCE = os.path.abspath(sys.argv[1]), sys.argv[2]
wrong = []


def output(*args):
    return subprocess.run([HINDMOST, *args], capture_output=True, text=True, timeout=60).stdout


with open(SOURCE + "/README.md", encoding="utf-8") as f:
    text = f.read()
commands = {}
for m in re.finditer(r"^  (\w+) +(\S.*)$", output("--help"), re.M):
    commands[m.group(1)] = m.group(2)
rows = re.search(r"### All commands\n(.*?)\n\n[^|]", text, re.S).group(1)
named, unbuilt = set(), set()
for row in rows.splitlines()[3:]:
    first = row.split("|")[1]
    names = {re.sub(r"^hindmost ", "", n).split()[0] for n in re.findall(r"`([^`]+)`", first)}
    named |= names
    if "not built yet" in row:
        unbuilt |= names
if named != set(commands):
    wrong.append(f"commands: README {sorted(named)}, program {sorted(commands)}")
missing = {name for name, words in commands.items() if "not built yet" in words}
if missing - unbuilt:
    wrong.append(f"not built yet, but the README says otherwise: {sorted(missing - unbuilt)}")
# `--option` anywhere, and in indented examples
help_text = "".join(output(c, "--help") for c in commands)
for option in sorted(set(re.findall(r"(?:`| )(--[a-z][a-z-]+)", text))):
    if option + " " not in help_text and option + "\n" not in help_text and option not in (
            "--help", "--preset", "--build", "--install", "--prefix", "--type"):
        wrong.append(f"option {option}: no command has it")
print("\n".join(wrong) or f"{len(named)} commands as the program has them")
sys.exit(1 if wrong else 0)
