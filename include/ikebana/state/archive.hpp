#pragma once
// The interface by which the parts of a trainer save, check and load what they keep.
#include <ikebana/detail/torch.hpp>
#include <ikebana/state/archive_scope.hpp>
#include <ikebana/state/number_range.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// Named tensors: what `Trainer::state()` returns and `Trainer::restore()` takes. The model's
/// tensors have the model's names; all others begin with `ikebana.`.
using StateDict = std::map<std::string, at::Tensor>;

/// Saves, checks or loads what a part keeps. A part lists its tensors and numbers once, in
/// `state(Archive&)`, for all modes.
class Archive : public ArchiveScope {
 public:
  /// What is done with what is listed. Save puts it into the state; Plan notes the rows that Load
  /// will need, of names alone; Check records what does not fit, and changes nothing; Load sets it;
  /// Undo loads what the same parts saved in this process, whose tensors have been put back.
  enum class Mode { Save, Plan, Check, Load, Undo };

  /// Saving makes no copies: the dictionary then holds the tensors themselves. `rows`: of a state
  /// in files, where it notes the rows.
  Archive(StateDict& dict, Mode mode, StateRows* rows = nullptr)
      : ArchiveScope(rows), dict_(dict), mode_(mode) {}

  /// A tensor that always exists. Shape and dtype must agree, and each element must be in `range`
  /// if there is one.
  void tensor(const std::string& name, const at::Tensor& t, const NumberRange* range = nullptr);
  /// A tensor that is created on first use, with shape, dtype and memory layout of `like`; it is
  /// not saved while it is undefined. Returns whether it is saved.
  bool optional(const std::string& name, at::Tensor& t, const at::Tensor& like,
                const NumberRange* range = nullptr);
  /// What checking made of an optional tensor and loading takes, for one that stores it elsewhere.
  at::Tensor* checked_copy(const std::string& name);
  /// The model's tensor `name` as it is evaluated, where that is not the trained one. In a state it
  /// has the model's name, so that all readers of weights find what was evaluated, and the trained
  /// one is `ikebana.trained.<name>`. Otherwise as `optional`. Called after the model's tensors.
  bool evaluated(const std::string& name, at::Tensor& t, const at::Tensor& like);
  /// A list of numbers, of any length or of `length`, each in `range` if there is one.
  void list(const std::string& name, std::vector<double>& values, std::int64_t length = -1,
            const NumberRange* range = nullptr);
  /// A number of any type, saved as Long or Double. A saved number that `Number` cannot hold, or
  /// that is not in `range` if there is one, does not fit.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void number(const std::string& name, Number& value, const NumberRange* range = nullptr) {
    if (mode_ == Mode::Save)
      return put(name, at::scalar_tensor(static_cast<Saved<Number>>(value), saved_dtype<Number>));
    const at::Tensor* from = mode_ == Mode::Plan ? nullptr : find(name, {}, saved_dtype<Number>);
    if (!from) return;
    const auto saved = from->item<Saved<Number>>();
    if (loading()) value = static_cast<Number>(saved);
    else if (std::is_integral_v<Number> &&
             static_cast<Saved<Number>>(static_cast<Number>(saved)) != saved)
      add_mismatch(name, "is " + c10::str(saved) + ", which the program's type cannot hold");
    else if (range) check_range(name, *from, *range);
  }
  /// A number that the program determines, so that it is checked and not loaded. A saved number
  /// with another value does not fit.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void constant(const std::string& name, Number value) {
    if (mode_ == Mode::Undo) ignore(name);
    if (mode_ != Mode::Check) return mode_ == Mode::Save ? number(name, value) : void();
    const at::Tensor* from = find(name, {}, saved_dtype<Number>);
    const auto present = static_cast<Saved<Number>>(value);
    const auto saved = from ? from->item<Saved<Number>>() : present;
    if (saved != present)
      add_mismatch(name, "is " + c10::str(saved) + ", here it is " + c10::str(present));
  }
  /// Whether `state` is to list what is saved.
  bool saving() const { return mode_ == Mode::Save; }
  /// Whether values are written now, after all have been checked.
  bool loading() const { return mode_ == Mode::Load || mode_ == Mode::Undo; }
  /// Whether values are compared alone, and problems recorded.
  bool checking() const { return mode_ == Mode::Check; }
  /// Whether the state has `name` in the present section.
  bool has(const std::string& name) const { return dict_.count(prefix_ + name) != 0; }
  /// The state's names in the present section, without its own.
  std::vector<std::string> names() const;
  /// That the state has `name` is no error, although this trainer does not load it.
  void ignore(const std::string& name) { used_.insert(prefix_ + name); }
  /// The same for all names of the present section.
  void ignore_section();
  /// Records that the state lacks `name`.
  void add_missing(const std::string& name);
  /// Records why the saved `name` cannot be loaded.
  void add_mismatch(const std::string& name, const std::string& why);
  /// All that was saved, and how names begin here: for a part that cannot list what it saved.
  std::pair<const StateDict&, std::string> saved() const;
  /// The saved tensor `name`, for a check of its contents; null if it is missing or differs from
  /// `like` in shape or dtype.
  const at::Tensor* find_like(const std::string& name, const at::Tensor& like) const;

  /// Saved parts that the caller does not load are then no error.
  void ignore_parts() { ignores_parts_ = true; }
  /// Ends undoing. Returns what was listed then or now only, as a text.
  std::string finish_undo();
  /// Ends checking; loading follows. Throws BadState with all problems, unused names among them.
  void finish_check();

 private:
  template <class Number>
  using Saved = std::conditional_t<std::is_floating_point_v<Number>, double, std::int64_t>;
  template <class Number>
  static constexpr at::ScalarType saved_dtype = c10::CppTypeToScalarType<Saved<Number>>::value;

  const at::Tensor* find(const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype);
  /// Where a state has the model's tensor `name` as it was trained.
  std::string stored_name(const std::string& name) const;
  void check_range(const std::string& name, const at::Tensor& saved, const NumberRange& range);
  /// Makes `t` the tensor that was saved, if the part has put another one in its place since.
  void put_back(const std::string& name, const at::Tensor& t);
  void add_unused(const std::string& name);
  void put(const std::string& name, at::Tensor t);

  StateDict& dict_;
  Mode mode_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
  StateDict checked_copies_;  // of optional tensors, made by checking and taken by loading
  bool ignores_parts_ = false;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/archive.ipp>
#endif
