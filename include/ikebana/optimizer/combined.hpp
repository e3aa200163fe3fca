#pragma once
// Defines Combined<Muon, Lion>: two optimizers, each for some of the parameters.
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <ikebana/hooks/update.hpp>
#include <ikebana/model/matched_names.hpp>
#include <ikebana/optimizer/engine/fallback_optimizer.hpp>
#include <ikebana/optimizer/muon.hpp>
#include <ikebana/optimizer/sparse_adam.hpp>

namespace ikebana::detail {

/// True for an optimizer whose own `match` chooses the parameters that it updates, such as Muon.
template <class Policy>
concept updates_some = requires(Policy policy) { policy.match, policy.otherwise; };

/// Throws BadValue if the field `otherwise` of one of the policies was set: it has no effect within
/// Combined.
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

/// Returns the names of the weights of embeddings with sparse(true).
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

/// One of the optimizers of Combined, and its parameters: it sees no others. Passes rounded updates
/// on with the indices of the trainer's masters.
template <class Policy>
class OptimizerPart : UpdateRounding {
 public:
  typename without_fallback<Policy>::type mechanism;
  explicit OptimizerPart(Policy values) : mechanism(std::move(values)) {}

  /// Takes the masters for which `is_own(i)` is true.
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
  /// `values` are the values of the policy, which the caller may have changed since the last step.
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
  std::vector<std::size_t> place_;  // index of each of the trainer's masters among these, or `none`
  std::vector<std::size_t> index_;  // index of each of these among the trainer's masters
  UpdateRounding* rounding_ = nullptr;
};

}  // namespace ikebana::detail

namespace ikebana {

/// Two optimizers in one policy: `first` updates the parameters for which `match` is true, `rest`
/// the others; each has its own values, groups and state. PyTorch needs two optimizers, two
/// schedules and two saved states for this. If `match` is empty, Muon updates the parameters for
/// which its own `match` is true, and SparseAdam the weights of embeddings with sparse(true); other
/// optimizers need a rule. A parameter that matches but that Muon's own `match` excludes goes to
/// `rest`. Either may be any optimizer, also a Combined, but not InBackward; the field `otherwise`
/// must not be set. Cost: the sum of both. Making the trainer throws BadValue if one of them would
/// have no parameter. After torchrec's CombinedOptimizer.
template <class First, class Rest>
struct Combined {
  ParameterRule match = {};  ///< chooses the parameters that `first` updates
  First first = {};          ///< the optimizer of these parameters, and its values
  Rest rest = {};            ///< the optimizer of all others, and its values
};

template <class First, class Rest>
struct Mechanism<Combined<First, Rest>> : OptimizerHooks {
  using carries_out = Combined<First, Rest>;
  static constexpr bool takes_divisor = true;  // each part is passed what it takes
  Combined<First, Rest> values;
  explicit Mechanism(Combined<First, Rest> v)
      : values(std::move(v)), first_(values.first), rest_(values.rest) {
    constexpr bool has_rule = std::is_same_v<First, SparseAdam> || detail::updates_some<First>;
    if (!has_rule && !values.match)
      throw BadValue("Combined: `match` is empty. Give it the rule of the parameters that " +
                     detail::type_name<First>() + " updates: .match = \"table.*\".");
    detail::check_fallback_is_unused(values.first, values.rest);
    if constexpr (!noexcept(first_.update()) && !noexcept(rest_.update())) first_.keep_copies();
  }

