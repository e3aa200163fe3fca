#pragma once
// EMA of the weights.
#include <ikebana/average/exchange.hpp>

namespace ikebana {

/// An exponential moving average of the weights, with which `evaluate` computes. After each
/// accepted update, average = decay * average + (1 - decay) * weight; the first update copies.
/// `load_weights` starts it anew, `save_weights` and saved states export it as the weights. It
/// averages master weights on the device that stores them, 16-bit ones in FP32. With `use_buffers`
/// it averages floating-point buffers, too, and copies integer ones; otherwise evaluation uses the
/// model's own, as of sparse and expanded ones. Cost: a copy of all trained weights, one pass over
/// it per step, and three before and three after an evaluation. Parameters that never get a
/// gradient have no average. Source: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn;
/// Polyak and Juditsky, 1992.
struct EMA {
  double decay = 0.999;
  bool use_buffers = false;
};

template <std::same_as<EMA> Policy>
struct Mechanism<Policy> : AverageHooks {
  using carries_out = EMA;
  EMA values;
  explicit Mechanism(EMA v) : values(v) { check(); }

  void attach(c10::Device device, const UnitTable& units) {
    model_ = units.units()[0].module;
    updates_ = at::zeros({}, at::dtype(at::kLong).device(device));
  }
  void begin(const Masters& masters) {
    weights_.store_in(masters.storage, masters.values);
    if (!masters.values.empty()) updates_ = updates_.to(masters.values[0].device());
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate&) {
    check();
    weights_.resize(masters.values.size());
    for (std::size_t i : gradients.indices) weights_.add(i, masters.values[i]);
    if (gradients.updated_in_backward)  // whose average cannot begin with a weight's former value
      for (std::size_t i = 0; i < masters.values.size(); ++i)
        if (masters.values[i].requires_grad()) weights_.add(i, masters.values[i]);
    if (values.use_buffers) add_buffers();
    else if (!buffers_.all().empty()) buffers_ = {};  // the value was changed
    check_fit(masters);
    flags_ = detail::AverageFlags(gradients.found_inf, updates_, values.decay);
    for (auto* all : {&weights_, &buffers_}) all->prepare(flags_);
  }
  void after_update(const Masters&, const StepGradients&) noexcept {
    for (auto* all : {&weights_, &buffers_}) all->update(flags_);
    flags_.count(updates_);
  }
  void abort() noexcept {
    flags_ = {};
    for (auto* all : {&weights_, &buffers_}) all->abort();
  }

  /// Evaluates with the averages in place of the masters; afterwards both have their former bits.
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters& parameters, Next&& next) {
    check_fit(parameters.masters());
    std::vector<detail::Averages*> averages = {&weights_};
    if (values.use_buffers) averages.push_back(&buffers_);
    detail::ExchangeGuard guard(std::move(averages), [&]() noexcept { parameters.mark_stale(); });
    return next();
  }
  void restart() noexcept {
    for (auto* all : {&weights_, &buffers_}) all->clear();
    updates_.zero_();
    flags_ = {};
  }
  /// The average of each of the trainer's masters; undefined where it is the master itself, because
  /// no update has included it.
  const Tensors& averages() const { return weights_.all(); }

  std::string describe() const {
    return "decay=" + c10::str(values.decay) + (values.use_buffers ? ", use_buffers" : "");
  }
  void state(Archive& archive, const Masters& masters) {
    archive.tensor("n_averaged", updates_, &count_range);
    weights_.state(archive, masters);
    if (!values.use_buffers) return;
    buffers_.state(archive, named_buffers());
  }

 private:
  void check() const {
    if (!(values.decay >= 0 && values.decay <= 1))
      throw BadValue("EMA: decay is " + c10::str(values.decay) + "; it must lie between 0 and 1.");
  }
  void check_fit(const Masters& masters) const {
    weights_.check([&](std::size_t i) { return masters.names[i]; });
    buffers_.check([&](std::size_t i) { return named_buffers().names[i]; });
  }
  Masters named_buffers() const {
    Masters buffers;
    for (const auto& item : model_->named_buffers())
      buffers.names.push_back(item.key()), buffers.values.push_back(item.value());
    return buffers;
  }
  void add_buffers() {
    Tensors now = model_->buffers();
    buffers_.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i)
      if (detail::Averages::can_average(now[i])) buffers_.add(i, now[i]);
  }

  std::shared_ptr<torch::nn::Module> model_;
  detail::Averages weights_, buffers_;
  detail::AverageFlags flags_;
  at::Tensor updates_;  // number of accepted updates, where master weights are
};

}  // namespace ikebana
