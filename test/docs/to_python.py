"""Runs examples/to_python.cpp and then examples/to_python.py on what it wrote.

Usage: to_python.py ROOT PROGRAM, by a Python that has torch and safetensors.
"""

import pathlib
import subprocess
import sys
import tempfile

root, program = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([program, folder], check=True)
    subprocess.run([sys.executable, root / "examples/to_python.py", folder], check=True)
