#!/usr/bin/env python3
"""Says in one sentence why the tests cannot run by this Python on a device, or what they run on.

    probe.py cuda|cpu|simulated    exits 1 with the first thing that is missing and what to do
    probe.py self                  the same on torches and drivers made here
"""

import ctypes
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def imported(name):
    """Returns the module, or exits."""
    try:
        return __import__(name)
    except ImportError as error:
        sys.exit(f"{sys.executable} cannot import {name} ({error}): let IKEBANA_PYTHON name a "
                 "Python that has torch 2.11.0, numpy and safetensors")


def dotted(number):
    return f"{number // 1000}.{number % 1000 // 10}"


def driver():
    """The library of the driver and the CUDA version that it supports, or exits."""
    try:
        library = ctypes.CDLL(os.environ.get("IKEBANA_LIBCUDA", "libcuda.so.1"))
    except OSError as error:
        sys.exit(f"there is no NVIDIA driver ({error}): run this on a machine on which nvidia-smi "
                 "lists a GPU")
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    return library, version.value


def why_unavailable(torch):
    """Asked of the driver, since torch only says that there is no device."""
    library, version = driver()
    wanted = int(torch.version.cuda.split(".")[0])
    if version // 1000 < wanted:
        return (f"the NVIDIA driver supports CUDA {dotted(version)}, and torch {torch.__version__} "
                f"was built for CUDA {torch.version.cuda}: install a newer driver, or a torch for "
                f"CUDA {version // 1000}")
    status = library.cuInit(0)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if status in (0, NO_DEVICE):
        return (f"the NVIDIA driver lists no GPU (CUDA_VISIBLE_DEVICES is {visible!r}): see what "
                "nvidia-smi says")
    return f"the NVIDIA driver does not start (cuInit returned {status}): see what nvidia-smi says"


def cuda(torch):
    """Returns the device in words, or exits."""
    if not torch.version.cuda:
        sys.exit(f"torch {torch.__version__} of {sys.executable} was built without CUDA: install "
                 "torch==2.11.0 from PyPI, or let IKEBANA_PYTHON name another Python")
    if not torch.cuda.is_available():
        sys.exit(why_unavailable(torch))
    try:
        (torch.ones(2, device="cuda") * 2).tolist()
    except RuntimeError as error:
        sys.exit(f"torch {torch.__version__} cannot compute on the GPU: "
                 f"{str(error).splitlines()[0]}")
    major, minor = torch.cuda.get_device_capability(0)
    _, version = driver()
    return (f"{torch.cuda.get_device_name(0)}, compute capability {major}.{minor}, "
            f"driver for CUDA {dotted(version)}")


def probe(device):
    torch = imported("torch")
    for name in "numpy", "safetensors":
        imported(name)
    where = cuda(torch) if device == "cuda" else device
    print(f"{where}; torch {torch.__version__}, Python {platform.python_version()}")


TORCH = """
__version__ = "2.11.0+made"
class version: cuda = {cuda!r}
class cuda:
    is_available = lambda: {available}
    get_device_name = lambda _: "a GPU"
    get_device_capability = lambda _: (9, 0)
def ones(*_, **__):
    {ones}
class tensor:
    __mul__ = lambda self, _: self
    tolist = lambda self: [2, 2]
"""
LIBCUDA = """
int cuDriverGetVersion(int* version) {{ *version = {version}; return 0; }}
int cuInit(unsigned flags) {{ (void)flags; return {init}; }}
"""
GOOD = {"cuda": "13.0", "available": True, "ones": "return tensor()", "version": 13000, "init": 0}
SENTENCES = {
    "a GPU, compute capability 9.0, driver for CUDA 13.0; torch 2.11.0+made": {},
    "was built without CUDA: install": {"cuda": None},
    "there is no NVIDIA driver (": {"available": False, "version": None},
    "supports CUDA 12.4, and torch 2.11.0+made was built for CUDA 13.0: install":
        {"available": False, "version": 12040},
    "lists no GPU (CUDA_VISIBLE_DEVICES is None)": {"available": False, "init": 100},
    "does not start (cuInit returned 803)": {"available": False, "init": 803},
    "cannot compute on the GPU: no kernel image":
        {"ones": "raise RuntimeError('no kernel image\\nis available')"},
    "cannot import torch": {"without": "torch"},
    "cannot import safetensors": {"without": "safetensors"},
}


def asked(folder, given):
    """Returns this program's answer if torch and the driver are as `given`."""
    library = folder / "libcuda.so"
    modules = {"numpy": "", "safetensors": "", "torch": TORCH.format(**given)}
    for name in modules.keys() - {given.get("without")}:
        (folder / f"{name}.py").write_text(modules[name])
    if given["version"]:
        (folder / "cuda.c").write_text(LIBCUDA.format(**given))
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "cuda.c"], check=True)
    env = {**os.environ, "PYTHONPATH": str(folder), "IKEBANA_LIBCUDA": str(library)}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run([sys.executable, "-S", __file__, "cuda"], env=env, text=True,
                          capture_output=True)


def self_test():
    for sentence, different in SENTENCES.items():
        with tempfile.TemporaryDirectory() as folder:
            done = asked(pathlib.Path(folder), {**GOOD, **different})
        assert sentence in done.stdout + done.stderr, (sentence, done)
        assert (done.returncode == 0) == (not different), (sentence, done)
        assert "Traceback" not in done.stderr, done
    print(f"{len(SENTENCES)} answers, each in a sentence")


if __name__ == "__main__":
    self_test() if sys.argv[1:] == ["self"] else probe(*sys.argv[1:])
