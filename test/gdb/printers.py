"""gdb shows a Trainer, a Report and a Loss as scripts/gdb/ikebana.py says.

Usage: printers.py GDB PROGRAM SCRIPT
"""

import os
import subprocess
import sys

GDB, PROGRAM, SCRIPT = sys.argv[1:]
EXPECTED = {
    "trainer": "Trainer of Net, 2 steps, on cpu, recipe <SGD, ClipGradNorm>",
    "report": "Report of step 1, loss 5.625, lr 0, 1 microbatches, grad norm 12.9904",
    "loss": "Loss of sum 13.5, count 6, `size` 27 / 4 * 0.5",
    "empty": "Report of no step",
}

commands = ["set startup-with-shell off", "set disable-randomization off", f"source {SCRIPT}",
            "set print frame-arguments none", "break stop_here", "run",
            *(f"print {name}" for name in EXPECTED), "continue"]
words = [GDB, "-nx", "-batch", *(word for c in commands for word in ("-ex", c)), PROGRAM]
environment = os.environ | {"OMP_NUM_THREADS": "1", "DEBUGINFOD_URLS": ""}
try:
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=200)
except OSError as error:
    sys.exit(f"there is no gdb ({GDB}: {error.strerror}): `scripts/setup test` installs it")
for i, (name, expected) in enumerate(EXPECTED.items(), 1):
    if f"${i} = {expected}\n" not in done.stdout:
        sys.exit(f"`{name}` is not shown as `{expected}`:\n{done.stdout}\n{done.stderr}")
if "\nloss 5.625\n" not in done.stdout:
    sys.exit(f"the program computes another loss than gdb shows:\n{done.stdout}")
print(f"{len(EXPECTED)} values are shown")
