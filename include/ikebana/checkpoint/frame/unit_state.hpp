#pragma once
// Defines a unit that may be recomputed, and the state that a recompute reads besides its
// arguments: buffers, which are restored to their values before forward, and parameters, whose
// versions show whether they changed since forward.
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana::detail {

/// A snapshot of the values and versions of a module's buffers. Costs a copy of them.
class BufferValues {
 public:
  explicit BufferValues(const torch::nn::Module& module);
  /// Restores the versions as well, so that autograd sees no change. While a step is recorded,
  /// operators do it, which may throw.
  void restore();
  /// Does so in a destructor, also after an allocation that failed: allocates nothing for dense
  /// buffers on a CPU, or falls back to that.
  void restore_quietly() noexcept;
  void drop_unchanged();
  /// Returns true for a buffer of the snapshot whose version has changed since.
  bool changed(const at::Tensor& buffer) const;

 private:
  struct Value {
    at::Tensor buffer, copy;
    Version version;
  };
  static bool restore_bytes(Value& value);
  std::vector<Value> values_;
};

/// A unit that may be recomputed. Its parameters are collected once; its buffers at each forward,
/// because a module may register a buffer at any time.
struct RecomputedUnit {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::string cudnn_dropout = {};  ///< a layer in it whose random numbers cannot be drawn again
  std::vector<at::Tensor> parameters = each_once(module->parameters());
};

template <class Layer>
bool drops_out(const torch::nn::Module& module) {
  const auto* layer = dynamic_cast<const Layer*>(&module);
  return layer && layer->options_base.dropout() > 0 && layer->options_base.num_layers() > 1;
}

/// Returns the name of a layer in `unit` whose random numbers a recompute cannot draw again.
/// cuDNN's recurrent layers drop out between their layers with a state of their own, which is
/// neither seeded nor set back. Returns an empty text if there is no such layer.
std::string cudnn_dropout_in(const torch::nn::Module& unit, c10::Device device);

/// A unit's state at one forward: the previous values of the buffers that forward changes, and the
/// versions of its parameters and other buffers.
class UnitState {
 public:
  explicit UnitState(const torch::nn::Module& module) : buffers_before_(module) {}

  void forward_ended(const RecomputedUnit& unit);
  /// Returns true if something changed a parameter or buffer in place that a recompute cannot
  /// restore.
  bool changed() const;
  void restore_buffers() { buffers_before_.restore(); }

 private:
  BufferValues buffers_before_;
  std::vector<Version> versions_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/unit_state.ipp>
#endif
