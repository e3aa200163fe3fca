#pragma once
// The policy Precision<BF16True> and its mechanism.
#include <algorithm>
#include <ikebana/detail/away.hpp>
#include <ikebana/precision/low_precision_weights.hpp>
#include <ikebana/precision/stochastic_rounding.hpp>

namespace ikebana {

/// BF16 weights without master weights: for the lifetime of the trainer, parameters and gradients
/// are BF16. Updates are computed in FP32 and rounded stochastically, so that updates smaller than
/// BF16's resolution still move weights on average. Everything else computes as in Precision<BF16>.
/// Memory: 4 bytes per weight with its gradient; the optimizer's state in FP32, since a BF16 moment
/// would not change by 0.1% of itself, which rounds away; and scratch for the largest parameter, 8
/// bytes per element, or 16 on an accelerator. Gradients of several microbatches are summed in
/// BF16. Random bits depend on `seed`, the step, the parameter and the element's index only: no
/// generator is used, all ranks have the same, and the seed and step are saved. Parameters for
/// which `keep_fp32` is true stay in FP32. The model's own weights are kept until the first step,
/// so a trainer that makes none changes no bit of them; after it, frozen ones are rounded, too.
/// Source: Zamirai et al., arXiv:2010.06192.
template <>
struct Precision<BF16True> {
  ParameterRule keep_fp32 = biases_and_norms;  ///< which parameters stay in FP32
  std::int64_t seed = 0;                       ///< of the random bits by which updates are rounded
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies
};

template <std::same_as<Precision<BF16True>> Policy>
struct Mechanism<Policy> : detail::LowPrecisionWeights, UpdateRounding {
  using carries_out = Precision<BF16True>;
  Precision<BF16True> values;
  explicit Mechanism(Precision<BF16True> v) : values(std::move(v)) {}
  ~Mechanism() override {
    for (const Converted& converted : converted_) try {
        restore(converted);
      } catch (const std::exception& error) {
        TORCH_WARN("ikebana: a parameter of shape ", converted.parameter.sizes(),
                   " stays BFloat16: ", error.what());
      }
  }
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;

  void attach(c10::Device where, const UnitTable& table) {
    LowPrecisionWeights::attach("Precision<BF16True>", where, values.cpu_products);
    choose(table, values.keep_fp32);
    key_ = at::empty({2}, at::dtype(at::kInt).device(where));
    names_.clear();
    for (const Unit& unit : table.units())
      for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
        const at::Tensor& p = unit.parameters[i];
        names_.push_back(unit.names[i]);
        if (!is_low(unit, i, unit.parameters.size()) || p.scalar_type() == at::kBFloat16) continue;
        converted_.push_back({p, p.detach(), p.scalar_type()});
        convert(p, at::kBFloat16);
      }
  }
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    for (Converted& converted : converted_) converted.before.reset();
    return next();
  }
  UpdateRounding* rounding() { return this; }
  void begin(const Masters& masters) {
    first_elements_.clear(), numbers_.clear();
    for (const Slice& slice : masters.slices) first_elements_.push_back(slice.first_element());
    auto found = names_.begin();  // masters are in the same order
    for (const std::string& name : masters.names) {
      if (found = std::find(found, names_.end(), name); found == names_.end())
        found = std::find(names_.begin(), names_.end(), name);
      numbers_.push_back(static_cast<std::size_t>(found - names_.begin()));
    }
  }

  void prepare_rounding(const at::TensorOptions& options, std::int64_t max_elements) override {
    if (detail::on_host(key_)) return;
    for (at::Tensor* scratch : {&hash_, &temporary_})
      if (!scratch->defined() || scratch->numel() < max_elements)
        *scratch = at::empty({max_elements}, options.dtype(at::kInt));
    set_key();
  }
  void write(const at::Tensor& parameter, const at::Tensor& exact,
             std::size_t index) noexcept override {
    auto key = detail::RoundingKey::of(values.seed, round_, number_of(index));
    const std::int64_t first = first_elements_.empty() ? 0 : first_elements_[index];
    if (detail::on_host(parameter)) return detail::round_on_cpu(parameter, exact, key, first);
    std::int64_t n = exact.numel();
    detail::RoundByOperators round(hash_.narrow(0, 0, n), temporary_.narrow(0, 0, n));
    round(parameter, exact, key_, key.tensor, first);
  }
  void end_step(const StepGradients&, Report&) noexcept { ++round_; }
  template <class Visit>
  void each_number(const Visit& visit) {
    visit(key_);
  }
  template <class Rate>
  void set_numbers(const Rate&) {
    set_key();
  }
  void end_replay() noexcept { ++round_; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    check_rule(values.keep_fp32);
  }
  std::string describe() const {
    return this->with_products("BFloat16 weights without masters, stochastic rounding, autocast");
  }
  void state(Archive& archive, const Masters&) {
    archive.number("seed", values.seed);
    archive.number("round", round_, &count_range);
  }

 private:
  /// A parameter that was converted. Its former values are kept until the first step, so that a
  /// trainer that makes none, such as one that cannot be made, changes no bit of the model.
  struct Converted {
    at::Tensor parameter, before;
    at::ScalarType type;
  };
  /// The number of a master's parameter among all of the model, frozen ones included, which is the
  /// same where only those that are trained have masters.
  std::size_t number_of(std::size_t master) const {
    return master < numbers_.size() ? numbers_[master] : master;
  }
  /// Not a part of what is recorded: each replay has another key, which is set before it.
  void set_key() {
    const auto key = detail::RoundingKey::of(values.seed, round_, 0);
    const std::int32_t bits[] = {detail::RoundByOperators::as_int(key.first),
                                 detail::RoundByOperators::as_int(key.second)};
    if (key_.is_cpu()) std::copy_n(bits, 2, key_.data_ptr<std::int32_t>());
    else if (!detail::recording()) key_[0].fill_(bits[0]), key_[1].fill_(bits[1]);
  }
  static void restore(const Converted& c) {
    // A slice, whose trainer has ended with its values; or there never were any.
    if (detail::is_away(c.parameter) || detail::without_values()) return;
    at::Tensor parameter = c.parameter;
    if (c.before.defined() && parameter.detach().equal(c.before.to(at::kBFloat16)))
      parameter.set_data(c.before);
    else convert(parameter, c.type);
  }
  static void convert(at::Tensor parameter, at::ScalarType type) {
    parameter.set_data(parameter.detach().to(type));
  }

  std::vector<Converted> converted_;
  std::vector<std::int64_t> first_elements_;  // of each master in its parameter; empty: 0
  std::vector<std::string> names_;            // of all parameters
  std::vector<std::size_t> numbers_;          // of each master's parameter among them
  std::int64_t round_ = 0;                    // number of steps that were not undone
  at::Tensor key_;                            // of the present round, for rounding by operators
  at::Tensor hash_, temporary_;               // scratch of that
};

}  // namespace ikebana
