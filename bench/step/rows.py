"""The rows of the benchmark `step`; a row is a model and a recipe."""

import dataclasses

# `captured` is ikebana with Capture<WholeStep>.
# `same` is a loop by hand of ikebana's own operators, `whole` ikebana without the row's Checkpoint.
CONTESTANTS = ["ikebana", "captured", "expert", "same", "libtorch", "python", "compile", "whole"]


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    model: str
    width: int
    rows: int
    steps: int  # in a round
    rounds: int = 5  # in a launch
    launches: int = 1  # the number of launches of all contestants: addresses of code and data
                       # matter
    precision: str = "fp32"
    layers: int = 3
    heads: int = 0
    context: int = 0  # the context of a GPT, or the side of a ResNet's images
    symbols: int = 0  # the symbols of a GPT's vocabulary, 0: bytes; or the classes of a ResNet
    checkpoint: str = "none"
    recipe: str = "none"  # what is added, by a name that the benchmark knows
    accumulate: int = 1
    clip: int = 1
    batches: int = 4
    device: str = "cpu"

    def contestants(self):
        """LibTorch has no checkpointing of its own."""
        checkpoint = self.checkpoint != "none"
        plain = not checkpoint and self.accumulate == 1
        captured = plain and self.clip == 1 and self.model in ("mlp", "gpt")
        other = {"captured": captured, "libtorch": plain, "same": plain,
                 "whole": checkpoint and self.accumulate == 1}
        return [c for c in CONTESTANTS if other.get(c, True)]

    def policies(self):
        policies = [self.precision.upper()]
        policies += ["Checkpoint<Full>"] if self.checkpoint != "none" else []
        policies += [f"Accumulate<{self.accumulate}>"] if self.accumulate > 1 else []
        policies += ["ClipGradNorm"] if self.clip else []
        policies += ["Layout<ChannelsLast>"] if self.model == "resnet" else []
        return ", ".join(policies)

    def options(self, folder):
        """The command line of a contestant; commands to run follow on its input."""
        fields = dataclasses.asdict(self) | {"folder": folder}
        for own in ("name", "steps", "rounds", "launches"):
            del fields[own]
        return [arg for name, value in fields.items() for arg in (f"--{name}", str(value))]


def all_rows():
    models = [
        Row("MLP 3x16", "mlp", 16, 32, steps=100, rounds=25, launches=4),
        Row("MLP 3x256", "mlp", 256, 256, steps=10, rounds=15, launches=3),
        Row("GPT 4x128", "gpt", 128, 12, steps=4, rounds=10, layers=4, heads=4, context=64),
        Row("GPT 6x384", "gpt", 384, 8, steps=1, rounds=7, layers=6, heads=6, context=256),
    ]
    rows = [dataclasses.replace(m, precision=p) for m in models for p in ("fp32", "bf16")]
    rows += [Row("ResNet-18 of width 16", "resnet", 16, 32, steps=2, rounds=15, context=32,
                 symbols=10, clip=0)]
    large = models[-1]
    rows += [dataclasses.replace(large, precision=p, checkpoint="full") for p in ("fp32", "bf16")]
    rows += [dataclasses.replace(models[0], clip=0)]
    rows += [dataclasses.replace(m, precision="bf16", checkpoint="full", accumulate=4, launches=4)
             for m in models[1:3]]
    return rows


# Limits: a row's model, precision, checkpoint and accumulate; the contestant it is compared with;
# the smallest ratio of that one's time over ikebana's.
BARS = [
    (("MLP 3x16", "fp32", "none", 1), "libtorch", 1.5),
    (("MLP 3x256", "fp32", "none", 1), "libtorch", 1.04),
    (("GPT 4x128", "fp32", "none", 1), "libtorch", 1.06),
    (("GPT 4x128", "bf16", "none", 1), "python", 1.4),
    (("ResNet-18 of width 16", "fp32", "none", 1), "compile", 0.95),
    (("ResNet-18 of width 16", "fp32", "none", 1), "python", 1.0),
    (("GPT 6x384", "fp32", "full", 1), "whole", 1 / 1.28),
    (("GPT 6x384", "bf16", "full", 1), "whole", 1 / 1.28),
]
