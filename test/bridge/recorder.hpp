#pragma once
// Defines saved-tensor hooks that count their calls.
#include <atomic>
#include <ikebana/bridge/saved_tensors.hpp>
#include <memory>

namespace test {

/// Keeps a detached copy of each packed tensor, and counts calls and existing hooks.
struct Recorder : ikebana::bridge::SavedTensorHooks {
  struct Hook : torch::autograd::SavedVariableHooks {
    explicit Hook(Recorder& recorder) : to(recorder) { ++to.existing; }
    ~Hook() override { --to.existing; }
    void call_pack_hook(const at::Tensor& tensor) override {
      kept = tensor.detach();
      ++to.packed;
    }
    at::Tensor call_unpack_hook() override {
      ++to.unpacked;
      return kept;
    }
    Recorder& to;
    at::Tensor kept;
  };

  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    ++made;
    return declines ? nullptr : std::make_unique<Hook>(*this);
  }

  std::atomic<int> made{0}, packed{0}, unpacked{0}, existing{0};
  bool declines = false;
};

inline at::Tensor leaf(at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(); }

}  // namespace test
