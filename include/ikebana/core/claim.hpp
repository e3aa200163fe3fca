#pragma once
// Which parameters are in training, in this process; and whether a model can be trained at all.
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <mutex>
#include <unordered_set>

namespace ikebana::detail {

/// One list for all trainers of a process, shared also between plugins with hidden symbols.
struct __attribute__((visibility("default"))) ClaimedParameters {
  std::mutex mutex;
  std::unordered_set<c10::TensorImpl*> parameters;
  static ClaimedParameters& get() {
    static auto& list = *new ClaimedParameters;  // trainers may be destroyed after statics
    return list;
  }
};

/// Claims parameters for one trainer while it lives. Throws BadModel where another one has them.
class ParameterClaim {
 public:
  explicit ParameterClaim(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
    ClaimedParameters& list = ClaimedParameters::get();
    std::lock_guard lock(list.mutex);
    for (const auto& p : parameters_)
      if (list.parameters.count(p.unsafeGetTensorImpl()))
        throw BadModel(
            "trainer: another trainer that is alive already trains these parameters. Destroy it "
            "first, or give each trainer a model of its own.");
    for (const auto& p : parameters_) list.parameters.insert(p.unsafeGetTensorImpl());
  }
  ~ParameterClaim() {
    ClaimedParameters& list = ClaimedParameters::get();
    std::lock_guard lock(list.mutex);
    for (const auto& p : parameters_) list.parameters.erase(p.unsafeGetTensorImpl());
  }
  ParameterClaim(const ParameterClaim&) = delete;
  ParameterClaim& operator=(const ParameterClaim&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
};

/// Throws BadModel for a module without parameters, with none to train, or on two devices.
inline void check_trainable(const torch::nn::Module& module) {
  auto named = module.named_parameters();
  if (named.is_empty())
    throw BadModel(
        "trainer: the model has no parameters. Register its modules (register_module) and "
        "parameters (register_parameter).");
  bool any = false;
  const auto& first = named[0];
  for (const auto& item : named) {
    const at::Tensor& p = item.value();
    any = any || p.requires_grad();
    if (p.device() != first.value().device())
      throw BadModel("trainer: `" + first.key() + "` is on " + first.value().device().str() +
                     " and `" + item.key() + "` on " + p.device().str() +
                     ". Move the model to one device, or add On to the recipe: On{device}.");
    if (p.requires_grad() && !p.is_leaf())
      throw BadModel("trainer: `" + item.key() +
                     "` is computed from other tensors, so it cannot be updated. Register the "
                     "tensors it is computed from.");
    if (p.requires_grad() && !p.is_non_overlapping_and_dense())
      throw BadModel("trainer: `" + item.key() +
                     "` has gaps or overlaps in memory, which fused optimizers ignore. Register a "
                     "contiguous copy of it.");
  }
  if (!any)
    throw BadModel("trainer: all " + std::to_string(named.size()) +
                   " parameters of the model are frozen. Set requires_grad on those that are to "
                   "be trained.");
}

}  // namespace ikebana::detail
