#pragma once
// The one random number of LibTorch that a recompute cannot draw again: cuDNN's recurrent layers
// drop out between their layers with a state of their own, which is neither seeded nor set back.
#include <ikebana/detail/torch.hpp>
#include <string>

namespace ikebana::detail {

template <class Layer>
bool drops_out(const torch::nn::Module& module) {
  const auto* layer = dynamic_cast<const Layer*>(&module);
  return layer && layer->options_base.dropout() > 0 && layer->options_base.num_layers() > 1;
}

/// The name of a layer in `unit` that cuDNN would run with such a dropout; empty if there is none.
std::string cudnn_dropout_in(const torch::nn::Module& unit, c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/cudnn_dropout.ipp>
#endif
