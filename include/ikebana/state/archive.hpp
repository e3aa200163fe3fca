#pragma once
// The interface by which the parts of a trainer save, check and load what they keep. Its tensors
// are in memory; state/files/ reads and writes files.
#include <ikebana/detail/slice.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/state/entry_names.hpp>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// Named tensors: what `Trainer::state()` returns and `Trainer::restore()` takes. The model's
/// tensors have the model's names; all others begin with `ikebana.`.
using StateDict = std::map<std::string, at::Tensor>;

/// The rows of a whole tensor that a state's tensor has, by the tensor's name. A tensor without an
/// entry is not a part of a larger one: a rank may have tensors of its own, such as its random
/// generators.
using StateRows = std::map<std::string, Slice>;

/// A range of values that a saved number may have. No range contains NaN.
struct NumberRange {
  double min;        ///< the smallest value
  double max;        ///< the largest value
  bool is_whole;     ///< only whole numbers
  const char* text;  ///< says in errors what the numbers must be

  /// Returns whether the range contains a number.
  bool has(double number) const;
  /// Returns the first of the numbers from `x` to `end` that is outside the range, or `end`.
  const double* first_outside(const double* x, const double* end) const;
};
/// Counts of steps and the like.
inline constexpr NumberRange count_range{0, 0x1p53, true, "a whole number that is not negative"};
/// The range of learning rates and other factors.
inline constexpr NumberRange factor_range{0, std::numeric_limits<double>::max(), false,
                                          "finite and not negative"};
/// The range of factors of a moving average, which are below 1.
inline constexpr NumberRange beta_range{0, 1 - std::numeric_limits<double>::epsilon() / 2, false,
                                        "in [0, 1)"};
/// Scales and other numbers above 0.
inline constexpr NumberRange positive_range{std::numeric_limits<double>::min(),
                                            std::numeric_limits<double>::max(), false,
                                            "finite and positive"};
/// The range of any number but an infinite one.
inline constexpr NumberRange finite_range{-std::numeric_limits<double>::max(),
                                          std::numeric_limits<double>::max(), false, "finite"};
/// The range of any number, also an infinite one.
inline constexpr NumberRange ordered_range{-std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::infinity(), false,
                                           "a number"};

/// Saves, checks or loads what a part keeps. A part lists its tensors and numbers once, in
/// `state(Archive&)`, for all modes.
class Archive {
 public:
  /// The action on each value that a part lists. Save puts it into the state. Plan reads names
  /// alone and notes the rows that Load will need. Check records what does not fit, and changes
  /// nothing. Load sets the value. Undo loads what the same parts saved in this process, after
  /// their tensors have been put back.
  enum class Mode { Save, Plan, Check, Load, Undo };

  /// Saving makes no copies, and the dictionary then holds the tensors themselves. For a state in
  /// files, the archive notes in `rows` which rows each tensor has.
  Archive(StateDict& dict, Mode mode, StateRows* rows = nullptr)
      : dict_(dict), mode_(mode), rows_(rows) {}

  /// Names from here on are the model's own.
  void begin_model() { prefix_.clear(); }
  /// Names from here on begin with `ikebana.<section>.`.
  void begin_section(const std::string& section) {
    prefix_ = detail::EntryNames::reserved_prefix + section + ".";
  }
  /// Begins the section of one of the trainer's policies.
  void begin_policy(const std::string& name);
  /// Within `f`, names also begin with `<name>.`: `f` lists a part of a part.
  template <class F>
  void within(const std::string& name, F&& f) {
    const std::string before = std::exchange(prefix_, prefix_ + name + ".");
    f();
    prefix_ = before;
  }
  /// Declares that the tensors that `f` lists are these rows of whole tensors, which all ranks have
  /// together. If `slice` has all rows, every rank has the same tensor.
  template <class F>
  void rows_of(const Slice& slice, F&& f) {
    const Slice* before = std::exchange(slice_, &slice);
    f();
    slice_ = before;
  }
  /// Does so with the slice of index `i`, as in `Masters::slices`. Without slices, `f` lists whole
  /// tensors.
  template <class F>
  void rows_of(const std::vector<Slice>& slices, std::size_t i, F&& f) {
    if (slices.empty()) f();
    else rows_of(slices[i], f);
  }
  /// Returns true for a state in files, from which each rank reads the rows that it needs, and
  /// false for a state in memory, which fits the rank that it comes from.
  bool notes_rows() const { return rows_ != nullptr; }

