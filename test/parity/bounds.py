"""How far apart the two sides of a row may end on a device that is not the CPU.

There both sides run the same kernels of the same wheel, and most rows should give the same bits.
None is required to: some kernels add in an order that varies, and ikebana keeps on the device some
numbers that Python keeps on the host. A bound is some five or more times the distance of two
correct trainings on a CPU: one as always, the other with hardly a kernel in common, with
ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 (lstm.bf16
without the last, with which oneDNN has no LSTM in BF16). A training in FP64 ends as far from one in
FP32. docs/parity.md has the figures.
"""

from typing import NamedTuple

FIRST = 8


class Bounds(NamedTuple):
    """Losses relative to the largest, weights to their change by training; 0: the same bits."""

    losses: float = 0.0
    weights: float = 0.0
    first: float = float("inf")  # the bound of the first losses

    def rate(self):
        """Returns the wrong learning rate that must be told apart, relative to the right one."""
        return 1 + max(1e-4, 3 * self.weights)


SINGLE = Bounds(1e-5, 2e-4)
HALF = Bounds(1e-2, 0.2)
MUON = Bounds(1e-4, 5e-2)  # its matrix products are in BF16
# ReLU and batch norm: once a rounding error turns a ReLU on or off, the difference grows with each
# step. In the first steps that is seldom, and small.
KINKS = Bounds(5e-2, 0.3, first=1e-5)
KINKS_IN_HALF = Bounds(0.2, 1.5)  # bounds of AdamW, which moves all weights equally far


def on_device(net, recipe):
    """The bounds of a row with this model and this recipe, as its file has them."""
    precision = [word for word in recipe if word.startswith("Precision<")]
    half = precision not in ([], ["Precision<FP32>"])
    if net.keys() & {"ConvNet", "ResNet"}:
        return KINKS if not half else HALF if "SGD" in recipe else KINKS_IN_HALF
    return HALF if half else MUON if "Muon" in recipe else SINGLE
