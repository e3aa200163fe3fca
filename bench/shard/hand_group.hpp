#pragma once
// The loops by hand share this: Gloo, a sum over ranks, and AdamW as one fused call.
#include <ikebana/detail/torch_c10d.hpp>

#include "rank.hpp"

namespace bench {

using Gloo = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

inline Gloo make_gloo(const Place& place) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::minutes(5));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(place.store, static_cast<int>(place.rank),
                                                     static_cast<int>(place.size), options);
}

/// Returns a number's sum over ranks.
inline double summed(const Gloo& gloo, const at::Tensor& number) {
  std::vector<at::Tensor> values{number.detach().clone()};
  gloo->allreduce(values)->wait();
  return values[0].item<double>();
}

class FusedAdamW {
 public:
  explicit FusedAdamW(Tensors parameters) : parameters_(std::move(parameters)) {
    for (const at::Tensor& p : parameters_)
      first_.push_back(at::zeros_like(p)), second_.push_back(at::zeros_like(p));
    steps_.assign(parameters_.size(), at::zeros({}));
  }
  void update(const Tensors& gradients) {
    const at::NoGradGuard no_grad;
    *steps_[0].data_ptr<float>() += 1;  // all share it
    at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, 1e-3, 0.9, 0.999, 1e-2,
                      1e-8, false, false);
  }

 private:
  Tensors parameters_, first_, second_, steps_;
};

}  // namespace bench
