#pragma once
// Activation checkpointing of one module in a loop without a trainer.
#include <ikebana/checkpoint/full.hpp>
#include <ikebana/checkpoint/selective.hpp>
#include <ikebana/pieces/own_loop.hpp>

namespace ikebana::detail {
/// Calls a module, now and in backward.
template <class Model>
struct OwnCall {
  mutable Model module;  // a constant holder gives a constant module
  template <class... Args>
  auto operator()(const Args&... args) const {
    return module->forward(args...);
  }
  OwnCall owned() const { return *this; }
};
}  // namespace ikebana::detail

namespace ikebana::pieces {

/// A module of which a call keeps only its inputs, and is computed again in backward, as by
/// torch.utils.checkpoint.checkpoint(module, ..., use_reentrant=False); with
/// `Checkpoint<Selective>` it also keeps the outputs of costly operators. Results, gradients,
/// buffers and random numbers have the same bits as without. Make it after the module was moved to
/// its device. Without gradients, as under torch::NoGradGuard, it calls the module. Costs what the
/// policy costs in a recipe. Needs LibTorch's own autograd engine: no Python in the process.
template <class Model, class Policy = Checkpoint<Full>>
class Checkpointed {
 public:
  /// Keeps the module, which is a holder or a shared pointer, alive.
  explicit Checkpointed(Model module, Policy policy = {})
      : mechanism_(std::move(policy)), units_(UnitTable::of(module)), call_{std::move(module)} {
    mechanism_.attach(ikebana::detail::device_of(*root().module), units_);
  }
  /// Returns what the module's `forward` returns for these arguments.
  template <class... Args>
  auto operator()(const Args&... args) {
    if (!at::GradMode::is_enabled()) return call_(args...);
    return mechanism_.around_unit(root(), call_, args...);
  }

 private:
  const Unit& root() const { return units_.units()[0]; }

  Mechanism<Policy> mechanism_;
  UnitTable units_;
  ikebana::detail::OwnCall<Model> call_;
};

}  // namespace ikebana::pieces
