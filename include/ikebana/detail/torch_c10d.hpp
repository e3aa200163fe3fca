#pragma once
// The stores of c10d, by which processes find each other, apart from torch.hpp.
#include <ikebana/detail/torch.hpp>

#include <ikebana/detail/macros_aside.inc>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <ikebana/detail/macros_back.inc>
