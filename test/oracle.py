"""Runs a script by the Python that has the same torch: IKEBANA_ORACLE, or .oracle of scripts/setup.

Usage: oracle.py SCRIPT ARGUMENTS...
"""

import os
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[1]
python = os.environ.get("IKEBANA_ORACLE") or str(root / ".oracle/bin/python")
try:
    os.execv(python, [python, *sys.argv[1:]])
except OSError as error:
    sys.exit(
        f"oracle: there is no Python with torch to compare with ({python}: {error.strerror}): run "
        "`scripts/setup test`, or let IKEBANA_ORACLE name one that has torch, numpy, safetensors, "
        "gguf, scikit-learn, tensorboard, pillow, torchvision, tokenizers and pyarrow"
    )
