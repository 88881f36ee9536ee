"""Runs the console sessions of this folder and of README.md and compares what they print.

A session is a text file of blocks: `$ command`, then everything it prints (standard output, then
standard error), then `[exit N]` when N is not 0. Commands run in the source folder; `xt-plan` and
`xt-run` are the programs just built. In README only that a command succeeds is checked, where a block
shows no output. XT_UPDATE_GOLDEN=1 rewrites the sessions; the diff is reviewed like code.
"""

import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(line, programs):
    words = shlex.split(line)
    words[0] = programs.get(words[0], words[0])
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    done = subprocess.run(words, cwd=ROOT, text=True, capture_output=True, env=environment)
    text = done.stdout + done.stderr
    if done.returncode != 0:
        text += f"[exit {done.returncode}]\n"
    return text


def blocks(text):
    """Pairs of command and expected output."""
    parts = re.split(r"^\$ (.*)$", text, flags=re.MULTILINE)
    return [(command, output.removeprefix("\n")) for command, output in zip(parts[1::2], parts[2::2])]


def check_session(path, programs):
    old = path.read_text()
    head = old[: old.index("$ ")]
    new = head + "\n".join(f"$ {command}\n{run(command, programs)}" for command, _ in blocks(old))
    if new == old:
        return True
    if os.environ.get("XT_UPDATE_GOLDEN"):
        path.write_text(new)
        return True
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "printed"))
    return False


def is_runnable(path, programs):
    """Whether all programs of a session are built; says so where they are not."""
    missing = {command.split()[0] for command, _ in blocks(path.read_text())} - set(programs)
    if missing:
        print(f"{path.name} skipped: no {', '.join(sorted(missing))} here")
    return not missing


def check_readme(programs):
    text = (ROOT / "README.md").read_text()
    sessions = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    commands = [(command, output) for session in sessions for command, output in blocks(session)]
    good = bool(commands)
    for command, output in commands:
        printed = run(command, programs)
        if output.strip() and printed.strip() != output.strip():
            sys.stdout.writelines(difflib.unified_diff(output.splitlines(True), printed.splitlines(True),
                                                       f"README.md: {command}", "printed"))
            good = False
        if not output.strip() and "[exit" in printed:
            print(f"README.md: `{command}` fails\n{printed}")
            good = False
    return good


def main():
    programs = dict(word.split("=", 1) for word in sys.argv[1:])
    folder = pathlib.Path(__file__).resolve().parent
    sessions = [path for path in sorted(folder.glob("*.session")) if is_runnable(path, programs)]
    results = [check_session(path, programs) for path in sessions]
    results.append(check_readme(programs))
    print(f"{sum(results)} of {len(results)} sessions as written")
    sys.exit(0 if all(results) else 1)


main()
