#pragma once
// Parameters that require no gradient while a trainer lives.
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/rule.hpp>
#include <mutex>
#include <set>
#include <unordered_map>

namespace ikebana::detail {

/// How many trainers of the process hold a parameter frozen that required a gradient before; shared
/// also between plugins with hidden symbols. Two models may share a backbone that both freeze.
struct __attribute__((visibility("default"))) FrozenList {
  std::mutex mutex;
  std::unordered_map<c10::TensorImpl*, int> holders;
  static FrozenList& get() {
    static auto& list = *new FrozenList;  // trainers may be destroyed after statics
    return list;
  }
};

/// Takes `requires_grad` away from parameters. Those that had it get it back when the last that
/// froze them ends.
class Frozen {
 public:
  Frozen() = default;
  ~Frozen() {
    FrozenList& list = FrozenList::get();
    std::lock_guard lock(list.mutex);
    for (at::Tensor& p : had_) {
      auto holders = list.holders.find(p.unsafeGetTensorImpl());
      if (--holders->second > 0) continue;
      list.holders.erase(holders);
      p.set_requires_grad(true);
    }
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

  void add(at::Tensor p) {
    if (!matched_.insert(p.unsafeGetTensorImpl()).second) return;
    numbers_ += p.numel();
    FrozenList& list = FrozenList::get();
    std::lock_guard lock(list.mutex);
    if (!p.requires_grad() && list.holders.count(p.unsafeGetTensorImpl()) == 0) return;
    ++list.holders[p.unsafeGetTensorImpl()];
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
