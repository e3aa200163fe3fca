"""Compares the functions of ikebana::images with torchvision.transforms.v2.functional, to the bit.

Usage: oracle_transforms.py PROGRAM     (transforms_oracle)
"""

import collections
import pathlib
import subprocess
import sys
import tempfile

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import InterpolationMode as Mode
from torchvision.transforms.v2 import RandAugment, TrivialAugmentWide
from torchvision.transforms.v2 import functional as F

MODES = [Mode.NEAREST, Mode.NEAREST_EXACT, Mode.BILINEAR, Mode.BICUBIC]
PADDINGS = ["constant", "edge", "reflect", "symmetric"]


def size(numbers):
    return [int(numbers[0])] if numbers[1] < 0 else [int(n) for n in numbers[:2]]


def whole(numbers):
    return [int(n) for n in numbers]


def resize(x, n):
    limit = int(n[4]) if len(n) > 4 else None
    return F.resize(x, size(n), MODES[int(n[2])], max_size=limit, antialias=bool(n[3]))


def rotate(x, n):
    center = list(n[4:6]) if n[3] else None
    fill = list(n[6:]) or None
    return F.rotate(x, n[0], MODES[int(n[1])], bool(n[2]), center, fill)


def affine(x, n):
    fill = list(n[7:]) or None
    return F.affine(x, n[0], list(n[1:3]), n[3], list(n[4:6]), MODES[int(n[6])], fill)


NAMES = list(RandAugment._AUGMENTATION_SPACE)


def augment(x, n):
    return RandAugment()._apply_image_or_video_transform(
        x, NAMES[int(n[0])], n[1], Mode.NEAREST, {type(x): None, "others": None}
    )


FUNCTIONS = {
    "adjust_gamma": lambda x, n: F.adjust_gamma(x, n[0], n[1]),
    "posterize": lambda x, n: F.posterize(x, int(n[0])),
    "rgb_to_grayscale": lambda x, n: F.rgb_to_grayscale(x, int(n[0])),
    "to_float": lambda x, n: F.to_dtype(x, torch.float32, scale=True),
    "normalize": lambda x, n: F.normalize(x, [0.5, 0.4, 0.3], [0.2, 0.3, 0.1]),
    "gaussian_blur": lambda x, n: F.gaussian_blur(x, [int(n[0])] * 2, [n[1]] * 2),
    "resize": resize,
    "crop": lambda x, n: F.crop(x, *whole(n)),
    "center_crop": lambda x, n: F.center_crop(x, size(n)),
    "resized_crop": lambda x, n: F.resized_crop(x, *whole(n[:4]), size(n[4:])),
    "pad": lambda x, n: F.pad(x, whole(n[:4]), list(n[5:]) or None, PADDINGS[int(n[4])]),
    "rotate": rotate,
    "affine": affine,
    "erase": lambda x, n: F.erase(x, *whole(n[:4]), torch.tensor(n[4]).view(1, 1, 1)),
    "augment": augment,
}


def expected(name, x, numbers):
    if name in FUNCTIONS:
        return FUNCTIONS[name](x, numbers)
    return getattr(F, name)(x, *numbers)


