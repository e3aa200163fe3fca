#pragma once
// The interface by which the parts of a trainer save, check and load what they keep.
#include <ikebana/detail/slice.hpp>
#include <ikebana/detail/torch.hpp>
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

/// Which rows of whole tensors those of a state are, by name. Tensors that are not in it are no
/// rows: a rank may have its own, such as its random generators.
using StateRows = std::map<std::string, Slice>;

/// The values that saved numbers may have. A NaN is in no range.
struct NumberRange {
  double min;        ///< the least number of it
  double max;        ///< the largest number of it
  bool is_whole;     ///< only whole numbers
  const char* text;  ///< what the numbers must be, for errors

  /// Whether it contains a number.
  bool has(double number) const;
  /// The first of the numbers from `x` to `end` that it does not contain; `end` if there is none.
  const double* first_outside(const double* x, const double* end) const;
};
/// Counts of steps and the like.
inline constexpr NumberRange count_range{0, 0x1p53, true, "a whole number that is not negative"};
/// Learning rates and other factors.
inline constexpr NumberRange factor_range{0, std::numeric_limits<double>::max(), false,
                                          "finite and not negative"};
/// Factors of a moving average: below 1.
inline constexpr NumberRange beta_range{0, 1 - std::numeric_limits<double>::epsilon() / 2, false,
                                        "in [0, 1)"};
/// Scales and other numbers above 0.
inline constexpr NumberRange positive_range{std::numeric_limits<double>::min(),
                                            std::numeric_limits<double>::max(), false,
                                            "finite and positive"};
/// Any number but an infinite one.
inline constexpr NumberRange finite_range{-std::numeric_limits<double>::max(),
                                          std::numeric_limits<double>::max(), false, "finite"};
/// Any number, also an infinite one.
inline constexpr NumberRange ordered_range{-std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::infinity(), false,
                                           "a number"};

/// Saves, checks or loads what a part keeps. A part lists its tensors and numbers once, in
/// `state(Archive&)`, for all modes.
class Archive {
 public:
  /// How the names of all begin that is not the model's.
  static constexpr const char* reserved_prefix = "ikebana.";
  /// How the sections of parts beside the trainer begin.
  static constexpr const char* parts_prefix = "parts.";
  /// How the names of trained weights begin where the state has averaged ones.
  static constexpr const char* trained_prefix = "ikebana.trained.";

  /// What is done with what is listed. Save puts it into the state; Plan notes the rows that Load
  /// will need, of names alone; Check records what does not fit, and changes nothing; Load sets it;
  /// Undo loads what the same parts saved in this process, whose tensors have been put back.
  enum class Mode { Save, Plan, Check, Load, Undo };

  /// Saving makes no copies: the dictionary then holds the tensors themselves. `rows`: of a state
  /// in files, where it notes the rows.
  Archive(StateDict& dict, Mode mode, StateRows* rows = nullptr)
      : dict_(dict), mode_(mode), rows_(rows) {}

  /// Names from here on are the model's own.
  void begin_model() { prefix_.clear(); }
  /// Names from here on begin with `ikebana.<section>.`.
  void begin_section(const std::string& section) { prefix_ = reserved_prefix + section + "."; }
  /// The same, for the section of one of the trainer's policies.
  void begin_policy(const std::string& name);
  /// Within `f`, names also begin with `<name>.`: a part of a part.
  template <class F>
  void within(const std::string& name, F&& f) {
    const std::string before = std::exchange(prefix_, prefix_ + name + ".");
    f();
    prefix_ = before;
  }
  /// The tensors that `f` lists are these rows of whole ones, which all ranks have together. Where
  /// the rows are all of them, every rank has the same tensor.
  template <class F>
  void rows_of(const Slice& slice, F&& f) {
    const Slice* before = std::exchange(slice_, &slice);
    f();
    slice_ = before;
  }
  /// The same of the slice of that index, as of `Masters::slices`; where there are none, the
  /// tensors are no rows.
  template <class F>
  void rows_of(const std::vector<Slice>& slices, std::size_t i, F&& f) {
    if (slices.empty()) f();
    else rows_of(slices[i], f);
  }
  /// True for a state in files, of which each rank reads the rows that it needs. False for one in
  /// memory, which fits the rank that it comes from.
  bool notes_rows() const { return rows_ != nullptr; }

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
  void note_rows(const std::string& full_name);
  void move_rows(const std::string& from, const std::string& to);
  /// The sizes of the whole of a tensor of which the trainer has `sizes`.
  at::IntArrayRef whole_sizes(at::IntArrayRef sizes) const;
  /// The sizes of the whole of a tensor of which `sizes` were read.
  at::IntArrayRef read_sizes(const std::string& full_name, at::IntArrayRef sizes) const;

  StateDict& dict_;
  Mode mode_;
  std::string prefix_;
  std::vector<std::string> policies_;
  StateRows* rows_;
  const Slice* slice_ = nullptr;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
  StateDict checked_copies_;  // of optional tensors, made by checking and taken by loading
  bool ignores_parts_ = false;
};

namespace detail {

/// Copies `from` to `t`, which has the same shape. LibTorch writes to no expanded tensor; here each
/// element of its memory is written once. A sparse tensor gets new indices and values, which one
/// that was detached from it would not share.
void write_elements(const at::Tensor& t, at::Tensor from);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/archive.ipp>
#endif
