"""Prints the conditions of a run: device, versions, and the rate of a large matrix product.

Usage: bound.py DEVICE SIDE, which prints them as JSON. gpu.py runs it as a process of its own, so
that it has no memory of the device itself.
"""

import json
import platform
import statistics
import subprocess
import sys
import time

import torch


def rate_of_products(device, side, repeats=5, count=20):
    """FLOP/s of a product of two square BF16 matrices; the median of repeats of `count`."""
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    wait = torch.cuda.synchronize if a.is_cuda else lambda: None
    rates = []
    for _ in range(repeats + 1):
        wait()
        begin = time.perf_counter()
        for _ in range(count):
            torch.mm(a, b, out=out)
        wait()
        rates.append(2 * side**3 * count / (time.perf_counter() - begin))
    return statistics.median(rates[1:])  # the first warms up


def driver():
    try:
        words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        return found[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def conditions(device, side):
    found = {"python": platform.python_version(), "torch": torch.__version__, "side": side}
    if device == "cpu":
        found |= {"device": "CPU", "driver": "none", "cuda": "none"}
    else:
        properties = torch.cuda.get_device_properties(device)
        found |= {"device": properties.name, "driver": driver(), "cuda": torch.version.cuda,
                  "memory": properties.total_memory,
                  "cudnn": torch.backends.cudnn.version()}
    return found | {"bound": rate_of_products(device, side)}


if __name__ == "__main__":
    print(json.dumps(conditions(sys.argv[1], int(sys.argv[2]))))
