"""Checks of the suite itself. Usage: suite.py PROGRAM

page: docs/parity.md shows the table. words: every policy of the vocabulary is in a row.
missing_python: an unusable Python is an error that names the cure.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
program = sys.argv[1]
table = subprocess.run([program], check=True, capture_output=True, text=True).stdout
wrong = []


def page():
    text = (root / "docs/parity.md").read_text()
    shown = [line for line in text.splitlines() if line.startswith("| `")]
    for line in table.splitlines():
        if line not in shown:
            wrong.append(f"docs/parity.md lacks the line\n{line}")
    for line in shown:
        if line not in table.splitlines():
            wrong.append(f"docs/parity.md has a line that is no row:\n{line}")


def words():
    text = (root / "include/ikebana/grammar/vocabulary.hpp").read_text()
    text = text[: text.index("struct Mechanism")]
    no_row = {
        "Off": "the absence of a policy",
        "Without": "the absence of a policy",
        **dict.fromkeys(
            ("Offload", "CPU", "Disk", "Activations", "OptimizerState", "Parameters", "Gradients"),
            "it changes no bit: test/guarantees/offload/offload.cpp"),
        "Capture": "only Off",
        "SkipSpikes": "PyTorch lacks it: test/guarantees/clip/spikes.cpp has it as a loop",
        "GradNorm": "it changes nothing: test/guarantees/clip/norms.cpp",
        "InspectGradients": "it changes nothing: test/guarantees/clip/inspect_gradients.cpp",
        "Combined": "two optimizers: test/guarantees/optimizer/combined.cpp compares it with "
                    "PyTorch's",
        **dict.fromkeys(
            ("Lion", "LAMB", "AdamW8bit"),
            "PyTorch lacks it: test/guarantees has its paper's loop"),
    }
    for word in re.findall(r"^struct (\w+);", text, re.M):
        if word not in no_row and not re.search(rf"\b{word}\b", table):
            wrong.append(f"no row has the policy {word}: add one to test/parity/*_rows.cpp")


def expect(words_wanted, python, program_run):
    """Runs the first row with that Python and that program; it must fail with this error."""
    script = [sys.executable, root / "test/oracle.py", root / "test/parity/parity.py"]
    environment = {**os.environ, "IKEBANA_ORACLE": str(python)}
    with tempfile.TemporaryDirectory() as folder:
        command = [*script, program_run, folder, "mlp.fp32"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode == 0 or words_wanted not in run.stderr:
        wrong.append(f"expected an error with `{words_wanted}`, got {run.returncode}: {run.stderr}")


def executable(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def missing_python():
    oracle = os.environ.get("IKEBANA_ORACLE") or root / ".oracle/bin/python"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        expect("run `scripts/setup test`", folder / "no_python", program)
        bare = executable(folder / "bare", f'exec {sys.executable} -S "$@"')
        expect("has no torch: run `scripts/setup test`", bare, program)
        older = f"""{program} "$@" && sed -i 's/"torch":"[0-9]/"torch":"0/' "$1"/*"""
        pad = executable(folder / "older", older)
        expect("the tests link LibTorch 0.", oracle, pad)


for check in (page, words, missing_python):
    check()
print("\n".join(wrong) or "true")
sys.exit(1 if wrong else 0)
