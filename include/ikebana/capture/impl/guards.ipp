#pragma once
#include <ikebana/capture/guards.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>

namespace ikebana::detail {

IKEBANA_INLINE ModuleSizes::ModuleSizes() {
  namespace nn = torch::nn;
  auto add_all = [this]<class... Modules>(std::type_identity<Modules>...) {
    (add<Modules>(), ...);
  };
  add_all(std::type_identity<nn::LinearImpl>(), std::type_identity<nn::BilinearImpl>(),
          std::type_identity<nn::EmbeddingImpl>(), std::type_identity<nn::EmbeddingBagImpl>(),
          std::type_identity<nn::Conv1dImpl>(), std::type_identity<nn::Conv2dImpl>(),
          std::type_identity<nn::Conv3dImpl>(), std::type_identity<nn::ConvTranspose1dImpl>(),
          std::type_identity<nn::ConvTranspose2dImpl>(),
          std::type_identity<nn::ConvTranspose3dImpl>(), std::type_identity<nn::BatchNorm1dImpl>(),
          std::type_identity<nn::BatchNorm2dImpl>(), std::type_identity<nn::BatchNorm3dImpl>(),
          std::type_identity<nn::InstanceNorm1dImpl>(),
          std::type_identity<nn::InstanceNorm2dImpl>(),
          std::type_identity<nn::InstanceNorm3dImpl>(), std::type_identity<nn::LayerNormImpl>(),
          std::type_identity<nn::GroupNormImpl>(), std::type_identity<nn::LocalResponseNormImpl>(),
          std::type_identity<nn::DropoutImpl>(), std::type_identity<nn::Dropout2dImpl>(),
          std::type_identity<nn::Dropout3dImpl>(), std::type_identity<nn::AlphaDropoutImpl>(),
          std::type_identity<nn::FeatureAlphaDropoutImpl>(), std::type_identity<nn::ReLUImpl>(),
          std::type_identity<nn::LeakyReLUImpl>(), std::type_identity<nn::ELUImpl>(),
          std::type_identity<nn::GELUImpl>(), std::type_identity<nn::SoftmaxImpl>(),
          std::type_identity<nn::PReLUImpl>(), std::type_identity<nn::RReLUImpl>(),
          std::type_identity<nn::SoftplusImpl>(), std::type_identity<nn::ThresholdImpl>(),
          std::type_identity<nn::MultiheadAttentionImpl>(), std::type_identity<nn::RNNImpl>(),
          std::type_identity<nn::LSTMImpl>(), std::type_identity<nn::GRUImpl>());
}

IKEBANA_INLINE std::size_t ModuleSizes::of(const torch::nn::Module& module) const {
  const auto found = sizes_.find(typeid(module));
  return found == sizes_.end() ? sizeof(torch::nn::Module) : found->second;
}

/// Returns the number of hooks of a tensor that run in backward.
inline std::size_t hook_count(const at::Tensor& t) noexcept {
  const auto* meta = torch::autograd::impl::get_autograd_meta(t);
  if (meta == nullptr) return 0;
  std::size_t count = meta->hooks_.size() + (meta->post_acc_grad_hooks_ != nullptr ? 1 : 0);
  if (meta->cpp_hooks_list_ != nullptr)
    for (const auto& hook : *meta->cpp_hooks_list_) count += hook ? 1 : 0;
  return count;
}

IKEBANA_INLINE void compute_names(const torch::nn::Module& model) {
  for (const auto& module : model.modules()) (void)module->name();
}

IKEBANA_INLINE void ModelGuard::take(const torch::nn::Module& model, const ModuleSizes& sizes,
                                     bool move) {
  modules_.clear(), bytes_.clear(), tensors_.clear();
  compute_names(model);
  for (const auto& item : model.named_modules("", /*include_self=*/true)) {
    const torch::nn::Module& module = *item.value();
    const std::size_t count = sizes.of(module);
    // The base class of a module whose type is not known lies within it.
    const void* data = count == sizeof(torch::nn::Module) ? static_cast<const void*>(&module)
                                                          : dynamic_cast<const void*>(&module);
    modules_.push_back({item.value(), data, count, bytes_.size(), item.key()});
    const auto* bytes = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + count);
  }
  auto add = [&](const at::Tensor& t) {
    const c10::StorageImpl* storage =
        t.defined() && t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
    tensors_.push_back({t, storage, storage && !move ? storage->data() : nullptr,
                        t.defined() && t.requires_grad(), hook_count(t)});
  };
  for (const at::Tensor& t : each_once(model.parameters())) add(t);
  for (const at::Tensor& t : each_once(model.buffers())) add(t);
}

