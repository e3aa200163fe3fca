#pragma once
// LibTorch's own optimizers, apart from torch.hpp: only LibTorchOptimizer needs them.
#include <ikebana/detail/torch.hpp>

#include <ikebana/detail/macros_aside.inc>

#include <torch/optim.h>
#include <torch/serialize/archive.h>

#include <ikebana/detail/macros_back.inc>
