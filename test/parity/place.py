"""Where Python trains, in which dtype, and PyTorch's settings there; settings.hpp has the same."""

import contextlib
import os
import warnings

import torch


class Place:
    """A device. If `double`, weights, batches and all that follows from them are in FP64."""

    def __init__(self, name="cpu", double=False):
        self.name, self.type, self.double = name, name.split(":")[0], double
        self.is_cpu = self.type == "cpu"

    def prepare(self):
        """Chooses kernels that give the same bits in every run, and no TF32, for a whole
        process."""
        torch.set_num_threads(1)
        if self.is_cpu:
            return
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        warnings.filterwarnings("ignore", message=".*deterministic.*")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        self.allow_tf32(False)

    @staticmethod
    def allow_tf32(allowed):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed

    @contextlib.contextmanager
    def tf32(self):
        self.allow_tf32(True)
        try:
            yield
        finally:
            self.allow_tf32(False)

    def moved(self, x):
        x = x.to(self.name)
        return x.double() if self.double and x.is_floating_point() else x

    @contextlib.contextmanager
    def rates(self, optimizer):
        """The learning rates as ikebana keeps them on a device: in FP32, for its schedules need no
        host synchronisation."""
        exact = [group["lr"] for group in optimizer.param_groups]
        if not self.is_cpu:
            for group, rate in zip(optimizer.param_groups, exact, strict=True):
                group["lr"] = torch.tensor(rate, dtype=torch.float32).item()
        yield
        for group, rate in zip(optimizer.param_groups, exact, strict=True):
            group["lr"] = rate


CPU = Place()
