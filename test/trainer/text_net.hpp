#pragma once
// Defines a model whose training changes all that a step can change, for tests of steps that are
// undone.
#include "test.hpp"

#include <ikebana.hpp>

namespace test {

/// A table whose gradient may be sparse, batch norm, dropout, and two units.
struct TextImpl : torch::nn::Module {
  using units = ikebana::Units<torch::nn::Linear>;
  torch::nn::Embedding table = nullptr;
  torch::nn::BatchNorm1d norm{16};
  torch::nn::Dropout dropout{0.2};
  torch::nn::Linear first{16, 16}, last{16, 4};
  explicit TextImpl(bool sparse) : table(torch::nn::EmbeddingOptions(12, 16).sparse(sparse)) {
    register_module("table", table);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("first", first);
    register_module("last", last);
  }
  template <class Run>
  ikebana::Loss loss(Run& run, const std::pair<at::Tensor, at::Tensor>& batch) {
    auto y = run(last, dropout(at::relu(run(first, norm(table(batch.first))))));
    return {at::cross_entropy_loss(y, batch.second, {}, at::Reduction::Sum), batch.second.numel()};
  }
};
TORCH_MODULE(Text);

}  // namespace test
