#pragma once
// Defines the policy Precision<TF32> and its mechanism.
#include <ikebana/precision/finite_loss.hpp>

namespace ikebana {

/// FP32 weights and results, with matrix products on the TensorFloat-32 units of NVIDIA GPUs. Sets
/// LibTorch's global permissions during a step or forward and restores them afterwards, also after
/// exceptions. Has no effect on other devices. Source: torch.backends.cuda.matmul.allow_tf32.
template <>
struct Precision<TF32> {};

template <>
struct Mechanism<Precision<TF32>> : detail::FiniteLoss {
  using carries_out = Precision<TF32>;
  Precision<TF32> values;
  bool effective = false;
  explicit Mechanism(Precision<TF32> v) : values(v) {}

  /// Allows TensorFloat-32 in cuBLAS and cuDNN for its lifetime, if `set` is true.
  class Permission {
   public:
    explicit Permission(bool set);
    ~Permission();
    Permission(const Permission&) = delete;
    Permission& operator=(const Permission&) = delete;

   private:
    bool set_, blas_ = false, dnn_ = false;
  };

  void attach(c10::Device device, const UnitTable&) { effective = device.is_cuda(); }
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    Permission permission(effective);
    return next();
  }
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    Permission permission(effective);
    return next();
  }
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/tf32.ipp>
#endif
