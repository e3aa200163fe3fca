#pragma once
// Constructors of models, as people write them: each fills one module type, so that one trainer
// type serves all.
#include "groups.hpp"

namespace test::ranks::makers {

namespace nn = torch::nn;

struct PartImpl : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x.sum(); }
};
TORCH_MODULE(Part);

struct WholeImpl;
/// Registers parts in a model, and parameters in these.
using Build = std::function<void(WholeImpl&)>;

struct WholeImpl : nn::Module {
  using units = ikebana::Units<Part>;
  explicit WholeImpl(const Build& build) { build(*this); }
  Part part(const std::string& name) { return register_module(name, Part()); }
  at::Tensor table;  // neither parameter nor buffer

  template <class Run>
  ikebana::Loss loss(Run& run, const at::Tensor& batch) {
    at::Tensor sum = table.defined() ? (batch * table).sum() : batch.sum();
    for (const auto& child : children())
      if (auto* module = child->template as<PartImpl>()) sum = sum + run(*module, batch);
    return {.sum = sum, .count = batch.size(0)};
  }
};
TORCH_MODULE(Whole);

inline at::Tensor weight(Part& part, const std::string& name, const at::Tensor& value) {
  return part->register_parameter(name, value.is_leaf() ? value : value.detach());
}

struct Idiom {
  const char* name;
  Build build;
};
std::vector<Idiom> idioms();
void linear_layers(WholeImpl& model);

}  // namespace test::ranks::makers
