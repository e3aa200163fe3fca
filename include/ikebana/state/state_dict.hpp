#pragma once
// A trainer's whole state in memory: named tensors. Numbers are one-element tensors, so that one
// format holds everything.
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <map>
#include <set>
#include <string>

namespace ikebana {

/// Named tensors: what `Trainer::state()` gives and `Trainer::restore()` takes.
using StateDict = std::map<std::string, at::Tensor>;

/// One description serves saving, checking and loading: a mechanism names its tensors and numbers
/// in `state(Archive&)`, and never asks which of the three is going on.
class Archive {
 public:
  enum class Mode { Save, Check, Load };
  Archive(StateDict& dict, Mode mode) : dict_(dict), mode_(mode) {}

  /// A tensor that exists before and after; shape and type must agree.
  void tensor(const std::string& name, at::Tensor t) {
    if (mode_ == Mode::Save) return void(dict_[prefix_ + name] = t.detach().clone());
    const at::Tensor& from = find(name, t.sizes(), t.scalar_type());
    if (mode_ == Mode::Load) t.detach().copy_(from);
  }
  /// A tensor made on first use, in the memory layout of `like`; absent where it was not made yet.
  /// Tells whether it was there.
  bool optional(const std::string& name, at::Tensor& t, const at::Tensor& like) {
    if (mode_ == Mode::Save) {
      if (t.defined()) dict_[prefix_ + name] = t.detach().clone();
      return t.defined();
    }
    if (!dict_.count(prefix_ + name)) {
      if (mode_ == Mode::Load) t = at::Tensor();
      return false;
    }
    const at::Tensor& from = find(name, like.sizes(), like.scalar_type());
    if (mode_ == Mode::Load) t = at::empty_like(like).copy_(from);
    return true;
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void number(const std::string& name, Number& value) {
    constexpr auto type = std::is_floating_point_v<Number> ? at::kDouble : at::kLong;
    if (mode_ == Mode::Save) return void(dict_[prefix_ + name] = at::scalar_tensor(value, type));
    const at::Tensor& from = find(name, {}, type);
    if (mode_ == Mode::Load) value = from.template item<Number>();
  }

  /// Throws BadState: `name` should be there.
  [[noreturn]] void missing(const std::string& name) const {
    throw BadState("restore: `" + prefix_ + name +
                   "` is missing from the state. Restore into the recipe and model that the state "
                   "was taken from.");
  }
  bool loading() const { return mode_ == Mode::Load; }
  /// Names from here on begin with `prefix`.
  void under(const std::string& prefix) { prefix_ = prefix + "."; }
  /// Within `f`, names begin with `prefix` besides: a part of a part.
  template <class F>
  void within(const std::string& prefix, F&& f) {
    std::string before = prefix_;
    prefix_ += prefix + ".";
    f();
    prefix_ = before;
  }
  /// Throws BadState where the dictionary holds what nobody asked for.
  void complete() const {
    for (const auto& [name, tensor] : dict_)
      if (!used_.count(name))
        throw BadState(
            "restore: `" + name +
            "` belongs to no part of this trainer. Restore into the recipe and model that "
            "the state was taken from.");
  }

 private:
  const at::Tensor& find(const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
    auto found = dict_.find(prefix_ + name);
    if (found == dict_.end()) missing(name);
    const at::Tensor& t = found->second;
    if (t.sizes() != sizes || t.scalar_type() != type)
      throw BadState("restore: `" + prefix_ + name + "` is " + c10::toString(t.scalar_type()) +
                     c10::str(t.sizes()) + ", the trainer has " + c10::toString(type) +
                     c10::str(sizes) + ". Restore into the same model.");
    used_.insert(found->first);
    return t;
  }

  StateDict& dict_;
  Mode mode_;
  std::string prefix_;
  std::set<std::string> used_;
};

}  // namespace ikebana
