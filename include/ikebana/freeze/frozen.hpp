#pragma once
// Parameters that require no gradient while a trainer lives.
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/rule.hpp>

namespace ikebana::detail {

/// Takes `requires_grad` away from parameters, and gives it back at its end to those that had it.
class Frozen {
 public:
  Frozen() = default;
  ~Frozen() {
    for (at::Tensor& p : had_) p.set_requires_grad(true);
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

  void add(at::Tensor p) {
    if (matched_.insert(p.unsafeGetTensorImpl()).second) numbers_ += p.numel();
    if (!p.requires_grad()) return;
    p.set_requires_grad(false);
    had_.push_back(std::move(p));
  }
  std::size_t matched() const { return matched_.size(); }
  /// Throws BadModel where nothing is left to train.
  void check(const torch::nn::Module& model, const char* word) const {
    for (const auto& p : model.parameters())
      if (p.requires_grad()) return;
    throw BadModel(std::string(word) +
                   ": it freezes everything, and nothing is left to train. Freeze less.");
  }
  std::string describe() const {
    return std::to_string(matched()) + " parameters, " + std::to_string(numbers_) + " numbers";
  }

 private:
  std::vector<at::Tensor> had_;
  std::set<c10::TensorImpl*> matched_;
  std::int64_t numbers_ = 0;
};

}  // namespace ikebana::detail
