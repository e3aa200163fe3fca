#pragma once
#include <ikebana/clip/inspect_gradients.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_version.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<InspectGradients>::show(const std::string& name,
                                                      const at::Tensor& value,
                                                      const at::Tensor& divisor) const {
  const at::Tensor gradient = divisor.defined() ? value / divisor : value.detach();
  if (detail::without_values()) return;
  const at::Tensor elements = elements_of(gradient);
  const detail::Version version(gradient), of_elements(elements);
  const auto uses = elements.storage().use_count(), handles = gradient.use_count();
  values.hook(name, gradient);
  if (version.changed() || of_elements.changed())
    throw BadValue("InspectGradients: the hook changed the gradient of `" + name +
                   "`, which it may only read. To change gradients, write a policy of your own "
                   "on the axis clip.");
  if (elements.storage().use_count() != uses || gradient.use_count() != handles)
    throw BadValue("InspectGradients: the hook kept the gradient of `" + name +
                   "`, whose memory the next step uses again. Keep a copy: gradient.clone().");
}

}  // namespace ikebana
