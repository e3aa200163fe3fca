#pragma once
#include <algorithm>
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/core/probability_watch.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void ProbabilityWatch::check(const at::RecordFunction& function) {
  if (has_warned_) return;
  const Loss* loss = loss_of(function.name());
  if (loss == nullptr) return;
  const auto inputs = bridge::recorded_inputs(function);
  if (inputs.empty() || !inputs[0].isTensor() || !inputs[0].toTensor().defined()) return;
  const std::string maker = maker_of(inputs[0].toTensor());
  const std::string_view made = loss->refuses(maker);
  if (made.empty()) return;
  has_warned_ = true;
  TORCH_WARN("loss: ", function.name(), " takes ", loss->takes, ", and its input was made by ",
             made, ". ", loss->cure);
}

IKEBANA_INLINE std::string_view ProbabilityWatch::Loss::refuses(std::string_view maker) const {
  for (const std::string_view one : makers)
    if (!one.empty() && maker.starts_with(one)) return text_of(one);
  return {};
}

IKEBANA_INLINE std::string_view ProbabilityWatch::text_of(std::string_view maker) {
  constexpr std::array<std::array<std::string_view, 2>, 7> texts{{{"Softmax", "softmax"},
                                                                  {"Sigmoid", "sigmoid"},
                                                                  {"LogSoftmax", "log_softmax"},
                                                                  {"LogSigmoid", "logsigmoid"},
                                                                  {"Addmm", "a linear layer"},
                                                                  {"Mm", "a linear layer"},
                                                                  {"Conv", "a convolution"}}};
  for (const auto& [name, text] : texts)
    if (name == maker) return text;
  return maker;
}

IKEBANA_INLINE const ProbabilityWatch::Loss* ProbabilityWatch::loss_of(std::string_view name) {
  constexpr std::string_view no_softmax = "Return logits from the model, without a softmax.";
  constexpr std::string_view logs =
      "Give it log_softmax of logits, or write CrossEntropyLoss, which takes logits.";
  constexpr Names probabilities{"Softmax", "Sigmoid"};
  constexpr Names no_logs{"Softmax", "Sigmoid", "Addmm", "Mm", "Conv"};
  static constexpr std::array<Loss, 6> all{
      {{"aten::cross_entropy_loss", "logits", no_softmax, probabilities},
       {"aten::log_softmax", "logits", no_softmax, probabilities},
       {"aten::binary_cross_entropy_with_logits",
        "logits",
        "Return logits from the model, without a sigmoid.",
        {"Softmax", "Sigmoid", "LogSoftmax", "LogSigmoid"}},
       {"aten::nll_loss_nd", "logarithms of probabilities", logs, no_logs},
       {"aten::nll_loss_forward", "logarithms of probabilities", logs, no_logs},
       {"aten::kl_div", "logarithms of probabilities", "Give it log_softmax of logits.", no_logs}}};
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Loss& loss) { return loss.name == name; });
  return found == all.end() ? nullptr : &*found;
}

IKEBANA_INLINE std::string ProbabilityWatch::maker_of(const at::Tensor& t) {
  constexpr std::array<std::string_view, 14> passes{
      "View",      "UnsafeView", "ReshapeAlias", "Transpose", "TBackward", "Permute", "Squeeze",
      "Unsqueeze", "Slice",      "Select",       "ToCopy",    "Clone",     "Expand",  "Alias"};
  const torch::autograd::Node* node = t.grad_fn().get();
  for (int i = 0; node != nullptr && i < 16; ++i) {
    const std::string name = node->name();
    const bool goes_on = std::any_of(passes.begin(), passes.end(),
                                     [&](std::string_view one) { return name.starts_with(one); });
    if (!goes_on || node->num_outputs() == 0) return name;
    node = node->next_edge(0).function.get();
  }
  return {};
}

}  // namespace ikebana::detail
