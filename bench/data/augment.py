"""Times transforms beside torchvision's on tensors, one thread each, in turn.

Usage: augment.py PROGRAM [ROUNDS]     (PROGRAM is bench/data/augment.cpp, optimised)
"""

import statistics
import subprocess
import sys
import time

import torch
from torchvision.transforms import v2


def image(height, width):
    n = torch.arange(3 * height * width)
    values = (n * 7919 + n.div(97, rounding_mode="floor") * 31).remainder(251)
    return values.to(torch.uint8).view(3, height, width)


CROP = v2.RandomResizedCrop(224)
JITTER = v2.ColorJitter(0.4, 0.4, 0.4, 0.1)
TRAINING = v2.Compose(
    [CROP, v2.RandomHorizontalFlip(), JITTER, v2.ToDtype(torch.float32, scale=True),
     v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
)
TRANSFORMS = {
    "RandomResizedCrop": (CROP, image(375, 500)),
    "ColorJitter": (JITTER, image(224, 224)),
    "ColorJitter without hue": (v2.ColorJitter(0.4, 0.4, 0.4), image(224, 224)),
    "RandAugment": (v2.RandAugment(), image(224, 224)),
    "RandomRotation": (v2.RandomRotation(30), image(224, 224)),
    "RandomHorizontalFlip": (v2.RandomHorizontalFlip(), image(224, 224)),
    "training": (TRAINING, image(375, 500)),
}


def hashed(made):
    flat = made.contiguous().view(-1).long()
    return int((flat * (torch.arange(flat.numel()).remainder(9973) + 1)).sum())


class Program:
    def __init__(self, path):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([path], stdin=pipe, stdout=pipe, text=True)

    def ask(self, *words):
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


def check(program):
    """Compares results with the same parameters."""
    for _ in range(20):
        x = TRANSFORMS["RandomResizedCrop"][1]
        p = CROP.make_params([x])
        numbers = " ".join(str(p[k]) for k in ("top", "left", "height", "width"))
        got = int(program.ask("check", "RandomResizedCrop", numbers))
        assert got == hashed(CROP.transform(x, p))
        x = TRANSFORMS["ColorJitter"][1]
        p = JITTER.make_params([x])
        factors = [p[f"{k}_factor"] for k in ("brightness", "contrast", "saturation", "hue")]
        numbers = " ".join(map(repr, [*map(int, p["fn_idx"]), *factors]))
        got = int(program.ask("check", "ColorJitter", numbers))
        assert got == hashed(JITTER.transform(x, p))


def seconds(name, count):
    transform, x = TRANSFORMS[name]
    begin = time.perf_counter()
    for _ in range(count):
        transform(x)
    return time.perf_counter() - begin


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    program, rounds = Program(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15
    check(program)
    count = 40
    print(f"{'images per second, one thread':32}{'torchvision':>12}{'here':>10}{'ratio':>8}")
    for name in TRANSFORMS:
        seconds(name, count), program.ask("time", name, count)
        pairs = []
        for _ in range(rounds):
            pairs.append((seconds(name, count), float(program.ask("time", name, count))))
        theirs, ours = (statistics.median(t) for t in zip(*pairs))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name:32}{count / theirs:12.0f}{count / ours:10.0f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