COLOURS = [
    *[("adjust_brightness", [f]) for f in (0, 0.3, 1, 1.7)],
    *[("adjust_contrast", [f]) for f in (0, 0.6, 1.9)],
    *[("adjust_saturation", [f]) for f in (0, 0.6, 1.9)],
    *[("adjust_hue", [f]) for f in (-0.5, -0.13, 0, 0.21, 0.5)],
    *[("adjust_sharpness", [f]) for f in (0, 0.5, 2.5)],
    *[("adjust_gamma", n) for n in ([0.5, 1], [2.2, 1.3])],
    *[("posterize", [b]) for b in (0, 3, 8)],
    ("autocontrast", []),
    ("equalize", []),
    ("invert", []),
    ("rgb_to_grayscale", [1]),
    ("rgb_to_grayscale", [3]),
    ("to_float", []),
]
PLACES = [
    *[("gaussian_blur", n) for n in ([3, 0.4], [5, 1.9])],
    *[("resize", [20, -1, m, a]) for m in range(4) for a in (1, 0)],
    *[("resize", n) for n in ([61, 17, 2, 1], [10, 70, 3, 1], [24, -1, 2, 1, 30], [37, 53, 2, 1])],
    *[("crop", n) for n in ([3, 5, 20, 31], [-4, 30, 20, 40], [30, -9, 15, 20])],
    *[("center_crop", n) for n in ([24, -1], [22, 31], [50, 20], [64, 80])],
    ("resized_crop", [2, 3, 31, 44, 28, 28]),
    *[("pad", [3, 1, 2, 4, mode]) for mode in range(4)],
    ("pad", [3, 0, 2, 4, 0, 0.7]),
    ("pad", [3, 0, 2, 4, 0, 0.7, 0.2, 0.4]),
    ("horizontal_flip", []),
    ("vertical_flip", []),
    *[("rotate", [a, m, e, 0]) for a in (0, 30, -90, 180, 271.3) for m in (0, 2) for e in (0, 1)],
    *[("rotate", [33, m, 0, 1, 10, 20.5, 0.6]) for m in (0, 2)],
    *[("rotate", [-33, m, 1, 0, 0, 0, 0.6, 0.1, 0.9]) for m in (0, 2)],
    *[("affine", [12, 3, -2, 1.2, 5, -7, m]) for m in (0, 2)],
    ("affine", [-12, 3.5, 2, 0.8, 5, 7, 2, 0]),
    ("erase", [4, 5, 11, 13, 0.5]),
]


def images():
    """Yields images of all dtypes, layouts, channels and some sizes."""
    generator = torch.Generator().manual_seed(0)
    for height, width, batch in ((37, 53, 0), (53, 53, 0), (37, 53, 2)):
        for channels in (3, 1):
            for dtype in (torch.uint8, torch.float32, torch.float64, torch.bfloat16):
                if dtype != torch.uint8 and (batch or height == width):
                    continue
                shape = (batch or 1, channels, height, width)
                low = torch.rand(batch or 1, channels, 5, 6, generator=generator)
                smooth = torch.nn.functional.interpolate(low, (height, width), mode="bilinear")
                noise = torch.rand(shape, generator=generator)
                x = (0.7 * smooth + 0.3 * noise).clamp(0, 1)
                x[:, :, :4, :4] = 0.5  # grey
                x = (x * 255).to(torch.uint8) if dtype == torch.uint8 else x.to(dtype)
                for layout in (torch.contiguous_format, torch.channels_last):
                    y = x.contiguous(memory_format=layout)
                    yield y if batch else y[0]
    yield torch.full((3, 9, 9), 7, dtype=torch.uint8)  # without contrast
    yield torch.arange(256, dtype=torch.uint8).repeat(3, 900, 1)[:, :250]  # larger than a tile


def scaled(name, numbers, x):
    """Gives fills in the units of the image."""
    first = {"pad": 5, "rotate": 6, "affine": 7, "erase": 4}.get(name)
    numbers = [float(n) for n in numbers]
    if first is not None and x.dtype == torch.uint8:
        numbers[first:] = [float(round(255 * n)) for n in numbers[first:]]
    return numbers


def cases():
    for x in images():
        is_small = x.shape[-1] < 20 or x.shape[-2] > 60
        for name, numbers in COLOURS + ([] if is_small else PLACES):
            if x.shape[-3] == 1 and len(numbers) > {"pad": 6, "rotate": 7}.get(name, 9):
                continue  # fills for three channels
            yield name, x, scaled(name, numbers, x)
        bound = 255 if x.dtype == torch.uint8 else 1
        yield "solarize", x, [0.4 * bound]
        if x.is_floating_point() and x.shape[-3] == 3:
            yield "normalize", x, []
        if x.dtype == torch.uint8:
            for i, name in enumerate(NAMES):
                for space in (RandAugment, TrivialAugmentWide):
                    magnitudes, signed = space._AUGMENTATION_SPACE[name]
                    bins = magnitudes(31, x.shape[-2], x.shape[-1])
                    m = 0.0 if bins is None else float(bins[9])
                    for sign in (1, -1) if signed else (1,):
                        yield "augment", x, [float(i), sign * m]


