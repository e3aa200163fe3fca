"""Runs examples/to_python.cpp and then examples/to_python.py on what it wrote.

Usage: to_python.py ROOT PROGRAM. The Python is IKEBANA_ORACLE, or .oracle of scripts/setup; without
one the test fails.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

root, program = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
python = os.environ.get("IKEBANA_ORACLE") or str(root / ".oracle/bin/python")
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([program, folder], check=True)
    try:
        subprocess.run([python, root / "examples/to_python.py", folder], check=True)
    except OSError as error:
        sys.exit(f"There is no Python with torch ({python}: {error.strerror}): run `scripts/setup "
                 "test`, or let IKEBANA_ORACLE name one")
