#pragma once
// What all optimizers share: parameters sorted into buckets, one a group, device and type; state
// made on first use, saved and restored; everything that may fail done in `prepare`.
#include <ikebana/optimizer/bucket.hpp>
#include <ikebana/optimizer/group.hpp>
#include <ikebana/optimizer/low_precision_update.hpp>
#include <ikebana/optimizer/step_counts.hpp>

namespace ikebana::detail {

template <class Policy>
class Grouped : public Hooks {
 public:
  Policy values;
  Grouped(Policy v, std::vector<Slot> kinds) : values(std::move(v)), slots_(std::move(kinds)) {}

  double base_lr() const { return values.lr; }
  void begin(const Masters& masters) {
    begin(masters, [](std::size_t) { return true; });
  }
  /// `is_mine(i)`: this optimizer updates master `i`, and another the others.
  template <class IsMine>
  void begin(const Masters& masters, const IsMine& is_mine) {
    low_precision_.begin(masters);
    steps_.resize(masters.values.size());
    fresh_.assign(masters.values.size(), true);
    groups_ = values.groups.size();
    group_ = chosen_groups(values.groups, masters.names, masters.values, is_mine);
  }
  void abort() noexcept { forget_gradients(); }

 protected:
  LowPrecisionUpdate low_precision_;
  static constexpr bool decays = requires(Policy v) { v.weight_decay; };