  /// Lists a tensor that always exists. Shape and dtype must agree, and each element must be in
  /// `range` if there is one.
  void tensor(const std::string& name, const at::Tensor& t, const NumberRange* range = nullptr);
  /// Lists a tensor that is created on first use, with the shape, dtype and memory layout of
  /// `like`. It is not saved while it is undefined. Returns whether it is saved.
  bool optional(const std::string& name, at::Tensor& t, const at::Tensor& like,
                const NumberRange* range = nullptr);
  /// Returns the copy that checking made of an optional tensor and that loading takes, for a part
  /// that stores it elsewhere; null without one.
  at::Tensor* checked_copy(const std::string& name);
  /// Lists the tensor that is evaluated in place of the model's trained tensor `name`. In a state
  /// the evaluated tensor has the model's name, so that all readers of weights find what was
  /// evaluated, and the trained one is `ikebana.trained.<name>`. Behaves otherwise like `optional`.
  /// Call it after the model's tensors are listed.
  bool evaluated(const std::string& name, at::Tensor& t, const at::Tensor& like);
  /// Lists several numbers, of any count or of `length`, each in `range` if it is given.
  void list(const std::string& name, std::vector<double>& values, std::int64_t length = -1,
            const NumberRange* range = nullptr);
  /// Lists a number of any type, which is saved as Long or Double. A saved number does not fit if
  /// `Number` cannot hold it or if it is outside `range`.
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
  /// Lists a number that the program determines, so that it is checked and not loaded. A saved
  /// number with another value does not fit.
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
  /// Returns true while the state is being saved.
  bool saving() const { return mode_ == Mode::Save; }
  /// Returns true while values are being set, after all of them were checked.
  bool loading() const { return mode_ == Mode::Load || mode_ == Mode::Undo; }
  /// Returns true while values are only compared, and problems recorded.
  bool checking() const { return mode_ == Mode::Check; }
  /// Returns whether the state has `name` in the present section.
  bool has(const std::string& name) const { return dict_.count(prefix_ + name) != 0; }
  /// Returns the state's names in the present section, without the section's prefix.
  std::vector<std::string> names() const;
  /// Makes it no error that the state has `name`, which this trainer does not load.
  void ignore(const std::string& name) { used_.insert(prefix_ + name); }
  /// Ignores all names of the present section.
  void ignore_section();
  /// Records that the state lacks `name`.
  void add_missing(const std::string& name);
  /// Records why the saved `name` cannot be loaded.
  void add_mismatch(const std::string& name, const std::string& why);
  /// Returns everything that was saved, and the prefix of the present section, for a part that
  /// cannot list what it saved.
  std::pair<const StateDict&, std::string> saved() const;
  /// Returns the saved tensor `name`, for a check of its contents; null if it is missing or differs
  /// from `like` in shape or dtype.
  const at::Tensor* find_like(const std::string& name, const at::Tensor& like) const;

  /// Makes it no error that the state has parts which the caller does not load.
  void ignore_parts() { ignores_parts_ = true; }
  /// Ends undoing. Returns a text of the names that were listed only when saving or only now.
  std::string finish_undo();
  /// Ends checking; loading follows. Throws BadState with all problems, unused names among them.
  void finish_check();

 private:
  template <class Number>
  using Saved = std::conditional_t<std::is_floating_point_v<Number>, double, std::int64_t>;
  template <class Number>
  static constexpr at::ScalarType saved_dtype = c10::CppTypeToScalarType<Saved<Number>>::value;

  const at::Tensor* find(const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype);
  /// Returns the name under which the state has the trained tensor of the model's `name`.
  std::string stored_name(const std::string& name) const;
  void check_range(const std::string& name, const at::Tensor& saved, const NumberRange& range);
  /// Makes `t` the tensor that was saved, if the part has put another one in its place since.
  void put_back(const std::string& name, const at::Tensor& t);
  void add_unused(const std::string& name);
  void put(const std::string& name, at::Tensor t);
  void note_rows(const std::string& full_name);
  void move_rows(const std::string& from, const std::string& to);
  /// Returns the sizes of the whole tensor, of which the trainer has a part with `sizes`.
  at::IntArrayRef whole_sizes(at::IntArrayRef sizes) const;
  /// Returns the sizes of the whole tensor, of which a part with `sizes` was read.
  at::IntArrayRef read_sizes(const std::string& full_name, at::IntArrayRef sizes) const;

  StateDict& dict_;
  Mode mode_;
  std::string prefix_;
  std::vector<std::string> policies_;
  StateRows* rows_;
  const Slice* slice_ = nullptr;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
  StateDict checked_copies_;  // checking makes them of optional tensors, and loading takes them
  bool ignores_parts_ = false;
};

namespace detail {

/// Copies `from` to `t`, which has the same shape. LibTorch refuses to write to an expanded tensor;
/// this function writes each element of its memory once. It copies to a sparse tensor itself,
/// because a detached tensor would not share the new indices and values.
void write_elements(const at::Tensor& t, at::Tensor from);

/// Saves or loads the buffers of a model, each once.
void archive_buffers(Archive& archive, const torch::nn::Module& model);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/archive.ipp>
#endif
