#pragma once
// One of the optimizers of Combined: it sees its own parameters only, as if there were no others.
#include <ikebana/hooks/update.hpp>
#include <ikebana/optimizer/muon.hpp>
#include <ikebana/optimizer/sparse_adam.hpp>

namespace ikebana::detail {

/// True for an optimizer whose own `match` chooses the parameters that it updates, such as Muon.
template <class Policy>
concept updates_some = requires(Policy policy) { policy.match, policy.otherwise; };

/// Throws BadValue where the field `otherwise` of one of the policies was set: within Combined it
/// would have no effect.
template <class... Policies>
void check_fallback_is_unused(const Policies&... policies) {
  auto check = []<class Policy>(const Policy& policy) {
    if constexpr (requires { policy.otherwise; }) {
      const AdamW &v = policy.otherwise, unset;
      if (v.lr != unset.lr || v.betas != unset.betas || v.eps != unset.eps ||
          v.weight_decay != unset.weight_decay || v.amsgrad != unset.amsgrad ||
          v.maximize != unset.maximize || !v.groups.empty())
        throw BadValue("Combined: `otherwise` of " + type_name<Policy>() +
                       " is set, and the other optimizer updates the other parameters. Leave it "
                       "out, and set the values of `rest`.");
    }
  };
  (check(policies), ...);
}

/// The names of the weights of embeddings with sparse(true).
template <class Table>
std::vector<std::string> sparse_embeddings(const Table& units) {
  std::vector<std::string> names;
  auto add = [&](const std::string& module, bool sparse) {
    if (sparse) names.push_back(module.empty() ? "weight" : module + ".weight");
  };
  for (auto& item : units.units()[0].module->named_modules()) {
    if (auto* table = item.value()->template as<torch::nn::EmbeddingImpl>())
      add(item.key(), table->options.sparse());
    if (auto* bag = item.value()->template as<torch::nn::EmbeddingBagImpl>())
      add(item.key(), bag->options.sparse());
  }
  return names;
}

/// An optimizer and its parameters. Rounded updates are written as those of the trainer's masters.
template <class Policy>
class OptimizerPart : UpdateRounding {
 public:
  typename without_fallback<Policy>::type mechanism;
  explicit OptimizerPart(Policy values) : mechanism(std::move(values)) {}

  /// Takes the masters with `is_own(i)`.
  template <class IsOwn>
  void take(const Masters& all, const IsOwn& is_own) {
    rounding_ = all.rounding;
    masters_.rounding = rounding_ ? this : nullptr;
    masters_.storage = all.storage, masters_.ranks = all.ranks;
    for (std::size_t i = 0; i < all.values.size(); ++i) {
      place_.push_back(is_own(i) ? size() : none);
      if (!is_own(i)) continue;
      index_.push_back(all.first + i);
      masters_.add(all, i);
    }
  }
  std::size_t size() const { return index_.size(); }
  void begin() {
    if constexpr (updates_some<Policy>)
      for (std::size_t i = 0; i < size(); ++i)
        if (!holds_for(mechanism.values.match, masters_, i))
          throw BadValue("Combined: no optimizer is for `" + masters_.names[i] + "` of shape " +
                         c10::str(masters_.values[i].sizes()) + ": " + type_name<Policy>() +
                         " is `rest`, and its own `match` is not true for it. Make " +
                         type_name<Policy>() + " `first`.");
    refuse_slices<std::decay_t<decltype(mechanism)>>(masters_);
    mechanism.begin(masters_);
  }
  /// `values` are the policy's; the caller may have changed them since the last step.
  template <class Rate>
  void prepare(const Policy& values, const StepGradients& all, const Rate& rate) {
    mechanism.values = values;
    gradients_ = all;
    std::size_t n = 0;
    for (std::size_t k = 0; k < all.indices.size(); ++k) {
      const std::size_t own = place_[all.indices[k]];
      if (own == none) continue;
      gradients_.indices[n] = own, gradients_.values[n++] = all.values[k];
    }
    gradients_.indices.resize(n), gradients_.values.resize(n);
    ask_.begin(mechanism, masters_, gradients_);
    mechanism.prepare(masters_, gradients_, rate);
  }
  /// Throws BadModel for a sparse gradient of one of these parameters.
  void refuse_sparse(const StepGradients& all, const char* cure) const {
    for (std::size_t k = 0; k < all.indices.size(); ++k)
      if (const std::size_t own = place_[all.indices[k]]; own != none && all.values[k].is_sparse())
        throw BadModel("Combined: the gradient of `" + masters_.names[own] + "` is sparse, and " +
                       type_name<Policy>() + " updates that parameter. " + cure);
  }
  void update() noexcept(noexcept(ask_(mechanism, masters_, gradients_))) {
    ask_(mechanism, masters_, gradients_);
  }
  /// From now on its update can be undone after it has ended.
  void keep_copies() noexcept { ask_.keep_copies(mechanism); }
  void after_update() noexcept { mechanism.after_update(masters_, gradients_); }
  void end_step(Report& report) noexcept {
    mechanism.end_step(gradients_, report);
    ask_.end_step();
    gradients_.values.clear();
  }
  void abort() noexcept {
    ask_.abort(mechanism, masters_);
    mechanism.abort();
    gradients_.values.clear();
  }
  std::string describe() const {
    return type_name<Policy>() + " {" + mechanism.describe() + "} for " + std::to_string(size()) +
           (size() == 1 ? " parameter" : " parameters");
  }
  void state(Archive& archive, Policy& values) {
    ask_.settle(mechanism, masters_);
    mechanism.values = values;
    mechanism.state(archive, masters_);
    values = mechanism.values;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  void prepare_rounding(const at::TensorOptions& exact, std::int64_t max_elements) override {
    rounding_->prepare_rounding(exact, max_elements);
  }
  void write(const at::Tensor& master, const at::Tensor& exact, std::size_t i) noexcept override {
    rounding_->write(master, exact, index_[i]);
  }

  Update<typename without_fallback<Policy>::type> ask_;
  Masters masters_;
  StepGradients gradients_;
  std::vector<std::size_t> place_;  // of each of the trainer's masters among these; or none
  std::vector<std::size_t> index_;  // of each of these among the trainer's masters
  UpdateRounding* rounding_ = nullptr;
};

}  // namespace ikebana::detail