  /// Sorts masters into buckets where that changed since the last step, makes missing state of the
  /// first `kinds` kinds, and takes the gradients: `take(gradient, parameter, name)`.
  template <class Rate, class Take>
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                       std::size_t kinds, const Take& take) {
    grow(masters, kinds);
    if (gradients.indices != which_) {
      sorted_ = false;
      steps_.count(masters, gradients.indices, [&](std::size_t i) { make_state(masters, i); });
      which_ = gradients.indices;
    }
    if (!sorted_) sort(masters);
    sorted_ = true;
    for (auto& bucket : buckets_) {
      take_gradients(bucket, masters, gradients, take);
      double lr = rate(group_lr(bucket.group));
      check(std::isfinite(lr) && lr >= 0, [&] {
        return "the schedule makes the lr " + c10::str(lr) + " of " +
               c10::str(group_lr(bucket.group)) + "; it must be finite and not negative.";
      });
      set_lr(bucket.lr, lr);
      bucket.weight_decay = group_decay(bucket.group);
    }
  }
  template <class Rate>
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                       std::size_t kinds) {
    prepare_buckets(masters, gradients, rate, kinds, conform);
  }
  /// Counts a step in every bucket, then updates: `call(bucket, divisor, found_inf)`. No optimizer
  /// changes a parameter anywhere else: what must happen to each before and after its update, such
  /// as rounding it to the numbers that it rests in, belongs around `call`.
  template <class Call>
  void update_buckets(const StepGradients& gradients, Call&& call) noexcept {
    at::NoGradGuard no_grad;
    auto option = [](const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
    auto divisor = option(gradients.divisor), found_inf = option(gradients.found_inf);
    steps_.add_one(found_inf);
    for (auto& bucket : buckets_) {
      low_precision_.update(bucket, [&](Bucket& b) { call(b, divisor, found_inf); });
      if (!bucket.first_step || (found_inf && number(*found_inf) != 0)) continue;
      for (std::size_t i : bucket.indices) fresh_[i] = false;
      sorted_ = false;
    }
    forget_gradients();
  }
  template <class Visit>
  void each_bucket(Visit&& visit) {
    for (auto& bucket : buckets_) visit(bucket);
  }
  void forget_gradients() noexcept {
    for (auto& bucket : buckets_)
      for (auto& gradient : bucket.gradients) gradient.reset();
  }
  void save(Archive& archive, const Masters& masters, std::size_t kinds) {
    archive.number("lr", values.lr);
    if constexpr (decays) archive.number("weight_decay", values.weight_decay);
    save_groups(archive, values.groups);
    grow(masters, kinds);
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      const at::Tensor& p = masters.values[i];
      const std::string& name = masters.names[i];
      bool began = archive.optional(name + ".step", steps_[i], StepCounts::zero(p));
      for (std::size_t k = 0; k < kinds; ++k) {
        at::Tensor like = slots_[k].make ? slots_[k](low_precision_.exact(p)) : low_precision_.exact(p);
        if (!like.defined()) continue;
        std::string slot = name + "." + slots_[k].name;
        if (archive.optional(slot, state_[k][i], like) != began)
          archive.missing(began ? slot : name + ".step");
      }
      if (archive.loading()) fresh_[i] = !steps_[i].defined() || number(steps_[i]) == 0;
    }
    if (archive.loading()) steps_.share(), which_.clear(), buckets_.clear();
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
    if constexpr (decays)
      check(values.weight_decay >= 0, [&] {
        return "weight_decay is " + c10::str(values.weight_decay) + "; it must not be negative.";
      });
    for (const Group& group : values.groups) {
      check(static_cast<bool>(group.match), "a group has no rule. Give one: named(\"*.bias\").");
      check(group.lr.value_or(0) >= 0 && group.weight_decay.value_or(0) >= 0,
            "a group has a negative lr or weight_decay.");
      check(decays || !group.weight_decay,
            "a group has a weight_decay, and this optimizer knows none. Leave it out.");
    }
  }
  void check_betas() const {
    for (double beta : values.betas)
      check(beta >= 0 && beta < 1,
            [&] { return "betas must lie in [0, 1), and one is " + c10::str(beta) + "."; });
  }

 private:
  double group_lr(std::size_t g) const {
    return g < values.groups.size() ? values.groups[g].lr.value_or(values.lr) : values.lr;
  }
  double group_decay(std::size_t g) const {
    if constexpr (!decays) return 0;
    else
      return g < values.groups.size() ? values.groups[g].weight_decay.value_or(values.weight_decay)
                                      : values.weight_decay;
  }
  /// As many kinds of state as the values ask for: at the beginning, and where one was changed.
  void grow(const Masters& masters, std::size_t kinds) {
    check(groups_ == values.groups.size(),
          "groups were added or taken away after the trainer was made. Change the lr and "
          "weight_decay of a group, or make a new trainer.");
    if (state_.size() >= kinds) return;
    sorted_ = false;
    std::fill(fresh_.begin(), fresh_.end(), true);  // nothing was ever in the new slot
    std::size_t before = state_.size(), n = fresh_.size();
    state_.resize(kinds, Tensors(n));
    for (std::size_t k = before; k < kinds; ++k)
      for (std::size_t i = 0; i < n; ++i)
        if (steps_[i].defined()) state_[k][i] = slots_[k](low_precision_.exact(masters.values[i]));
  }
  void make_state(const Masters& masters, std::size_t i) {
    for (std::size_t k = 0; k < state_.size(); ++k)
      state_[k][i] = slots_[k](low_precision_.exact(masters.values[i]));
  }
  void sort(const Masters& masters) {
    buckets_.clear();
    for (std::size_t i : which_) add(bucket_of(i, masters.values[i]), i, masters.values[i]);
    for (auto& bucket : buckets_) bucket.gradients.resize(bucket.indices.size());
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
    bucket.indices.push_back(i);
    bucket.parameters.push_back(p);
    bucket.steps.push_back(steps_[i]);
    for (std::size_t k = 0; k < state_.size(); ++k) bucket.state[k].push_back(state_[k][i]);
  }
  template <class Take>
  void take_gradients(Bucket& bucket, const Masters& masters, const StepGradients& gradients,
                      const Take& take) {
    std::size_t at = 0;
    for (std::size_t j = 0; j < bucket.indices.size(); ++j) {
      while (gradients.indices[at] != bucket.indices[j]) ++at;
      const at::Tensor& p = bucket.parameters[j];
      const std::string& name = masters.names[bucket.indices[j]];
      if (!fits(bucket, j))
        throw BadModel("optimizer: `" + name +
                       "` changed its shape, type, device or memory format since its state was "
                       "made. Change the model before the trainer is made.");
      bucket.gradients[j] = low_precision_.taken(take(gradients.values[at], p, name), p);
    }
  }
  bool fits(const Bucket& bucket, std::size_t j) {
    for (std::size_t k = 0; k < bucket.state.size(); ++k)
      if (const at::Tensor& state = bucket.state[k][j]; state.defined())
        return slots_[k].fits(state, low_precision_.exact(bucket.parameters[j]));
    return true;
  }
  static void set_lr(at::Tensor& rate, double lr) {
    if (rate.is_cpu()) *rate.data_ptr<double>() = lr;
    else rate.fill_(lr);
  }

  std::vector<Slot> slots_;
  std::size_t groups_ = 0;
  std::vector<std::size_t> group_;  // of each master; groups_: none
  std::vector<bool> fresh_;         // not yet updated with all of its state
  StepCounts steps_;
  std::vector<std::size_t> which_;  // masters of the present step
  bool sorted_ = false;             // into buckets_
  std::vector<Tensors> state_;      // by slot, then by master
  std::vector<Bucket> buckets_;
};

}  // namespace ikebana::detail
