#pragma once
// What keeps the page short: a step that is undone unless it is committed, and how batches are cut.
#include <chrono>
#include <ikebana/core/core.hpp>
#include <ikebana/core/totals.hpp>

namespace ikebana::detail {

/// Observe sees all of a step, capture may replay it, precision may set what is global.
template <class Mechanisms, class Next>
Report around_step(Mechanisms& m, Next&& next) {
  return m.observe.around_step([&] {
    return m.capture.around_step([&] { return m.precision.around_step(std::forward<Next>(next)); });
  });
}

template <class Device, class Batch>
auto place(Device& mechanism, const Batch& batch, c10::Device device) {
  if constexpr (Batches<const Batch>) {
    std::vector<std::ranges::range_value_t<const Batch>> here;
    for (const auto& one : batch) here.push_back((rows(one), mechanism.place(one, device)));
    if (here.empty()) throw BadBatch("step: the range holds no batch. Give one at least.");
    return here;
  } else {
    return mechanism.place(batch, device);
  }
}
template <class Accumulate, class Batch>
decltype(auto) cut(Accumulate& mechanism, const Batch& here) {
  if constexpr (Batches<const Batch>) return (here);
  else return mechanism.split(here);
}

/// Loss::outputs of all microbatches, detached, in row order.
class Outputs {
 public:
  void add(Loss& loss) {
    if (loss.outputs.defined()) all_.push_back(std::exchange(loss.outputs, {}).detach());
  }
  at::Tensor joined() const {
    return all_.empty() ? at::Tensor() : all_.size() == 1 ? all_[0] : at::cat(all_);
  }

 private:
  std::vector<at::Tensor> all_;
};

/// True where the host knows that the update is not to be made; on a device the update itself
/// looks.
inline bool rejected(const StepGradients& gradients) {
  return gradients.found_inf.defined() && readable(gradients.found_inf) &&
         number(gradients.found_inf) != 0;
}

/// Undoes a step that was begun and not committed: no gradient stays behind, no unit stays
/// gathered, no counter moves. Also knows where the step is, for errors and the report.
template <class Core>
class Transaction {
 public:
  explicit Transaction(Core& core) : core_(core) {
    core_.deferred.check();
    core_.forget_gradients();
    core_.unit_was_run = false;
    core_.microbatch = core_.microbatches = 0;
  }
  ~Transaction() {
    if (!committed_) core_.abort();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void next_microbatch(std::size_t all) { ++core_.microbatch, core_.microbatches = all; }
  bool is_last() const { return core_.microbatch == core_.microbatches; }

  void check_first_step() const {
    if (core_.attempts != 0) return;
    if (std::decay_t<decltype(core_.mechanisms)>::per_unit && !core_.unit_was_run)
      throw BadModel(
          "step: a policy of the recipe works unit by unit, and the loss ran no unit. Write "
          "run(block, x) in the model's loss instead of block(x).");
  }
  Report report(Totals& totals, const Outputs& outputs, double lr) const {
    Report report;
    report.value = std::move(totals.value());
    report.step = core_.attempts;
    report.microbatches = static_cast<std::int64_t>(core_.microbatches);
    report.learning_rate = lr;
    report.norm = core_.gradients.norm;
    report.found_inf = core_.gradients.found_inf;
    report.outputs = outputs.joined();
    return report;
  }
  void commit() noexcept {
    committed_ = true;
    ++core_.attempts;
  }
  void stop_clock(Report& report) const noexcept {
    report.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Core& core_;
  Clock::time_point begin_ = Clock::now();
  bool committed_ = false;
};

}  // namespace ikebana::detail
