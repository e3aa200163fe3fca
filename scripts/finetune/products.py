"""Products of 16 bits on a CPU as CPUProducts::FP32 computes them: in FP32, and rounded.

PyTorch's own take 10 to 50 times as long on a processor without instructions for BF16.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

NAMES = (
    *("mm", "addmm", "bmm", "baddbmm", "addbmm", "convolution", "convolution_backward"),
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    *("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"),
)
HALF = (torch.bfloat16, torch.float16)


def tensors_of(values):
    found = []
    tree_map(lambda x: found.append(x) if isinstance(x, torch.Tensor) else None, values)
    return found


def has_instructions():
    """Whether oneDNN may use instructions for BF16 on this processor: PyTorch's own question, and
    what it leaves out, for oneDNN also converts to FP32 and back."""
    with open("/proc/cpuinfo") as info:
        flags = next((line.split() for line in info if line.startswith("flags")), [])
    names = {"avx512_bf16", "amx_bf16", "avx_ne_convert"}
    return torch.ops.mkldnn._is_mkldnn_bf16_supported() and not names.isdisjoint(flags)


class InFP32(TorchDispatchMode):
    """Computes below autograd, which saves the tensors of 16 bits."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        half = [x.dtype for x in tensors_of((args, kwargs)) if x.dtype in HALF]
        if name not in NAMES or not half:
            return func(*args, **kwargs)

        def widen(x):
            return x.float() if isinstance(x, torch.Tensor) and x.dtype in HALF else x

        def rounded(x):
            is_single = isinstance(x, torch.Tensor) and x.dtype == torch.float32
            return x.to(half[0]) if is_single else x

        result = func(*tree_map(widen, args), **tree_map(widen, kwargs))
        if name == NAMES[7]:  # the sums of its softmax stay in FP32
            return rounded(result[0]), result[1]
        if func._schema.returns[0].alias_info is not None:  # `out` was written in FP32
            raise SystemExit(f"parity: products.py has no {func}")
        return tree_map(rounded, result)
