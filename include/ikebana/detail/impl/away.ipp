#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string away_error(const std::string& name) {
  return "`" + name +
         "` is not here: its trainer stores the values elsewhere, and gathers them while "
         "`run(unit, ...)` computes. Use it inside of its unit, or within "
         "Trainer::with_full_weights. Trainer::restore_model ends a trainer and puts all values "
         "back.";
}

IKEBANA_INLINE at::Tensor away_tensor(const at::Tensor& like, const std::string& name) {
  at::Tensor t = at::empty({0}, like.options().requires_grad(false));
  auto* storage = t.storage().unsafeGetStorageImpl();
  storage->set_nbytes(at::detail::computeStorageNbytes(like.sizes(), like.strides(),
                                                       like.itemsize()));  // views are checked
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(away_error(name));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  return t;
}

IKEBANA_INLINE bool is_away(const at::Tensor& t) {
  return t.numel() > 0 && t.has_storage() && !t.is_meta() &&
         t.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() == nullptr;
}

}  // namespace ikebana::detail
