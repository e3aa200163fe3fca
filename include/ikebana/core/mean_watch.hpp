#pragma once
// Finds a mean that a loss returns as its sum, and warns of it, and of what a loss does not take.
#include <ikebana/core/probability_watch.hpp>
#include <ikebana/loss.hpp>
#include <memory>

namespace ikebana::detail {

/// RAII: while it exists, the operators of this thread that reduce to a mean are known, by
/// LibTorch's record functions: nothing else tells the mean of a loss operator from its sum. Costs
/// some hundred nanoseconds per operator, so it exists in one forward of a trainer alone. Must be
/// destroyed on the thread that made it, and does not nest.
class MeanWatch {
 public:
  MeanWatch() { means().clear(), probabilities() = {}; }
  ~MeanWatch() {
    at::removeCallback(handle_);
    means().clear();
  }
  MeanWatch(const MeanWatch&) = delete;
  MeanWatch& operator=(const MeanWatch&) = delete;

  /// Warns where a sum of the loss is what such an operator returned, and its count is above 1: the
  /// step would divide it a second time. Of `mean` only where that was over as many elements as are
  /// counted, which are no sums themselves: a sum over rows may be a mean over columns.
  static void warn(const Loss& loss) {
    each_term(loss, [](const std::string& name, const at::Tensor& sum, const Count& count, double) {
      if (!count.readable() || !(count.value() > 1)) return;
      const auto& all = means();  // the outermost operators last
      for (auto mean = all.rbegin(); mean != all.rend(); ++mean)
        if (mean->result.is_same(sum) && (!mean->is_plain || mean->elements == count.value()))
          return warn(name, mean->by, count.value());
    });
  }

 private:
  struct Mean : at::ObserverContext {
    std::string by;        // the operator
    bool is_plain = true;  // `mean`, not a loss
    double elements = 0;   // that it is over
    at::Tensor result;
  };
  static std::vector<Mean>& means() {
    static thread_local std::vector<Mean> all;
    return all;
  }
  static ProbabilityWatch& probabilities() {
    static thread_local ProbabilityWatch watch;
    return watch;
  }
  static void warn(const std::string& name, const std::string& by, double count) {
    TORCH_WARN("loss: ", term_text(name), "sum is a mean, of ", by, ", and its count is ", count,
               ", by which the step divides again: gradients would be too small by that factor. "
               "Return Loss{sum, count} with at::Reduction::Sum (torch::kSum), or "
               "Loss::mean(mean, n).");
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    probabilities().check(function);
    const std::string_view name = function.name();
    const bool is_plain = name == "aten::mean";
    if (!is_plain && name.find("_loss") == name.npos && name.find("cross_entropy") == name.npos &&
        name.find("kl_div") == name.npos)
      return nullptr;
    const auto inputs = bridge::recorded_inputs(function);
    if (inputs.empty() || !inputs[0].isTensor() || !inputs[0].toTensor().defined()) return nullptr;
    const at::Tensor& first = inputs[0].toTensor();
    const bool is_its_sum =  // the mean of one element
        !is_plain && inputs.size() > 1 && inputs[1].isTensor() && inputs[1].toTensor().numel() == 1;
    if (is_plain ? is_sum(first) : is_its_sum || !reduces_to_mean(function)) return nullptr;
    auto found = std::make_unique<Mean>();
    found->by = name, found->is_plain = is_plain;
    found->elements = static_cast<double>(first.numel());
    return found;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    auto* found = static_cast<Mean*>(context);
    const auto& outputs = function.outputs();
    if (found == nullptr || outputs.size() != 1 || !outputs[0].isTensor()) return;
    found->result = outputs[0].toTensor();
    means().push_back(std::move(*found));
  }
  static bool is_sum(const at::Tensor& t) {
    return t.grad_fn() != nullptr && t.grad_fn()->name().starts_with("Sum");
  }
  static bool reduces_to_mean(const at::RecordFunction& function) {
    const auto schema = function.operator_schema();
    if (!schema) return false;
    const auto index = schema->argumentIndexWithName("reduction");
    const auto inputs = bridge::recorded_inputs(function);
    return index && static_cast<std::size_t>(*index) < inputs.size() &&
           inputs[static_cast<std::size_t>(*index)].isInt() &&
           inputs[static_cast<std::size_t>(*index)].toInt() == at::Reduction::Mean;
  }

  at::CallbackHandle handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                                              .needsInputs(true)
                                                              .needsOutputs(true)
                                                              .scopes({at::RecordScope::FUNCTION}));
};

/// `loss()`; where it is `due`, warns of a mean that is returned as a sum.
template <class F>
Loss watched(bool due, const F& loss) {
  if (!due) return loss();
  const MeanWatch watch;
  Loss result = loss();
  MeanWatch::warn(result);
  return result;
}

}  // namespace ikebana::detail
