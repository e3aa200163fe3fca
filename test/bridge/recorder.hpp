#pragma once
#include <atomic>
#include <ikebana/bridge/saved_tensors.hpp>
#include <memory>

namespace test {

/// Keeps what is packed, and counts.
struct Recorder : ikebana::bridge::SavedTensorHooks {
  struct Hook : torch::autograd::SavedVariableHooks {
    explicit Hook(Recorder& recorder) : to(recorder) { ++to.alive; }
    ~Hook() override { --to.alive; }
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

  std::atomic<int> made{0}, packed{0}, unpacked{0}, alive{0};
  bool declines = false;
};

inline at::Tensor leaf(at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(); }

}  // namespace test
