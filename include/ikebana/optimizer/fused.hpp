#pragma once
// What the optimizers on LibTorch's fused operators share: one call a group, device and type; state
// made on first use; everything that may fail done in `prepare`.
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/group.hpp>
#include <map>

namespace ikebana::detail {

/// Parameters that one fused call updates, with their gradients and state.
struct Bucket {
  std::size_t group = 0;    ///< index among the groups; their number: none
  bool first_step = false;  ///< none of these parameters was ever updated
  double weight_decay = 0;
  at::Tensor lr =
      {};  ///< one number where the parameters live, so that it may change in a captured step
  Tensors parameters = {}, gradients = {}, steps = {};
  std::vector<Tensors> state = {};      ///< by slot, then by parameter
  std::vector<std::size_t> which = {};  ///< masters
};

template <class Policy>
class Fused : public Hooks {
 public:
  Policy values;
  explicit Fused(Policy v) : values(std::move(v)) {}

  double base_lr() const { return values.lr; }
  void abort() noexcept { forget_gradients(); }

 protected:
  using Kinds = std::span<const char* const>;  ///< names of the state of one parameter

  /// Sorts masters into buckets where that changed since the last step, makes missing state, and
  /// takes the gradients.
  template <class Rate>
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                       Kinds kinds) {
    begin(masters, kinds);
    if (gradients.which != which_) sort(masters, gradients.which);
    which_ = gradients.which;
    for (auto& bucket : buckets_) {
      take_gradients(bucket, masters, gradients);
      set_lr(bucket.lr, rate(group_lr(bucket.group)));
      bucket.weight_decay = group_decay(bucket.group);
    }
  }
  /// Counts a step in every bucket, then updates: `call(bucket, divisor, found_inf)`.
  template <class Call>
  void update_buckets(const StepGradients& gradients, Call&& call) noexcept {
    at::NoGradGuard no_grad;
    auto option = [](const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
    auto divisor = option(gradients.divisor), found_inf = option(gradients.found_inf);
    for (auto& step : active_steps_) {
      if (step.is_cpu()) *step.template data_ptr<float>() += 1;
      else step.add_(1);
      if (found_inf) step.sub_(*found_inf);
    }
    for (auto& bucket : buckets_) {
      call(bucket, divisor, found_inf);
      if (bucket.first_step) which_.clear();  // sort anew: these are no longer at their first step
      for (std::size_t i : bucket.which) fresh_[i] = false;
    }
    forget_gradients();
  }
  void forget_gradients() noexcept {
    for (auto& bucket : buckets_)
      for (auto& gradient : bucket.gradients) gradient.reset();
  }
  void save(Archive& archive, const Masters& masters, Kinds kinds) {
    begin(masters, kinds);
    std::map<float, at::Tensor> shared;
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      const std::string& name = masters.names[i];
      bool began = archive.optional(name + ".step", steps_[i], new_step(masters.values[i]));
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        std::string slot = name + "." + kinds[k];
        if (archive.optional(slot, state_[k][i], masters.values[i]) != began)
          archive.missing(began ? slot : name + ".step");
      }
      if (!archive.loading()) continue;
      fresh_[i] = !steps_[i].defined() || number(steps_[i]) == 0;
      if (steps_[i].defined())
        steps_[i] =
            shared.try_emplace(static_cast<float>(number(steps_[i])), steps_[i]).first->second;
    }
    if (archive.loading()) which_.clear(), counted_.clear(), buckets_.clear();
  }
  static void check(bool good, const std::string& what) {
    if (!good) throw BadValue("optimizer: " + what);
  }
  void check_rate() const {
    check(std::isfinite(values.lr) && values.lr >= 0,
          "lr is " + c10::str(values.lr) + "; it must be finite and not negative.");
    check(values.weight_decay >= 0,
          "weight_decay is " + c10::str(values.weight_decay) + "; it must not be negative.");
    for (const Group& group : values.groups)
      check(group.lr.value_or(0) >= 0 && group.weight_decay.value_or(0) >= 0,
            "a group has a negative lr or weight_decay.");
  }

 private:
  double group_lr(std::size_t g) const {
    return g < values.groups.size() ? values.groups[g].lr.value_or(values.lr) : values.lr;
  }
  double group_decay(std::size_t g) const {
    return g < values.groups.size() ? values.groups[g].weight_decay.value_or(values.weight_decay)
                                    : values.weight_decay;
  }
  static at::Tensor new_step(const at::Tensor& p) {
    return at::zeros({}, p.options().dtype(at::kFloat).requires_grad(false));
  }
  void begin(const Masters& masters, Kinds kinds) {
    std::size_t n = masters.values.size();
    if (steps_.size() != n) {
      choose_groups(masters);
      steps_.resize(n), fresh_.assign(n, true);
    }
    if (state_.size() == kinds.size()) return;
    std::size_t before = state_.size();
    state_.resize(kinds.size(), Tensors(n));
    for (std::size_t k = before; k < kinds.size(); ++k)  // a value changed that needs more state
      for (std::size_t i = 0; i < n; ++i)
        if (steps_[i].defined()) state_[k][i] = at::zeros_like(masters.values[i].detach());
    which_.clear();
  }
  void choose_groups(const Masters& masters) {
    std::vector<bool> used(values.groups.size());
    group_.assign(masters.values.size(), values.groups.size());
    for (std::size_t i = 0; i < group_.size(); ++i)
      for (std::size_t g = 0; g < used.size() && group_[i] == used.size(); ++g)
        if (values.groups[g].match(masters.names[i], masters.values[i]))
          group_[i] = g, used[g] = true;
    for (std::size_t g = 0; g < used.size(); ++g)
      check(used[g], "group " + std::to_string(g) +
                         " matches no parameter. Mend its rule, or leave it out.");
  }
  void sort(const Masters& masters, const std::vector<std::size_t>& which) {
    buckets_.clear();
    at::Tensor step;  // parameters that begin together count in one tensor, until one sits out
    for (std::size_t i : which) {
      const at::Tensor& p = masters.values[i];
      if (!steps_[i].defined()) {
        if (!step.defined() || step.device() != p.device()) step = new_step(p);
        for (auto& slot : state_) slot[i] = at::zeros_like(p.detach());
        steps_[i] = step;
      }
    }
    split_steps(which);
    for (std::size_t i : which) add(bucket_of(i, masters.values[i]), i, masters.values[i]);
    for (auto& bucket : buckets_) bucket.gradients.resize(bucket.which.size());
  }
  Bucket& bucket_of(std::size_t i, const at::Tensor& p) {
    for (auto& b : buckets_)
      if (b.group == group_[i] && b.first_step == fresh_[i] &&
          b.parameters[0].device() == p.device() &&
          b.parameters[0].scalar_type() == p.scalar_type())
        return b;
    auto type = p.is_cpu() ? at::kDouble : at::kFloat;
    buckets_.push_back({.group = group_[i],
                        .first_step = fresh_[i],
                        .lr = at::zeros({}, p.options().dtype(type).requires_grad(false))});
    buckets_.back().state.resize(state_.size());
    return buckets_.back();
  }
  void add(Bucket& bucket, std::size_t i, const at::Tensor& p) {
    bucket.which.push_back(i);
    bucket.parameters.push_back(p);
    bucket.steps.push_back(steps_[i]);
    for (std::size_t k = 0; k < state_.size(); ++k) bucket.state[k].push_back(state_[k][i]);
  }
  /// A count that some of its parameters sit out is continued in a copy by those that do not.
  void split_steps(const std::vector<std::size_t>& which) {
    if (which == counted_) return;
    std::map<c10::TensorImpl*, std::size_t> users, active;
    for (auto& step : steps_)
      if (step.defined()) ++users[step.unsafeGetTensorImpl()];
    for (std::size_t i : which) ++active[steps_[i].unsafeGetTensorImpl()];
    std::map<c10::TensorImpl*, at::Tensor> continued;
    active_steps_.clear();
    for (std::size_t i : which) {
      auto* key = steps_[i].unsafeGetTensorImpl();
      auto [found, is_new] = continued.try_emplace(key, steps_[i]);
      if (is_new) {
        if (active[key] != users[key]) found->second = steps_[i].clone();
        active_steps_.push_back(found->second);
      }
      steps_[i] = found->second;
    }
    counted_ = which;
  }
  /// Fused operators ignore strides: parameter, gradient and state must agree in memory.
  static void take_gradients(Bucket& bucket, const Masters& masters,
                             const StepGradients& gradients) {
    std::size_t at = 0;
    for (std::size_t j = 0; j < bucket.which.size(); ++j) {
      while (gradients.which[at] != bucket.which[j]) ++at;
      bucket.gradients[j] =
          conform(gradients.values[at], bucket.parameters[j], masters.names[bucket.which[j]]);
    }
  }
  static at::Tensor conform(const at::Tensor& gradient, const at::Tensor& p,
                            const std::string& name) {
    if (gradient.layout() != at::kStrided)
      throw BadModel("optimizer: the gradient of `" + name +
                     "` is sparse, which this optimizer does not "
                     "take. Make the embedding with sparse(false).");
    if (gradient.strides() == p.strides() && gradient.scalar_type() == p.scalar_type() &&
        gradient.device() == p.device())
      return gradient;
    return at::empty_like(p.detach()).copy_(gradient);
  }
  static void set_lr(at::Tensor& rate, double lr) {
    if (rate.is_cpu()) *rate.data_ptr<double>() = lr;
    else rate.fill_(lr);
  }

  std::vector<std::size_t> group_;            // of each master
  std::vector<std::size_t> which_, counted_;  // sorted into the buckets; counting in active_steps_
  std::vector<bool> fresh_;                   // never updated
  Tensors steps_, active_steps_;
  std::vector<Tensors> state_;  // by slot, then by master
  std::vector<Bucket> buckets_;
};

}  // namespace ikebana::detail