IKEBANA_INLINE bool ModelGuard::is_unchanged() const noexcept {
  for (const Bytes& one : modules_)
    if (!is_unchanged(one)) return false;
  for (const Registered& one : tensors_) {
    if (one.storage == nullptr) continue;
    const auto* impl = one.tensor.unsafeGetTensorImpl();
    if (impl->unsafe_storage().unsafeGetStorageImpl() != one.storage ||
        (one.data != nullptr && one.storage->data() != one.data) ||
        impl->requires_grad() != one.requires_grad || hook_count(one.tensor) != one.hooks)
      return false;
  }
  return true;
}

IKEBANA_INLINE std::string ModelGuard::changed_module() const {
  for (const Bytes& one : modules_)
    if (!is_unchanged(one)) return one.name.empty() ? "the model" : one.name;
  return {};
}

IKEBANA_INLINE std::string changed_module_text(const std::string& module) {
  return "`" + module +
         "` changes a member of itself in its forward, which a replay would not do. Keep it in a "
         "buffer that operators change, or outside of the model.";
}

IKEBANA_INLINE TorchModes TorchModes::now(c10::DeviceType type) {
  const at::Context& context = at::globalContext();
  return {.grad = at::GradMode::is_enabled(),
          .inference = c10::InferenceMode::is_enabled(),
          .deterministic = context.deterministicAlgorithms(),
          .deterministic_warns = context.deterministicAlgorithmsWarnOnly(),
          .flash = context.userEnabledFlashSDP(),
          .efficient = context.userEnabledMemEfficientSDP(),
          .math = context.userEnabledMathSDP(),
          .autocasts = at::autocast::is_autocast_enabled(type),
          .caches_casts = at::autocast::is_autocast_cache_enabled(),
          .mkldnn = context.userEnabledMkldnn(),
          .cudnn = context.userEnabledCuDNN(),
          .deterministic_cudnn = context.deterministicCuDNN(),
          .benchmarks_cudnn = context.benchmarkCuDNN(),
          .autocast_dtype = at::autocast::get_autocast_dtype(type),
          .default_dtype = at::get_default_dtype(),
          .precision = static_cast<int>(context.float32MatmulPrecision())};
}

IKEBANA_INLINE void BatchForm::add_tensor(const at::Tensor& t) {
  if (!t.defined()) return words_.push_back(-1);
  words_.push_back(static_cast<std::int64_t>(t.scalar_type()) | std::int64_t(t.dim()) << 8 |
                   std::int64_t(t.device().type()) << 16 | std::int64_t(t.layout()) << 24 |
                   std::int64_t(t.requires_grad()) << 32 | std::int64_t(t.is_conj()) << 33 |
                   std::int64_t(t.is_neg()) << 34);
  for (const std::int64_t n : t.sizes()) words_.push_back(n);
  if (t.layout() != at::kStrided || !t.has_storage()) return;
  for (const std::int64_t n : t.strides()) words_.push_back(n);
  const void* storage = t.storage().unsafeGetStorageImpl();
  std::size_t i = 0;
  while (i < storages_.size() && storages_[i].first != storage) ++i;
  const std::int64_t begin = t.storage_offset() * static_cast<std::int64_t>(t.itemsize());
  if (i == storages_.size()) storages_.push_back({storage, begin});
  words_.push_back(static_cast<std::int64_t>(i));
  words_.push_back(begin - storages_[i].second);
}

IKEBANA_INLINE void BatchForm::add_raw(const void* data, std::size_t bytes) {
  const std::string_view text(static_cast<const char*>(data), bytes);
  words_.push_back(static_cast<std::int64_t>(fnv1a(fnv1a_start, text)));
}

IKEBANA_INLINE void BatchForm::add_gradients(const Masters& masters) {
  for (const at::Tensor& master : masters.values) {
    const at::Tensor& gradient = master.grad();
    words_.push_back(gradient.defined() ? 1 : 0);
    if (!gradient.defined()) continue;
    words_.push_back(static_cast<std::int64_t>(gradient.scalar_type()));
    if (gradient.layout() != at::kStrided) continue;
    for (const std::int64_t n : gradient.strides()) words_.push_back(n);
  }
}

}  // namespace ikebana::detail
