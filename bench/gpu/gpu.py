"""Training on a GPU, in one command: ikebana beside hand-written LibTorch, eager PyTorch and
torch.compile, on GPT-2, a small GPT, an MLP and a ResNet-18; the choices of Checkpoint; save_async.

Prints Markdown tables, fills docs/bench-gpu.md with them, and keeps within a number of minutes:
what there was no time for is listed. Fails if a contestant fails or computes other losses.
"""

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "step"))
import kernels  # noqa: E402
import table  # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="?", help="build/<preset>/bench")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true",
                        help="tiny sizes and one round; on the CPU there is nothing else")
    parser.add_argument("--minutes", type=float, default=8, help="that the run may take")
    parser.add_argument("--build", help="the command that builds the programs, run meanwhile")
    parser.add_argument("--json", type=Path, help="where to keep the results")
    parser.add_argument("--results", type=Path, help="results of a run, instead of a run")
    parser.add_argument("--write", type=Path, help="the page to fill in, docs/bench-gpu.md")
    args = parser.parse_args()
    if not args.results and not args.programs:
        parser.error("name the folder of the programs, or --results")
    if args.small and args.device != "cpu":
        parser.error("--small is for --device cpu")
    if args.device == "cpu" and args.write:
        parser.error("the page has figures of a GPU: not with --device cpu")
    return args


def measure(args):
    """Returns the results of a run, also of one that was interrupted."""
    import plan  # imports torch
    import torch
    from run import Run
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("gpu: torch finds no CUDA device; nothing was run")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(args, folder)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            (plan.on_cpu_in_small if args.device == "cpu" else plan.on_device)(run)
        except (Exception, KeyboardInterrupt) as error:
            run.failed(f"the run ended early: {type(error).__name__}: {error}")
        run.save_results()
    return run.results


def main():
    args = parse()
    kernels.self_test()
    results = json.loads(args.results.read_text()) if args.results else measure(args)
    print("\n" + table.text_of(results))
    if args.write:
        args.write.write_text(table.filled(args.write.read_text(), results))
    if results["failures"]:
        sys.exit("gpu: " + "\ngpu: ".join(results["failures"]))


if __name__ == "__main__":
    main()
