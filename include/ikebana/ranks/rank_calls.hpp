#pragma once
// Defines the ranks that modules call in their forward, such as a batch norm over the batches of
// all ranks.
#include <ikebana/detail/fnv1a.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <utility>

namespace ikebana::detail {

/// The base of a module whose forward, in training mode, is a call of all ranks that train a model.
/// A dummy batch leaves it in training mode: it then takes part without data, and keeps its
/// buffers.
class CallsAllRanks {
 public:
  virtual ~CallsAllRanks() = default;
};

/// The calls of such modules of one model. Autograd nodes share it; after the end of their trainer
/// it throws.
class RankCalls : public torch::CustomClassHolder {
 public:
  using Pointer = c10::intrusive_ptr<RankCalls>;

  RankCalls(const torch::nn::Module& model, RankGroup& group);

  std::int64_t size() const { return group_ == nullptr ? 1 : group_->size(); }
  /// Returns the number of these modules that are in training mode.
  std::int64_t count() const;
  /// Calls `f(module)` for each of the modules.
  template <class F>
  void each(F&& f) const {
    for (const auto& one : modules_) f(*one.module);
  }
  /// Returns the module's name in the model. Throws BadModel if it is no part of the model, because
  /// ranks with fewer microbatches than others would not know that they have to take part.
  const std::string& name_of(const CallsAllRanks& module, const char* type) const;
  /// Replaces each tensor by its sum over the ranks, in the call of this name.
  void sum(const std::string& call, std::vector<at::Tensor>& values);
  /// Throws if ranks have made different calls. On a device the host compares names only when a
  /// call is made for the first time; this compares the order of all calls.
  void compare(const std::string& call);
  /// Is called when the trainer ends.
  void end() noexcept { group_ = nullptr; }

 private:
  struct Of {
    const CallsAllRanks* calls;
    torch::nn::Module* module;
    std::string name;
  };
  std::vector<Of> modules_;
  RankGroup* group_;
  std::uint64_t order_ = fnv1a_start;  // the hash of all calls
};

/// RAII: while it exists, this thread computes the loss of a trainer on several ranks.
class RankScope {
 public:
  RankScope(RankCalls::Pointer calls, bool is_dummy)
      : calls_(std::move(calls)), is_dummy_(is_dummy), outer_(std::exchange(here(), this)) {}
  ~RankScope() { here() = outer_; }
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

  /// Returns the scope of this thread; null outside of any trainer, and if the recipe has one rank.
  static const RankScope*& here();
  const RankCalls::Pointer& calls() const { return calls_; }
  bool is_dummy() const { return is_dummy_; }

 private:
  RankCalls::Pointer calls_;
  bool is_dummy_;  // the microbatch has weight 0
  const RankScope* outer_;
};

/// Owns the RankCalls of a trainer; holds nothing if its recipe has one rank.
template <bool one_rank>
class ModelRankCalls {
 public:
  template <class RanksT>
  ModelRankCalls(const torch::nn::Module& model, const RanksT& ranks)
      : calls_(c10::make_intrusive<RankCalls>(model, ranks.data())) {}
  ~ModelRankCalls() { calls_->end(); }
  ModelRankCalls(const ModelRankCalls&) = delete;
  ModelRankCalls& operator=(const ModelRankCalls&) = delete;

  RankCalls* operator->() const { return calls_.get(); }
  RankScope scope(bool is_dummy) const { return {calls_, is_dummy}; }

 private:
  RankCalls::Pointer calls_;
};
template <>
class ModelRankCalls<true> {
 public:
  template <class RanksT>
  ModelRankCalls(const torch::nn::Module&, const RanksT&) {}
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/ranks/impl/rank_calls.ipp>
#endif
