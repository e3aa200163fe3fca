#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/maker/maker_model.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void MakerModel::make_buffers(torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> buffers = each_once(model.buffers());
  const auto real = values_of(buffers);
  for (at::Tensor buffer : buffers)
    if (tape_.find(buffer)) buffer.set_data(tensor_over(real.at(key_of(buffer)), buffer));
}

IKEBANA_INLINE Tensors MakerModel::parameters_of(const Unit& unit) {
  const at::NoGradGuard no_grad;
  const auto real = values_of(unit.parameters);
  Tensors all;
  for (const at::Tensor& p : unit.parameters)
    all.push_back(tape_.find(p) ? tensor_over(real.at(key_of(p)), p) : p.detach());
  return all;
}

IKEBANA_INLINE void MakerModel::name_tensors(const torch::nn::Module& model) {
  tape_.each_storage([](const TapeStorage& storage) {
    set_error(storage.shown, storage.made_by +
                                 " while the maker ran is neither a parameter nor a buffer of "
                                 "the model, so it has no values. Register it: "
                                 "register_buffer(name, tensor).");
  });
  for (const auto& item : model.named_buffers()) name(item.key(), item.value());
  for (const auto& item : model.named_parameters()) name(item.key(), item.value());
}

IKEBANA_INLINE void MakerModel::name(const std::string& name, const at::Tensor& t) {
  if (const TapeStorage* storage = tape_.find(t)) set_error(storage->shown, away_error(name));
}

IKEBANA_INLINE Tape::Storages MakerModel::values_of(const std::vector<at::Tensor>& tensors) {
  std::set<StorageKey> wanted;
  for (const at::Tensor& t : tensors)
    if (tape_.find(t)) wanted.insert(key_of(t));
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return tape_.replay(wanted);
}

}  // namespace ikebana::detail
