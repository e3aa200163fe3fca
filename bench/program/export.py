"""Exports the model of a row, with the weights and a batch of all contestants, as model.pt2."""

import pathlib
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).resolve()
sys.path += [str(HERE.parents[2] / "scripts"), str(HERE.parents[1] / "step")]
import contestants  # noqa: E402
from export_program import export_program  # noqa: E402


def main():
    args = contestants.parse()
    args.device = "cpu"
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    model = contestants.trained_model(args)
    for p in model.parameters():
        p.data = p.data.clone()  # they were parts of all weights
    inputs, _ = contestants.read_batches(args)[0]
    rows = torch.export.Dim("rows", min=2, max=1 << 20)
    export_program(model, (inputs,), path=pathlib.Path(args.folder, "model.pt2"),
                   dynamic_shapes=({0: rows},))


if __name__ == "__main__":
    main()
