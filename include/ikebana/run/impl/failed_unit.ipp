#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/run/failed_unit.hpp>
#include <string_view>

namespace ikebana::detail {

/// Finds `before` in a text from `at` on, and returns the text between it and `after`, if that is
/// one identifier. Sets `at` to the place where it was found, or to npos.
inline std::string identifier_between(const std::string& text, const char* before,
                                      const char* after, std::size_t& at) {
  for (; (at = text.find(before, at)) != text.npos; ++at) {
    const std::size_t begin = at + std::string_view(before).size();
    const std::size_t end = text.find_first_not_of(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", begin);
    if (end != text.npos && end > begin &&
        text.compare(end, std::string_view(after).size(), after) == 0)
      return text.substr(begin, end - begin);
  }
  return {};
}

/// Writes ", in `addmm` of torch::nn::Linear": the outermost operator that was called, and the
/// layer of LibTorch that called it, as far as the frames show them. Costs some milliseconds.
inline std::string operator_text(const c10::Error& error) {
  const std::string frames = frames_of(error);
  std::string called;
  std::size_t layer_at = 0;
  for (std::size_t at = 0;; ++at) {
    std::string name = identifier_between(frames, "at::_ops::", "::call(", at);
    if (at == frames.npos) break;
    called = std::move(name), layer_at = at;
  }
  if (called.empty()) return {};
  std::string layer = identifier_between(frames, "torch::nn::", "::forward(", layer_at);
  if (layer.ends_with("Impl")) layer.resize(layer.size() - 4);
  return ", in `" + called + "`" + (layer.empty() ? "" : " of torch::nn::" + layer);
}

IKEBANA_INLINE std::string FailedUnit::place(const std::exception& error,
                                             const std::string& what) const {
  if (what.find("CUDA error") != what.npos || what.find("device-side") != what.npos) return {};
  const bool is_noted = exception_ && exception_ == std::current_exception();
  if (is_noted && !operator_.empty()) return operator_ + unit_;
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return (torch ? operator_text(*torch) : "") + (is_noted ? unit_ : "");
}

IKEBANA_INLINE void FailedUnit::note_inputs(const std::string& unit,
                                            c10::function_ref<void(Visit)> each_input) {
  std::exception_ptr present = std::current_exception();
  if (exception_ == present) return;
  std::string inputs;
  each_input([&](const at::Tensor& t) {  // the forward may have moved from it
    if (t.defined()) inputs += (inputs.empty() ? "" : ", ") + tensor_text(t);
  });
  operator_.clear();
  unit_ = unit.empty() ? ", in the forward of the model" : ", in unit `" + unit + "`";
  if (!inputs.empty()) unit_ += ", which was given " + inputs;
  exception_ = std::move(present);
}

IKEBANA_INLINE void FailedUnit::note_operator(const std::string& op, const std::string& unit) {
  std::exception_ptr present = std::current_exception();
  if (exception_ != present) unit_ = unit.empty() ? "" : ", in unit `" + unit + "`";
  std::string name = op.starts_with("aten::") ? op.substr(6) : op;
  std::replace(name.begin(), name.end(), '.', '_');  // as frames have it
  operator_ = ", in `" + name + "`";
  exception_ = std::move(present);
}

}  // namespace ikebana::detail
