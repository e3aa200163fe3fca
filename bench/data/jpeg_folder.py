"""Images per second of a folder of JPEGs: ikebana's DataLoader beside PyTorch's, interleaved.

    python jpeg_folder.py <jpeg_folder> [--folder F] [--images 2000] [--rounds 3]

Each contestant decodes, resizes the short side to 256 with antialias, crops the center of 224 and
makes batches of 32. Python's number of workers is the best of 0, 1, 2 and 3. Pixels are compared by
a checksum of all. With --folder the pictures are kept there, and made if it is empty.
"""
import argparse
import os
import subprocess
import tempfile
import time
import warnings

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.io import decode_image
from torchvision.transforms import v2

try:
    import simplejpeg
except ImportError:
    simplejpeg = None

warnings.filterwarnings("ignore")


def make(folder, count):
    """Pictures of about 500 x 375: clouds of several scales, with noise, of about 100 KB."""
    random = np.random.default_rng(0)
    for i in range(count):
        width, height = 500, 375 + int(random.integers(-40, 41))
        picture = np.zeros((height, width, 3), np.float32)
        for size in (4, 9, 20, 60, 170):
            part = Image.fromarray(random.integers(0, 256, (size, size, 3), np.uint8))
            picture += np.asarray(part.resize((width, height), Image.BICUBIC), np.float32) / 5
        picture += random.normal(0, 6, picture.shape)
        place = os.path.join(folder, f"class{i % 10}")
        os.makedirs(place, exist_ok=True)
        image = Image.fromarray(np.clip((picture - 128) * 1.8 + 128, 0, 255).astype(np.uint8))
        if i % 3 == 1:
            image = image.transpose(Image.TRANSPOSE)
        image.save(os.path.join(place, f"{i:05}.jpg"), quality=90, subsampling=2)


def checksum(images):
    rows, columns = images.sum((1, 3), dtype=torch.long), images.sum((1, 2), dtype=torch.long)
    places = torch.arange(1, 225)
    weighted = (rows * places).sum() + (columns * places**2).sum()
    return int(weighted + images[:, 0].sum(dtype=torch.long))


def by_pillow(path):
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def by_pillow_tensor(path):
    return v2.functional.pil_to_tensor(by_pillow(path))


def by_torchvision(path):
    return decode_image(path, mode="RGB")


def by_simplejpeg(path):
    with open(path, "rb") as file:
        return torch.from_numpy(simplejpeg.decode_jpeg(file.read())).permute(2, 0, 1)


shared = [v2.Resize(256, antialias=True), v2.CenterCrop(224)]
loaders = {
    "Pillow, resized by Pillow": (by_pillow, v2.Compose([*shared, v2.PILToTensor()])),
    "Pillow, resized by torchvision": (by_pillow_tensor, v2.Compose(shared)),
    "torchvision.io": (by_torchvision, v2.Compose(shared)),
}
if simplejpeg:
    loaders["simplejpeg (turbojpeg)"] = (by_simplejpeg, v2.Compose(shared))


def python_round(folder, name, workers, with_sum):
    read, transform = loaders[name]
    dataset = ImageFolder(folder, transform, loader=read)
    loader = DataLoader(dataset, 32, num_workers=workers)
    total, count, begin = 0, 0, time.perf_counter()
    for images, _ in loader:
        count += len(images)
        total += checksum(images) if with_sum else 0
    return count / (time.perf_counter() - begin), total


def ikebana_round(program, folder, workers, with_sum):
    result = subprocess.run([program, folder, str(workers), "1" if with_sum else "2"],
                            check=True, capture_output=True, text=True)
    rate, total = result.stdout.split("\n")[0 if with_sum else 1].split()
    return float(rate), int(total)


def run(program, folder, rounds):
    contestants = {f"ikebana, {n} worker{'s'[:n - 1]}":
                   (lambda s, n=n: ikebana_round(program, folder, n, s)) for n in (1, 2)}
    for name in loaders:
        for n in range(4):
            contestants[f"{name}, {n}"] = lambda s, name=name, n=n: python_round(folder, name, n, s)
    sums = {name: contestants[name](True)[1] for name in contestants if name[-2:] not in
            (" 0", " 3")}
    rates = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            rates[name].append(contestant(False)[0])
    middle = {name: float(np.median(values)) for name, values in rates.items()}
    for name, values in rates.items():
        print(f"{name:36} {middle[name]:7.1f} images/s   ({min(values):.1f} to {max(values):.1f})")
    ours = {n: middle[name] for n, name in ((1, "ikebana, 1 worker"), (2, "ikebana, 2 workers"))}
    print()
    for name in loaders:
        best = max(range(4), key=lambda n: middle[f"{name}, {n}"])
        same = sums[f"{name}, 2"] == sums["ikebana, 2 workers"]
        rate = middle[f"{name}, {best}"]
        print(f"{name} at its best, {best} workers: ikebana has {ours[2] / rate:.2f} of its rate "
              f"with 2 workers, {ours[1] / rate:.2f} with 1; pixels "
              f"{'equal' if same else 'differ'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--folder")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or temporary
        os.makedirs(folder, exist_ok=True)
        if not os.listdir(folder):
            make(folder, options.images)
        run(options.program, folder, options.rounds)
