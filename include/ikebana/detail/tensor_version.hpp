#pragma once
// Detects that a tensor was changed in place.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Records a tensor's version counter, which each change in place increments. Does not keep the
/// tensor alive.
class Version {
 public:
  explicit Version(const at::Tensor& t)
      : counter_(t.unsafeGetTensorImpl()->version_counter()), recorded_(current()) {}

  bool changed() const { return current() != recorded_; }
  /// Makes a tensor with the same values share the version counter from now on.
  void share_with(const at::Tensor& t) const;
  void record_again() { recorded_ = current(); }
  void restore();

 private:
  std::uint32_t current() const { return counter_.enabled() ? counter_.current_version() : 0; }

  c10::VariableVersion counter_;
  std::uint32_t recorded_;
};

/// Returns whether an operator may change a buffer without incrementing its version: LibTorch's
/// batch norm writes its running statistics, one number for each channel, behind the version
/// counter.
bool may_change_uncounted(const at::Tensor& buffer);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/tensor_version.ipp>
#endif
