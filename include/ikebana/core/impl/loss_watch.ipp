#pragma once
#include <algorithm>
#include <ikebana/batch/packed_row.hpp>
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/core/loss_watch.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

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

struct MeanWatch::Mean : at::ObserverContext {
  std::string by;        // the operator
  bool is_plain = true;  // `mean`, not a loss
  double elements = 0;   // the number of elements that it is over
  at::Tensor result;
};

IKEBANA_INLINE MeanWatch::MeanWatch() : callback_(bridge::operator_callback(&begin, &end)) {
  means().clear(), probabilities() = {}, attention_over_row() = false;
}

IKEBANA_INLINE MeanWatch::~MeanWatch() { means().clear(); }

IKEBANA_INLINE void MeanWatch::warn(const Loss& loss) {
  each_term(loss, [](const std::string& name, const at::Tensor& sum, const Count& count, double) {
    if (!count.readable() || !(count.value() > 1)) return;
    const auto& all = means();  // the outermost operators last
    for (auto mean = all.rbegin(); mean != all.rend(); ++mean)
      if (mean->result.is_same(sum) && (!mean->is_plain || mean->elements == count.value()))
        return warn(name, mean->by, count.value());
  });
}

IKEBANA_INLINE std::vector<MeanWatch::Mean>& MeanWatch::means() {
  static thread_local std::vector<Mean> all;
  return all;
}

IKEBANA_INLINE ProbabilityWatch& MeanWatch::probabilities() {
  static thread_local ProbabilityWatch watch;
  return watch;
}

IKEBANA_INLINE void MeanWatch::warn(const std::string& name, const std::string& by, double count) {
  TORCH_WARN("loss: ", term_text(name), "sum is a mean, of ", by, ", and its count is ", count,
             ", by which the step divides again: gradients would be too small by that factor. "
             "Return Loss{sum, count} with at::Reduction::Sum (torch::kSum), or "
             "Loss::mean(mean, n).");
}

IKEBANA_INLINE std::unique_ptr<at::ObserverContext> MeanWatch::begin(
    const at::RecordFunction& function) {
  probabilities().check(function);
  const std::string_view name = function.name();
  if (packed_length > 0 && name == "aten::scaled_dot_product_attention") note_attention(function);
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

IKEBANA_INLINE void MeanWatch::note_attention(const at::RecordFunction& function) {
  const auto inputs = bridge::recorded_inputs(function);
  if (inputs.size() < 2 || !inputs[1].isTensor() || inputs[1].toTensor().dim() < 2) return;
  const bool has_mask = inputs.size() > 3 && inputs[3].isTensor();
  if (!has_mask && inputs[1].toTensor().size(-2) == packed_length) attention_over_row() = true;
}

IKEBANA_INLINE bool& MeanWatch::attention_over_row() {
  static thread_local bool found = false;
  return found;
}

IKEBANA_INLINE void MeanWatch::refuse_attention() {
  if (!attention_over_row()) return;
  throw Error(
      "attention: the batch is several documents in a row, and the model calls LibTorch's "
      "scaled_dot_product_attention over all of its tokens, so that documents attend to each "
      "other. Call modules::attention(q, k, v, {.is_causal = true, .offsets = tokens}), tokens "
      "being the batch's Ragged.");
}

IKEBANA_INLINE void MeanWatch::end(const at::RecordFunction& function,
                                   at::ObserverContext* context) {
  auto* found = static_cast<Mean*>(context);
  const auto& outputs = function.outputs();
  if (found == nullptr || outputs.size() != 1 || !outputs[0].isTensor()) return;
  found->result = outputs[0].toTensor();
  means().push_back(std::move(*found));
}

IKEBANA_INLINE bool MeanWatch::is_sum(const at::Tensor& t) {
  return t.grad_fn() != nullptr && t.grad_fn()->name().starts_with("Sum");
}

IKEBANA_INLINE bool MeanWatch::reduces_to_mean(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  if (!schema) return false;
  const auto index = schema->argumentIndexWithName("reduction");
  const auto inputs = bridge::recorded_inputs(function);
  return index && static_cast<std::size_t>(*index) < inputs.size() &&
         inputs[static_cast<std::size_t>(*index)].isInt() &&
         inputs[static_cast<std::size_t>(*index)].toInt() == at::Reduction::Mean;
}

IKEBANA_INLINE Loss watched(bool due, c10::function_ref<Loss()> loss) {
  if (!due) return loss();
  const MeanWatch watch;
  Loss result = loss();
  MeanWatch::refuse_attention();
  MeanWatch::warn(result);
  return result;
}

}  // namespace ikebana::detail
