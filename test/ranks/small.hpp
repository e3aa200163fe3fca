#pragma once
// Defines a model of few tensors, each of which is an operation on files, trained by FSDP.
#include <algorithm>

#include "states.hpp"

namespace test::ranks {

struct SmallImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  torch::nn::Linear head = register_module("head", torch::nn::Linear(5, 3));
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor logits = run(head, batch.input);
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
};
TORCH_MODULE(Small);

inline auto sgd_over(const ProcessGroup& group, Small model) {
  return Trainer{std::move(model), SGD{.lr = 1e-2, .momentum = 0.9},
                 Shard<FSDP>{.process_group = group}};
}
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    all.push_back(entry.path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}
inline std::vector<Small> models(std::int64_t n) {
  std::vector<Small> all;
  for (std::int64_t r = 0; r < n; ++r) all.push_back(make<Small>());
  return all;
}

}  // namespace test::ranks
