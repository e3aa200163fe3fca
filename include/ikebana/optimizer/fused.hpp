#pragma once
// What the optimizers on LibTorch's fused operators share: one call a group, device and type; state
// made on first use; everything that may fail done in `prepare`.
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/bucket.hpp>
#include <ikebana/optimizer/group.hpp>
#include <ikebana/optimizer/rounded.hpp>
#include <map>

namespace ikebana::detail {

template <class Policy>
class Fused : public Hooks {
 public:
  Policy values;
  explicit Fused(Policy v) : values(std::move(v)) {}

  double base_lr() const { return values.lr; }
  void begin(const Masters& masters) {
    std::size_t n = masters.values.size();
    steps_.resize(n), fresh_.assign(n, true);
    choose_groups(masters);
  }
  void abort() noexcept { forget_gradients(); }

 protected:
  using Kinds = std::span<const char* const>;  ///< names of the state of one parameter

  /// Sorts masters into buckets where that changed since the last step, makes missing state, and
  /// takes the gradients.
  template <class Rate>
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                       Kinds kinds) {
    grow(masters, kinds);
    if (gradients.which != which_) {
      sorted_ = false;
      count_steps(masters, gradients.which);
      which_ = gradients.which;
    }
    if (!sorted_) sort(masters);
    sorted_ = true;
    for (auto& bucket : buckets_) {
      take_gradients(bucket, masters, gradients);
      double lr = rate(group_lr(bucket.group));
      check(std::isfinite(lr) && lr >= 0, [&] {
        return "the schedule makes the lr " + c10::str(lr) + " of " +
               c10::str(group_lr(bucket.group)) + "; it must be finite and not negative.";
      });
      set_lr(bucket.lr, lr);
      bucket.weight_decay = group_decay(bucket.group);
    }
    rounded_.prepare(masters, buckets_);
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
      rounded_.update(bucket, [&](Bucket& b) { call(b, divisor, found_inf); });
      if (!bucket.first_step || (found_inf && number(*found_inf) != 0)) continue;
      for (std::size_t i : bucket.which) fresh_[i] = false;
      sorted_ = false;
    }
    forget_gradients();
  }
  void forget_gradients() noexcept {
    for (auto& bucket : buckets_)
      for (auto& gradient : bucket.gradients) gradient.reset();
  }
  void save(Archive& archive, const Masters& masters, Kinds kinds) {
    grow(masters, kinds);
    std::map<float, at::Tensor> shared;
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      const std::string& name = masters.names[i];
      bool began = archive.optional(name + ".step", steps_[i], new_step(masters.values[i]));
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        std::string slot = name + "." + kinds[k];
        if (archive.optional(slot, state_[k][i], like_state(masters, masters.values[i])) != began)
          archive.missing(began ? slot : name + ".step");
      }
      if (!archive.loading()) continue;
      fresh_[i] = !steps_[i].defined() || number(steps_[i]) == 0;
      if (steps_[i].defined())
        steps_[i] =
            shared.try_emplace(static_cast<float>(number(steps_[i])), steps_[i]).first->second;
    }
    if (archive.loading()) which_.clear(), buckets_.clear();
  }
  /// `what` is a text, or makes one where it is wanted: this is asked in every step.
  template <class Text>
  static void check(bool good, const Text& what) {
    if (good) return;
    if constexpr (std::is_invocable_v<const Text&>) throw BadValue("optimizer: " + what());
    else throw BadValue(std::string("optimizer: ") + what);
  }
  void check_rate() const {
    check(std::isfinite(values.lr) && values.lr >= 0,
          [&] { return "lr is " + c10::str(values.lr) + "; it must be finite and not negative."; });
    check(values.weight_decay >= 0, [&] {
      return "weight_decay is " + c10::str(values.weight_decay) + "; it must not be negative.";
    });
    for (const Group& group : values.groups) {
      check(static_cast<bool>(group.match), "a group has no rule. Give one: named(\"*.bias\").");
      check(group.lr.value_or(0) >= 0 && group.weight_decay.value_or(0) >= 0,
            "a group has a negative lr or weight_decay.");
    }
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
  /// As many slots of state as the values ask for: at the beginning, and where one was changed.
  void grow(const Masters& masters, Kinds kinds) {
    check(groups_ == values.groups.size(),
          "groups were added or taken away after the trainer was made. Change the lr and "
          "weight_decay of a group, or make a new trainer.");
    if (state_.size() >= kinds.size()) return;
    sorted_ = false;
    std::fill(fresh_.begin(), fresh_.end(), true);  // nothing was ever in the new slot
    std::size_t before = state_.size(), n = steps_.size();
    state_.resize(kinds.size(), Tensors(n));
    for (std::size_t k = before; k < kinds.size(); ++k)
      for (std::size_t i = 0; i < n; ++i)
        if (steps_[i].defined()) state_[k][i] = new_state(masters, masters.values[i]);
  }
  void choose_groups(const Masters& masters) {
    groups_ = values.groups.size();
    std::vector<bool> used(groups_);
    group_.assign(masters.values.size(), groups_);
    for (std::size_t i = 0; i < group_.size(); ++i)
      for (std::size_t g = 0; g < groups_ && group_[i] == groups_; ++g)
        if (values.groups[g].match(masters.names[i], masters.values[i]))
          group_[i] = g, used[g] = true;
    for (std::size_t g = 0; g < groups_; ++g)
      check(used[g], [&] {
        return "group " + std::to_string(g) +
               " matches no parameter. Mend its rule, or leave it out.";
      });
  }
  void sort(const Masters& masters) {
    buckets_.clear();
    for (std::size_t i : which_) add(bucket_of(i, masters.values[i]), i, masters.values[i]);
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
  /// Parameters that begin together count in one tensor. Where some of them then sit out, the
  /// others go on in a copy.
  void count_steps(const Masters& masters, const std::vector<std::size_t>& which) {
    begin_counting(masters, which);
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
  }
  void begin_counting(const Masters& masters, const std::vector<std::size_t>& which) {
    at::Tensor step;
    for (std::size_t i : which) {
      const at::Tensor& p = masters.values[i];
      if (steps_[i].defined()) continue;
      if (!step.defined() || step.device() != p.device()) step = new_step(p);
      for (auto& slot : state_) slot[i] = new_state(masters, p);
      steps_[i] = step;
    }
  }
  /// Fused operators ignore strides: parameter, gradient and state must agree in memory.
  static void take_gradients(Bucket& bucket, const Masters& masters,
                             const StepGradients& gradients) {
    std::size_t at = 0;
    for (std::size_t j = 0; j < bucket.which.size(); ++j) {
      while (gradients.which[at] != bucket.which[j]) ++at;
      const at::Tensor& p = bucket.parameters[j];
      const std::string& name = masters.names[bucket.which[j]];
      if (!bucket.state.empty() && !same_order(p, bucket.state[0][j]))
        throw BadModel("optimizer: `" + name +
                       "` changed its shape, type, device or memory format since its state was "
                       "made. Change the model before the trainer is made.");
      bucket.gradients[j] = conform(gradients.values[at], p, name);
    }
  }
  static void set_lr(at::Tensor& rate, double lr) {
    if (rate.is_cpu()) *rate.data_ptr<double>() = lr;
    else rate.fill_(lr);
  }

  std::size_t groups_ = 0;
  std::vector<std::size_t> group_;  // of each master; groups_: none
  std::vector<bool> fresh_;         // not yet updated with all of its state
  Tensors steps_;                   // of each master; shared by those that always counted together
  std::vector<std::size_t> which_;  // masters of the present step
  Tensors active_steps_;            // theirs, each once
  bool sorted_ = false;             // into buckets_
  std::vector<Tensors> state_;      // by slot, then by master
  std::vector<Bucket> buckets_;
  Rounded rounded_;
};

}  // namespace ikebana::detail