BOXES = [
    ("Resize", [20, -1], lambda x, n: F.resize(x, size(n))),
    ("Resize", [61, 17], lambda x, n: F.resize(x, size(n))),
    ("CenterCrop", [24, 24], lambda x, n: F.center_crop(x, size(n))),
    ("crop", [3, 5, 20, 31], lambda x, n: F.crop(x, *whole(n))),
    ("resized_crop", [2, 3, 31, 44, 28, 30], FUNCTIONS["resized_crop"]),
    ("horizontal_flip", [], lambda x, n: F.horizontal_flip(x)),
    ("vertical_flip", [], lambda x, n: F.vertical_flip(x)),
    *[("rotate", [a, 2, e, 0, 0, 0, 0], rotate) for a in (30, -90, 200) for e in (0, 1)],
    ("rotate", [33, 0, 0, 1, 10, 20.5, 0], rotate),
]


def annotated_cases():
    x = (torch.rand(3, 37, 53, generator=torch.Generator().manual_seed(1)) * 255).to(torch.uint8)
    corner = torch.tensor([[0, 0], [4.25, 7.5], [20, 10], [30, 30]])
    side = torch.tensor([[53, 37], [10, 10.125], [33, 20.5], [1, 0]])
    masks = torch.stack([x[0] > 100, x[1] > 50])
    for boxes in (torch.cat([corner, corner + side], 1), torch.zeros(0, 4)):
        for mask in (masks, masks[0], x[0].long()):
            for name, numbers, function in BOXES:
                yield name, [float(n) for n in numbers], function, x, boxes, mask


def run(program, given):
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "cases"), pathlib.Path(folder, "results")
        torch.save(given, source)
        subprocess.run([program, source, target], check=True)
        return torch.load(target, weights_only=False)


def describe(x):
    layout = "channels_last" if x.stride(-3) == 1 else "contiguous"
    return f"{x.dtype} {tuple(x.shape)} {layout}"


def pillow_differs(name, x, numbers, got):
    """Returns whether a resized Byte image is further than 1 from Pillow's."""
    if name != "resize" or x.dtype != torch.uint8 or numbers[2:4] != [2, 1] or x.shape[:-2] != (3,):
        return False
    image = F.to_pil_image(x).resize((got.shape[-1], got.shape[-2]), PIL.Image.Resampling.BILINEAR)
    return (F.pil_to_tensor(image).int() - got.int()).abs().max().item() > 1


def allowed(name, x):
    """How far a result may be from torchvision's, in units of a Byte pixel."""
    if name == "equalize" and x.dtype == torch.bfloat16:
        return 4  # torchvision computes 256 in bfloat16, which becomes 0 as a byte
    return 1e-5 if name == "pad" and x.dtype == torch.float64 else 0  # it rounds fills to float32


def main():
    torch.set_num_threads(1)
    plain, boxed = list(cases()), list(annotated_cases())
    given = [{"name": name, "image": x, "numbers": n} for name, x, n in plain]
    for name, n, _, x, boxes, masks in boxed:
        given.append({"name": name, "image": x, "numbers": n, "boxes": boxes, "masks": masks})
    results = run(sys.argv[1], given)
    worst, wrong = collections.Counter(), 0
    for (name, x, numbers), got in zip(plain, results):
        want = expected(name, x, list(numbers))
        same = got.shape == want.shape and got.dtype == want.dtype
        difference = (got.double() - want.double()).abs().max().item() if same else float("inf")
        if x.dtype != torch.uint8:
            difference *= 255
        worst[name] = max(worst[name], difference)
        kept = x.stride(-3) != 1 or 1 in (x.shape[-3], got.shape[-3]) or got.stride(-3) == 1
        far = pillow_differs(name, x, numbers, got)
        if not same or difference > allowed(name, x) or not kept or far:
            wrong += 1
            print(f"{name}{numbers} of {describe(x)}: {describe(got)}, {difference:g} from")
            print(f"  {describe(want)}")
    for (name, numbers, function, x, boxes, masks), got in zip(boxed, results[len(plain) :]):
        frame = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=x.shape[-2:])
        parts = tv_tensors.Image(x), frame, tv_tensors.Mask(masks)
        want = [function(t, list(numbers)) for t in parts]
        for kind, a, b in zip(("image", "boxes", "masks"), got, want):
            b = b.as_subclass(torch.Tensor)
            if a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a, b):
                wrong += 1
                print(f"{name}{numbers}: {kind} {a.tolist() if kind == 'boxes' else describe(a)}; "
                      f"{b.tolist() if kind == 'boxes' else describe(b)}")
    for name, difference in worst.items():
        if difference:
            print(f"{name}: at most {difference:g}")
    print(f"{len(given)} results, {wrong} are not torchvision's")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
