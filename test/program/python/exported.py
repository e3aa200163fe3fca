"""scripts/export_program.py: the file that it writes, the model that stays as it was, and every
refusal.

Usage: exported.py, by a Python that has torch.
"""

import contextlib
import io
import json
import pathlib
import random
import sys
import tempfile
import warnings
import zipfile
from unittest import mock

import torch
from torch import nn
from torch.export import Dim
from torch.export.pt2_archive._package import load_pt2

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "scripts/export_program.py"
sys.path.insert(0, str(SCRIPT.parent))
import models  # noqa: E402
from export_program import Refused, export_program, main  # noqa: E402

ROWS = Dim("rows", min=2, max=4096)
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="ikebana-exported-"))
X = torch.linspace(-1, 1, 32).view(4, 8)


class Net(nn.Module):
    """`after(net, y)` is what forward does with the output of a linear layer."""

    def __init__(self, after=lambda net, y: y, **parts):
        super().__init__()
        self.layer, self.after = nn.Linear(8, 8), after
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.after(self, self.layer(x))


class OtherGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 3


class StaysInTraining(Net):
    def train(self, mode=True):
        return self


def grows(net, y):
    if not net.training and not hasattr(net, "extra"):
        net.extra = nn.Parameter(torch.ones(8))
    return y if net.training else y * net.extra


def counts_in_python(net, y):
    net.calls = getattr(net, "calls", 0) + 1
    return y * net.calls


def decides(net, y):
    if y.sum() > 0:
        return y * 2
    return y


def empty_region(net, y):
    with torch.no_grad():
        z = y * 2
        with torch.enable_grad():
            y = y * 3
    return y + z


def refusal(model, args=(X,), **options):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export_program(model, args, path=FOLDER / "refused.pt2", **options)
    except Refused as why:
        return str(why)
    return "nothing"


def refused():
    def expect(words, *arguments, **options):
        found = refusal(*arguments, **options)
        assert words in found, f"not {words!r}, but {found!r}"

    expect("give a torch.nn.Module", lambda x: x)
    expect("give model.module", nn.DataParallel(Net()))
    expect("give model._orig_mod", torch.compile(Net()))
    expect("give a tuple of example inputs", Net(), [X])
    expect("is on the device meta", Net().to("meta"))
    expect("has no shape yet", Net(more=nn.LazyLinear(2)))
    expect("is no plain tensor", Net(more=nn.Parameter(torch.eye(2).to_sparse())))
    expect("the example input args[0] is on meta", Net(), (X.to("meta"),))
    expect("loses the backward of torch.autograd.Function",
           Net(lambda net, y: OtherGradient.apply(y)))
    expect("has lost a part of it", Net(lambda net, y: y * random.random()))
    expect("has lost a part of it", Net(counts_in_python))
    expect("has made or changed `extra`", Net(grows))
    expect("do not change its mode", StaysInTraining())
    expect("torch.export cannot export the model in train()", Net(), (X[:, :3],))
    expect("exported.py, line 73: if y.sum() > 0", Net(decides))
    expect("torch cannot read what it has written", Net(empty_region))
    flat = Net()
    torch.nn.utils.vector_to_parameters(torch.zeros(72), flat.parameters())
    expect("are parts of one memory", flat)
    with torch.no_grad():
        expect("outside of torch.no_grad()", Net())
    with torch.autocast("cpu", torch.bfloat16):
        expect("autocast is on", Net())
    assert not list(FOLDER.iterdir()), "a refused model left a file"


def state(model):
    return {name: x.detach().clone() for name, x in
            [*model.named_parameters(), *model.named_buffers()]}


def model_stays():
    """Also if a part of it is in another mode than the rest, which its graph keeps."""
    model = models.ResNet()
    model.train()
    model.bn1.eval()
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    modes, before = [m.training for m in model.modules()], state(model)
    gradients = [p.grad.clone() for p in model.parameters()]
    drawn = torch.get_rng_state(), random.getstate()
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    programs = export_program(model, (images,), path=FOLDER / "stays.pt2",
                              dynamic_shapes=[{0: ROWS}])
    assert modes == [m.training for m in model.modules()]
    assert all(torch.equal(x, before[name]) for name, x in state(model).items())
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients))
    assert torch.equal(torch.get_rng_state(), drawn[0]) and random.getstate() == drawn[1]
    norms = {mode: [node.args[5] for node in program.graph.nodes
                    if "batch_norm" in str(node.target)] for mode, program in programs.items()}
    assert norms["train"].count(False) == 1 and norms["train"].count(True) > 1, norms
    assert not any(norms["eval"]), norms


def weights_once():
    """Each tensor has one record, which both graphs name; Python reads the file back."""
    for make, example in ((models.GPT, torch.arange(64).view(4, 16)), (models.ViT, None)):
        model = make().eval()
        example = torch.randn(4, 3, 16, 16) if example is None else example
        path = FOLDER / "once.pt2"
        export_program(model, (example,), path=path, dynamic_shapes=[{0: ROWS}])
        with zipfile.ZipFile(path) as archive:
            root = archive.namelist()[0].partition("/")[0]
            records = [n for n in archive.namelist() if "/weight_" in n]
            configs = [json.loads(archive.read(f"{root}/data/weights/{mode}_weights_config.json"))
                       for mode in ("train", "eval")]
        assert len(records) == len({id(x) for x in model.state_dict(keep_vars=True).values()})
        names = [{n: e["path_name"] for n, e in config["config"].items()} for config in configs]
        assert names[0] == names[1], names
        read = load_pt2(path).exported_programs["eval"].module()
        assert torch.equal(read(example[:3]), model(example[:3]))


def run(*words):
    """The script's words on stdout, or its error."""
    out = io.StringIO()
    with mock.patch.object(sys, "argv", ["export_program", *map(str, words)]):
        with contextlib.redirect_stdout(out):
            try:
                main()
            except SystemExit as end:
                return str(end.code)
    return out.getvalue()


def command_line():
    source = FOLDER / "net.py"
    source.write_text("import torch\n\n\ndef example():\n"
                      "    return {'model': torch.nn.Linear(8, 3), 'args': (torch.ones(4, 8),)}\n"
                      "\n\ndef wrong():\n    return 1\n")
    words = run(f"{source}:example", FOLDER / "net.pt2")
    assert "train: 1 operators, 2 parameters and buffers" in words, words
    assert load_pt2(FOLDER / "net.pt2").exported_programs.keys() == {"train", "eval"}
    for spec, error in ((f"{source}:wrong", "must return a dict"),
                        (source, "names no function"),
                        (f"{source}:none", "has no function none"),
                        ("no.py:f", "there is no file")):
        words = run(spec, FOLDER / "net.pt2")
        assert error in words, words
    words = run(f"{source}:example", FOLDER / "net.zip")
    assert "does not end in .pt2" in words, words


if __name__ == "__main__":
    torch.manual_seed(0)
    for test in (refused, model_stays, weights_once, command_line):
        test()
        print(test.__name__, flush=True)
