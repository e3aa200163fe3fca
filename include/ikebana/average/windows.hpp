#pragma once
// The averages that are updated together, and their dtypes and memory.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// True for 16-bit values, whose average is FP32: in 16 bits a small weight would round away.
inline bool average_is_wide(const at::Tensor& value) {
  return at::isReducedFloatingType(value.scalar_type());
}
/// Memory for the average of a value.
inline at::Tensor average_like(const at::Tensor& value) {
  auto type = average_is_wide(value) ? at::kFloat : value.scalar_type();
  return at::empty_like(value.detach(), value.options().dtype(type).requires_grad(false));
}
/// Tensors of these shapes that share memory, to be used one after the other.
inline Tensors shared_like(const Tensors& all) {
  std::vector<at::Tensor> memory;
  auto of = [&](const at::Tensor& t) -> at::Tensor& {
    for (auto& m : memory)
      if (m.options().type_equal(t.options()) && m.device() == t.device()) return m;
    return memory.emplace_back(at::empty({0}, t.options()));
  };
  for (const auto& t : all)
    if (t.defined() && of(t).numel() < t.numel()) of(t) = at::empty({t.numel()}, t.options());
  Tensors views(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].defined()) views[i] = of(all[i]).as_strided(all[i].sizes(), all[i].strides());
  return views;
}

/// Averages that are updated together, with what they are averages of.
struct AverageWindow {
  std::vector<std::size_t> indices = {};
  Tensors averages = {}, values = {}, as_fp32 = {};  // of 16-bit values, in FP32
  std::int64_t bytes = 0;

  void add(std::size_t i, const at::Tensor& average, const at::Tensor& value) {
    indices.push_back(i), averages.push_back(average), values.push_back(value);
    bytes += static_cast<std::int64_t>(average.nbytes());
  }
};
/// Gives all of them scratch of FP32, which they share.
inline void share_fp32(std::vector<AverageWindow>& windows) {
  Tensors all;
  for (const AverageWindow& some : windows)
    all.insert(all.end(), some.averages.begin(), some.averages.end());
  const Tensors scratch = shared_like(all);
  auto from = scratch.begin();
  for (AverageWindow& some : windows) {
    const auto to = from + static_cast<std::ptrdiff_t>(some.averages.size());
    some.as_fp32.assign(from, to);
    from = to;
  }
}
/// While it exists, a window's tensors are used.
class AverageWindowInUse {
 public:
  AverageWindowInUse(StateStorage* storage, const AverageWindow& some,
                     bool writes_values = false) noexcept
      : storage_(storage), some_(some) {
    if (storage_ == nullptr) return;
    storage_->begin_window(some_.averages);
    storage_->begin_use(some_.values, writes_values);
  }
  ~AverageWindowInUse() {
    if (storage_ == nullptr) return;
    storage_->end_window(some_.averages);
    storage_->end_use(some_.values);
  }
  AverageWindowInUse(const AverageWindowInUse&) = delete;
  AverageWindowInUse& operator=(const AverageWindowInUse&) = delete;

 private:
  StateStorage* storage_;
  const AverageWindow& some_;
};

}  // namespace ikebana::detail
