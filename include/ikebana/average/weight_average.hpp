#pragma once
// Defines the base of the policies that average the weights: EMA and SWA.
#include <ikebana/average/averages.hpp>
#include <ikebana/detail/each_once.hpp>
#include <string>

namespace ikebana::detail {

/// Exchanges averages and values for its lifetime. Calls `mark_stale` after each exchange.
template <class Refresh>
class ExchangeGuard {
 public:
  ExchangeGuard(std::vector<Averages*> all, Refresh mark_stale)
      : all_(std::move(all)), mark_stale_(mark_stale) {
    for (auto* averages : all_) scratch_.push_back(averages->scratch());
    exchange(/*back=*/false);
  }
  ~ExchangeGuard() { exchange(/*back=*/true); }
  ExchangeGuard(const ExchangeGuard&) = delete;
  ExchangeGuard& operator=(const ExchangeGuard&) = delete;

 private:
  void exchange(bool back) noexcept {
    for (std::size_t k = 0; k < all_.size(); ++k) {
      const std::size_t i = back ? all_.size() - 1 - k : k;
      all_[i]->exchange(scratch_[i], back);
    }
    mark_stale_();
  }

  std::vector<Averages*> all_;
  Refresh mark_stale_;
  std::vector<Tensors> scratch_;
};

/// Averages of the master weights, and of the model's buffers if `values.use_buffers`. The policy
/// decides which steps count, and with which weight.
template <class Policy>
class WeightAverage : public AverageHooks {
 public:
  using carries_out = Policy;
  Policy values;
  WeightAverage(Policy v, const char* name)
      : values(std::move(v)), weights_(name), buffers_(name) {}

  void attach(c10::Device device, const UnitTable& units) {
    model_ = units.units()[0].module;
    updates_ = at::zeros({}, at::dtype(at::kLong).device(device));
  }
  void begin(const Masters& masters) {
    weights_.store_in(masters.storage, masters.values);
    if (!masters.values.empty()) updates_ = updates_.to(masters.values[0].device());
  }
  void after_update(const Masters&, const StepGradients&) noexcept {
    weights_.update(flags_), buffers_.update(buffer_flags_);
    flags_.count(updates_);
    const bool changes = !flags_.on_host || !flags_.is_rejected;
    if (changes && !values.use_buffers) forget_buffers();
  }
  void abort() noexcept {
    flags_ = buffer_flags_ = {};
    for (auto* all : {&weights_, &buffers_}) all->abort();
  }

  /// Evaluates with the averages in place of the masters. Both have their former bits afterwards.
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters& parameters, Next&& next) {
    check_fit(parameters.masters());
    std::vector<Averages*> averages = {&weights_};
    if (evaluates_buffers()) averages.push_back(&buffers_);
    ExchangeGuard guard(std::move(averages), [&]() noexcept { parameters.mark_stale(); });
    return next();
  }
  /// Calls an `f` that computes statistics of the averaged weights and writes them to these buffers
  /// of the model. Evaluations use them until the average changes; the buffers have their former
  /// bits afterwards. Before the first average, `f` writes to the model's own buffers.
  template <class Parameters, class F>
  void around_statistics(Parameters& parameters, const Tensors& written, const F& f) {
    if (!weights_.any()) return f();
    const bool had_statistics = has_statistics_;
    try {
      add_buffers([&](const at::Tensor& buffer) { return is_among(written, buffer); });
      has_statistics_ = !values.use_buffers;
      around_evaluation(parameters, [&] { f(), buffers_.take_values(); });
      buffers_.keep_made();
    } catch (...) {
      has_statistics_ = had_statistics;
      buffers_.abort();
      throw;
    }
  }
  void restart() noexcept {
    weights_.clear(), forget_buffers();
    updates_.zero_();
    flags_ = buffer_flags_ = {};
  }
  /// Returns the average of each of the trainer's masters. It is undefined if no update has
  /// included the master, which then is its own average.
  const Tensors& averages() const { return weights_.all(); }
  /// Returns the number of updates that were averaged. Waits for the device.
  std::int64_t n_averaged() const { return updates_.template item<std::int64_t>(); }

  void state(Archive& archive, const Masters& masters) {
    archive.tensor("n_averaged", updates_, &count_range);
    weights_.state(archive, masters);
    if (archive.saving() && !evaluates_buffers()) return;
    buffers_.state(archive, named_buffers());
    for (const std::string& name : later_names(model_->named_buffers()))  // the names in older
                                                                          // states
      archive.ignore(name + ".average");
    if (archive.loading()) has_statistics_ = !values.use_buffers && buffers_.any();
  }

 protected:
  /// Prepares an update that counts, unless the device rejects it. `of_all`: includes masters
  /// without a gradient in this step.
  template <class WeightOf>
  void prepare_update(const Masters& masters, const StepGradients& gradients, bool of_all,
                      bool first_copies, const WeightOf& weight_of) {
    weights_.resize(masters.values.size());
    for (const std::size_t i : gradients.indices) weights_.add(i, masters.values[i]);
    for (std::size_t i = 0; of_all && i < masters.values.size(); ++i)
      if (masters.values[i].requires_grad()) weights_.add(i, masters.values[i]);
    if (values.use_buffers) add_buffers([](const at::Tensor&) { return true; });
    check_fit(masters);
    flags_ = AverageFlags(gradients.found_inf, updates_, first_copies, weight_of);
    buffer_flags_ = first_copies || !values.use_buffers
                        ? flags_
                        : AverageFlags(gradients.found_inf, updates_, true, weight_of);
    weights_.prepare(flags_);
    if (values.use_buffers) buffers_.prepare(buffer_flags_);
    else buffer_flags_ = AverageFlags::none();
  }
  /// Prepares a step that takes no average.
  void prepare_none() noexcept { flags_ = buffer_flags_ = AverageFlags::none(); }

 private:
  bool evaluates_buffers() const noexcept { return values.use_buffers || has_statistics_; }
  void forget_buffers() noexcept { buffers_.clear(), has_statistics_ = false; }
  void check_fit(const Masters& masters) const {
    weights_.check([&](std::size_t i) { return masters.names[i]; });
    buffers_.check([&](std::size_t i) { return named_buffers().names[i]; });
  }
  Masters named_buffers() const {
    Masters buffers;
    for (const auto& item : each_once(model_->named_buffers()))
      buffers.names.push_back(item.key()), buffers.values.push_back(item.value());
    return buffers;
  }
  static bool is_among(const Tensors& some, const at::Tensor& buffer) {
    for (const at::Tensor& one : some)
      if (one.is_same(buffer)) return true;
    return false;
  }
  template <class Which>
  void add_buffers(const Which& which) {
    const Tensors now = each_once(model_->buffers());
    buffers_.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i)
      if (Averages::can_average(now[i]) && which(now[i])) buffers_.add(i, now[i]);
  }

  std::shared_ptr<torch::nn::Module> model_;
  Averages weights_, buffers_;
  AverageFlags flags_, buffer_flags_;
  at::Tensor updates_;           // number of averages that were taken, on the device of the masters
  bool has_statistics_ = false;  // buffers_ are statistics of the averaged weights
};

}  // namespace ikebana::detail
