#pragma once
// The averages that are updated together, and their dtypes and memory.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// True for 16-bit values, whose average is FP32: in 16 bits a small weight would round away.
bool average_is_wide(const at::Tensor& value);
/// Memory for the average of a value.
at::Tensor average_like(const at::Tensor& value);
/// Tensors of these shapes that share memory, to be used one after the other.
Tensors shared_like(const Tensors& all);

/// Averages that are updated together, with what they are averages of.
struct AverageWindow {
  std::vector<std::size_t> indices = {};
  Tensors averages = {}, values = {}, as_fp32 = {};  // of 16-bit values, in FP32
  std::int64_t bytes = 0;

  void add(std::size_t i, const at::Tensor& average, const at::Tensor& value);
};
/// Gives all of them scratch of FP32, which they share.
void share_fp32(std::vector<AverageWindow>& windows);
/// While it exists, a window's tensors are used.
class AverageWindowInUse {
 public:
  AverageWindowInUse(StateStorage* storage, const AverageWindow& some,
                     bool writes_values = false) noexcept;
  ~AverageWindowInUse();
  AverageWindowInUse(const AverageWindowInUse&) = delete;
  AverageWindowInUse& operator=(const AverageWindowInUse&) = delete;

 private:
  StateStorage* storage_;
  const AverageWindow& some_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/average/impl/windows.ipp>
#endif