  void attach(c10::Device device, const UnitTable& units) {
    detail::check_left_out("Combined", values.match, detail::parameter_names(units));
    if constexpr (std::is_same_v<First, SparseAdam>) sparse_ = detail::sparse_embeddings(units);
    first_.mechanism.attach(device, units), rest_.mechanism.attach(device, units);
  }
  bool has_instructions() const {
    return first_.mechanism.has_instructions() && rest_.mechanism.has_instructions();
  }
  void use_instructions(bool on_all_ranks) {
    first_.mechanism.use_instructions(on_all_ranks), rest_.mechanism.use_instructions(on_all_ranks);
  }
  void begin(const Masters& masters) {
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      is_first_.push_back(is_of_first(masters, i));
    first_.take(masters, [&](std::size_t i) { return is_first_[i]; });
    rest_.take(masters, [&](std::size_t i) { return !is_first_[i]; });
    check_both_are_used(detail::all_names(masters));
    keep_rule();
    first_.begin(), rest_.begin();
  }
  double base_lr() const { return first_.mechanism.base_lr(); }
  template <class Rate, class Visit>
  void each_rate(const Rate& rate, const Visit& visit) const {
    detail::each_rate(first_.mechanism, rate, visit);
    detail::each_rate(rest_.mechanism, rate, visit);
  }
  template <class Rate>
  void before_backward(const LossValue& loss, std::size_t microbatches, const Rate& rate) {
    first_.mechanism.before_backward(loss, microbatches, rate);
    rest_.mechanism.before_backward(loss, microbatches, rate);
  }
  bool has_updated() const {
    return first_.mechanism.has_updated() || rest_.mechanism.has_updated();
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_rule(masters);
    if constexpr (std::is_same_v<First, SparseAdam>)
      rest_.refuse_sparse(gradients, "Include it in `match`.");
    if constexpr (std::is_same_v<Rest, SparseAdam>)
      first_.refuse_sparse(gradients, "Exclude it from `match`.");
    first_.prepare(values.first, gradients, rate);
    rest_.prepare(values.rest, gradients, rate);
  }
  /// An update that cannot fail comes last, so that no copies are needed to undo it.
  void update(const Masters&, StepGradients&) noexcept(noexcept(first_.update(), rest_.update())) {
    if constexpr (noexcept(first_.update())) rest_.update(), first_.update();
    else first_.update(), rest_.update();
  }
  void after_update(const Masters&, const StepGradients&) noexcept {
    first_.after_update(), rest_.after_update();
  }
  void end_step(const StepGradients&, Report& report) noexcept {
    first_.end_step(report), rest_.end_step(report);
  }
  void end_epoch(const Epoch& epoch) {
    first_.mechanism.end_epoch(epoch), rest_.mechanism.end_epoch(epoch);
  }
  void keep_copies() noexcept { first_.keep_copies(), rest_.keep_copies(); }
  void abort() noexcept { first_.abort(), rest_.abort(); }
  template <class Visit>
    requires(detail::lists_numbers<typename detail::without_fallback<First>::type> &&
             detail::lists_numbers<typename detail::without_fallback<Rest>::type>)
  void each_number(const Visit& visit) {
    first_.mechanism.each_number(visit), rest_.mechanism.each_number(visit);
  }
  template <class Rate>
  void set_numbers(const Rate& rate) {
    first_.mechanism.values = values.first, rest_.mechanism.values = values.rest;
    detail::set_numbers(first_.mechanism, rate), detail::set_numbers(rest_.mechanism, rate);
  }
  void end_replay() noexcept {
    detail::end_replay(first_.mechanism), detail::end_replay(rest_.mechanism);
  }
  std::string describe() const {
    return "first " + first_.describe() + ", rest " + rest_.describe();
  }
  void state(Archive& archive, const Masters&) {
    archive.within("first", [&] { first_.state(archive, values.first); });
    archive.within("rest", [&] { rest_.state(archive, values.rest); });
  }

 private:
  bool is_of_first(const Masters& masters, std::size_t i) const {
    if (values.match && !detail::holds_for(values.match, masters, i)) return false;
    if constexpr (detail::updates_some<First>)
      return detail::holds_for(values.first.match, masters, i);
    auto is_sparse = [&](const std::string& name) {
      return std::find(sparse_.begin(), sparse_.end(), name) != sparse_.end();
    };
    const auto others = masters.others_of(i);
    return values.match || is_sparse(masters.names[i]) ||
           std::any_of(others.begin(), others.end(), is_sparse);
  }
  bool has_other_rule() const {
    if constexpr (detail::updates_some<First>)
      if (!values.first.match.is(first_rule_)) return true;
    return !values.match.is(rule_);
  }
  void keep_rule() {
    if constexpr (detail::updates_some<First>) first_rule_ = values.first.match;
    rule_ = values.match;
  }
  /// Throws BadValue if another rule was assigned by which a parameter changes its optimizer.
  void check_rule(const Masters& masters) {
    if (!has_other_rule()) return;
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      if (is_of_first(masters, i) != is_first_[i])
        throw BadValue(
            "Combined: `match` was changed after the trainer was made, and is no longer " +
            std::string(is_first_[i] ? "true" : "false") + " for `" + masters.names[i] +
            "`. Make a new trainer.");
    keep_rule();
  }
  void check_both_are_used(const std::vector<std::string>& names) const {
    if (first_.size() == 0)
      throw BadValue("Combined: no parameter is for " + detail::type_name<First>() +
                     (values.match ? detail::nearest_names(values.match.patterns(), names) +
                                         ". Correct `match`, or write "
                                   : ", and `match` is empty. Give it a rule, or write ") +
                     detail::type_name<Rest>() + " alone.");
    if (rest_.size() == 0)
      throw BadValue("Combined: all " + std::to_string(first_.size()) + " parameters are for " +
                     detail::type_name<First>() + ". Correct `match`, or write " +
                     detail::type_name<First>() + " alone.");
  }

  detail::OptimizerPart<First> first_;
  detail::OptimizerPart<Rest> rest_;
  ParameterRule rule_, first_rule_;  // the rules from which `is_first_` was made
  std::vector<bool> is_first_;       // whether the first optimizer updates it, for each master
  std::vector<std::string> sparse_;  // weights of embeddings with sparse gradients
};

}  // namespace ikebana
