#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/loss.hpp>
#include <ikebana/modules/chunked_cross_entropy.hpp>

namespace ikebana::modules {

/// What cross_entropy takes, in its words.
struct LinearCrossEntropyOptions {
  /// (V): added to every row of logits.
  at::Tensor bias{};
  /// A target that counts nowhere: no loss, no gradient, no item.
  std::int64_t ignore_index = -100;
  /// How much of a target's weight is spread evenly over all classes; 0 to 1.
  double label_smoothing = 0;
  /// How many rows of logits exist at once; 0: as 20 MiB hold, but at least 16.
  std::int64_t chunk_rows = 0;
};

}  // namespace ikebana::modules

namespace ikebana::detail {

/// One call, checked: rows of hidden states and their targets.
class LinearCrossEntropyCall {
 public:
  LinearCrossEntropyCall(const at::Tensor& hidden, const at::Tensor& weight,
                         const at::Tensor& target, const modules::LinearCrossEntropyOptions& o)
      : hidden_(hidden), weight_(weight), target_(target), options_(o) {
    check_tensors();
    check_sizes();
    check_options();
    target_ = target_.reshape({-1});
    hidden_ = hidden_.reshape({target_.numel(), hidden_.size(-1)});
    on_host_ = target_.is_cpu();
    kept_ = target_.ne(options_.ignore_index);
    count_ = on_host_ ? Count(kept_.sum().item<std::int64_t>()) : Count(kept_.sum());
    if (on_host_) check_targets();
  }

  Loss run() {
    CrossEntropyTask task;
    task.ignores = !on_host_ || count_.value() != static_cast<double>(target_.numel());
    // On the host the rows that count are known, and the others cost nothing.
    if (task.ignores && on_host_) {
      const auto rows = kept_.nonzero().squeeze(1);
      hidden_ = hidden_.index_select(0, rows);
      target_ = target_.index_select(0, rows);
      task.ignores = false;
    }
    if (task.ignores) target_ = target_.masked_fill(kept_.logical_not(), 0), task.kept = kept_;
    task.label_smoothing = options_.label_smoothing;
    task.chunk_rows = options_.chunk_rows;
    task.compute = compute_type();
    const auto wanted = [](const at::Tensor& x) {
      return at::GradMode::is_enabled() && x.defined() && x.requires_grad();
    };
    task.wants = {wanted(hidden_), wanted(weight_), wanted(options_.bias)};
    const auto bias = options_.bias.defined() ? std::optional(options_.bias) : std::nullopt;
    return {LinearCrossEntropy::apply(hidden_, weight_, bias, target_, task), count_};
  }

 private:
  at::ScalarType compute_type() const {
    const auto device = hidden_.device().type();
    const auto type = hidden_.scalar_type();
    if (!at::autocast::is_autocast_enabled(device) || type == at::kDouble) return type;
    return at::autocast::get_autocast_dtype(device);
  }

  void check_tensors() const {
    if (!hidden_.defined() || !weight_.defined() || !target_.defined())
      throw Error(
          "linear_cross_entropy: hidden, weight or target is an undefined tensor; pass all three");
    if (hidden_.device() != weight_.device() || hidden_.device() != target_.device())
      refuse("are on " + hidden_.device().str() + ", " + weight_.device().str() + " and " +
             target_.device().str() + "; move them to one device");
    if (!hidden_.is_floating_point() || !weight_.is_floating_point())
      refuse("must be of a floating type");
    if (target_.scalar_type() != at::kLong)
      refuse(std::string("with target of ") + c10::toString(target_.scalar_type()) +
             "; it must hold class indices of type Long");
    const bool casts = at::autocast::is_autocast_enabled(hidden_.device().type()) &&
                       hidden_.scalar_type() != at::kDouble && weight_.scalar_type() != at::kDouble;
    if (hidden_.scalar_type() != weight_.scalar_type() && !casts)
      refuse(std::string("are ") + c10::toString(hidden_.scalar_type()) + " and " +
             c10::toString(weight_.scalar_type()) + "; give both one type, or use autocast");
  }

  void check_sizes() const {
    const auto h = hidden_.sizes(), w = weight_.sizes();
    if (h.empty() || w.size() != 2 || h.back() != w[1])
      refuse("do not fit: hidden is (..., E) and weight (V, E)");
    if (h.slice(0, h.size() - 1) != target_.sizes())
      refuse("do not fit: target has the sizes of hidden without the last");
    const auto& bias = options_.bias;
    if (bias.defined() && (bias.dim() != 1 || bias.size(0) != w[0]))
      refuse("with bias " + c10::str(bias.sizes()) + "; it has one number a row of weight");
    if (bias.defined() && (bias.device() != weight_.device() || !bias.is_floating_point()))
      refuse("with a bias elsewhere or of another kind; give it weight's device and type");
  }

  void check_options() const {
    const auto& o = options_;
    if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
      refuse("with label_smoothing " + c10::str(o.label_smoothing) + "; it must be in 0 to 1");
    if (o.chunk_rows < 0)
      refuse("with chunk_rows " + std::to_string(o.chunk_rows) + "; 0 lets it choose");
  }

  void check_targets() const {
    if (count_.value() == 0) return;
    const auto classes = weight_.size(0);
    const auto wrong = (target_.lt(0) | target_.ge(classes)).logical_and_(kept_);
    if (!wrong.any().item<bool>()) return;
    const auto first = target_.masked_select(wrong)[0].item<std::int64_t>();
    refuse("with the target " + std::to_string(first) + ", which is neither one of the " +
           std::to_string(classes) + " classes nor ignore_index " +
           std::to_string(options_.ignore_index));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error("linear_cross_entropy: hidden " + c10::str(hidden_.sizes()) + ", weight " +
                c10::str(weight_.sizes()) + ", target " + c10::str(target_.sizes()) + ' ' + why);
  }

  at::Tensor hidden_, weight_, target_, kept_;
  modules::LinearCrossEntropyOptions options_;
  Count count_;
  bool on_host_ = false;
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Cross entropy of the logits `hidden weight^T + bias`, summed, whose logits never exist whole:
/// cross_entropy(linear(hidden, weight, bias), target, reduction='sum') and how many targets count.
/// hidden (..., E), weight (V, E), target (...) of class indices. Forward also makes the gradients,
/// chunk by chunk, and backward scales them. Costs: 20 MiB of logits at a time, the gradients, and
/// no second product of all logits; where a checkpoint runs it twice, all of it twice. Under
/// autocast the products are in its type and the losses in single precision; the weight's gradient
/// is summed in single precision. Throws Error on what does not fit. A second derivative is exact
/// and makes the logits whole. Source: torch.nn.functional.linear and cross_entropy.
inline Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                 const at::Tensor& target,
                                 const LinearCrossEntropyOptions& options = {}) {
  return detail::LinearCrossEntropyCall(hidden, weight, target, options).run();
}

}  // namespace ikebana::modules
