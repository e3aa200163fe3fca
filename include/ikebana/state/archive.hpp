#pragma once
// The interface by which the parts of a trainer save, check and load what they keep.
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/archive_scope.hpp>
#include <ikebana/state/number_range.hpp>
#include <ikebana/state/other_policies.hpp>
#include <ikebana/state/write_elements.hpp>
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
  void tensor(const std::string& name, const at::Tensor& t, const NumberRange* range = nullptr) {
    if (mode_ == Mode::Save) return put(name, t.detach());
    if (mode_ == Mode::Undo) return put_back(name, t);
    if (mode_ == Mode::Plan) return note_rows(prefix_ + stored_name(name));
    const at::Tensor* from = find(stored_name(name), t.sizes(), t.scalar_type());
    if (from && mode_ == Mode::Load) detail::write_elements(t, *from);
    else if (from && range) check_range(name, *from, *range);
  }
  /// A tensor that is created on first use, with shape, dtype and memory layout of `like`; it is
  /// not saved while it is undefined. Returns whether it is saved.
  bool optional(const std::string& name, at::Tensor& t, const at::Tensor& like,
                const NumberRange* range = nullptr) {
    if (mode_ == Mode::Save) return t.defined() && (put(name, t.detach()), true);
    if (!has(name)) return loading() && (t.reset(), false);
    if (mode_ == Mode::Plan) return note_rows(prefix_ + name), true;
    if (mode_ == Mode::Undo) ignore(name), t = dict_.at(prefix_ + name);
    else if (mode_ == Mode::Load) t = std::move(checked_copies_[prefix_ + name]);
    else if (const at::Tensor* from = find(name, like.sizes(), like.scalar_type())) {
      checked_copies_[prefix_ + name] = at::empty_like(like).copy_(*from);
      if (range) check_range(name, *from, *range);
    }
    return true;
  }
  /// What checking made of an optional tensor and loading takes, for one that stores it elsewhere.
  at::Tensor* checked_copy(const std::string& name) {
    return checked_copies_.count(prefix_ + name) ? &checked_copies_[prefix_ + name] : nullptr;
  }
  /// The model's tensor `name` as it is evaluated, where that is not the trained one. In a state it
  /// has the model's name, so that all readers of weights find what was evaluated, and the trained
  /// one is `ikebana.trained.<name>`. Otherwise as `optional`. Called after the model's tensors.
  bool evaluated(const std::string& name, at::Tensor& t, const at::Tensor& like) {
    const std::string trained = trained_prefix + name;
    if (mode_ != Mode::Save && !dict_.count(trained))
      return mode_ == Mode::Load && (t.reset(), false);
    if (mode_ == Mode::Save && t.defined())
      dict_[trained] = dict_.extract(name).mapped(), move_rows(name, trained);
    const std::string before = std::exchange(prefix_, {});
    const bool saved = optional(name, t, like);
    if (mode_ == Mode::Check && !saved) add_missing(name);
    prefix_ = before;
    return saved;
  }
  /// A list of numbers, of any length or of `length`, each in `range` if there is one.
  void list(const std::string& name, std::vector<double>& values, std::int64_t length = -1,
            const NumberRange* range = nullptr) {
    if (mode_ == Mode::Save) return put(name, at::tensor(values, at::kDouble));
    if (mode_ == Mode::Plan) return;
    auto found = dict_.find(prefix_ + name);
    if (length < 0)
      length = found != dict_.end() && found->second.dim() == 1 ? found->second.numel() : 0;
    const at::Tensor* from = find(name, length, at::kDouble);
    if (from && range && mode_ == Mode::Check) check_range(name, *from, *range);
    if (!from || !loading()) return;
    const at::Tensor on_cpu = from->cpu().contiguous();
    const auto* x = on_cpu.const_data_ptr<double>();
    values.assign(x, x + on_cpu.numel());
  }
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
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (auto at = dict_.lower_bound(prefix_); at != dict_.end() && at->first.starts_with(prefix_);
         ++at)
      all.push_back(at->first.substr(prefix_.size()));
    return all;
  }
  /// That the state has `name` is no error, although this trainer does not load it.
  void ignore(const std::string& name) { used_.insert(prefix_ + name); }
  /// The same for all names of the present section.
  void ignore_section() {
    for (const auto& name : names()) ignore(name);
  }
  /// Records that the state lacks `name`.
  void add_missing(const std::string& name) {
    problems_.push_back("`" + prefix_ + name + "` is missing");
  }
  /// Records why the saved `name` cannot be loaded.
  void add_mismatch(const std::string& name, const std::string& why) {
    problems_.push_back("`" + prefix_ + name + "` " + why);
  }
  /// All that was saved, and how names begin here: for a part that cannot list what it saved.
  std::pair<const StateDict&, std::string> saved() const {
    static const StateDict none;
    return {mode_ == Mode::Plan ? none : dict_, prefix_};
  }
  /// The saved tensor `name`, for a check of its contents; null if it is missing or differs from
  /// `like` in shape or dtype.
  const at::Tensor* find_like(const std::string& name, const at::Tensor& like) const {
    const at::Tensor* t = has(name) && mode_ != Mode::Plan ? &dict_.at(prefix_ + name) : nullptr;
    const bool fits = t && t->sizes() == like.sizes() && t->scalar_type() == like.scalar_type();
    return fits ? t : nullptr;
  }

  /// Saved parts that the caller does not load are then no error.
  void ignore_parts() { ignores_parts_ = true; }
  /// Ends undoing. Returns what was listed then or now only, as a text.
  std::string finish_undo() {
    for (const auto& [name, tensor] : dict_)
      if (!used_.count(name)) problems_.push_back("`" + name + "` is not listed any more");
    return detail::joined(problems_);
  }
  /// Ends checking; loading follows. Throws BadState with all problems, unused names among them.
  void finish_check() {
    for (const auto& [name, tensor] : dict_)
      if (!used_.count(name)) add_unused(name);
    if (!problems_.empty())
      throw BadState(detail::text_of_mismatch(std::move(problems_), policies_, dict_));
    mode_ = Mode::Load;
  }

 private:
  template <class Number>
  using Saved = std::conditional_t<std::is_floating_point_v<Number>, double, std::int64_t>;
  template <class Number>
  static constexpr at::ScalarType saved_dtype = c10::CppTypeToScalarType<Saved<Number>>::value;

  const at::Tensor* find(const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype) {
    if (!has(name)) return add_missing(name), nullptr;
    ignore(name);
    const at::Tensor& t = dict_.at(prefix_ + name);
    const at::IntArrayRef read = read_sizes(prefix_ + name, t.sizes()), own = whole_sizes(sizes);
    if (read == own && t.sizes() == sizes && t.scalar_type() == dtype) return &t;
    add_mismatch(name, c10::str("is ", t.scalar_type(), read, ", the trainer has ", dtype, own));
    return nullptr;
  }
  /// Where a state has the model's tensor `name` as it was trained.
  std::string stored_name(const std::string& name) const {
    const std::string trained = trained_prefix + name;
    return prefix_.empty() && dict_.count(trained) ? trained : name;
  }
  void check_range(const std::string& name, const at::Tensor& saved, const NumberRange& range) {
    const at::Tensor numbers = saved.to(at::kCPU, at::kDouble).contiguous();
    const auto* x = numbers.const_data_ptr<double>();
    if (const auto *end = x + numbers.numel(), *bad = range.first_outside(x, end); bad != end)
      add_mismatch(name, (saved.dim() == 0 ? "is " : "has a ") + c10::str(*bad) + ", and must be " +
                             range.text);
  }
  /// Makes `t` the tensor that was saved, if the part has put another one in its place since.
  void put_back(const std::string& name, const at::Tensor& t) {
    if (!has(name)) return add_missing(name);
    ignore(name);
    if (const at::Tensor& former = dict_.at(prefix_ + name);
        !detail::same_storage(t, former) || t.sizes() != former.sizes())
      t.set_data(former);
  }
  void add_unused(const std::string& name) {
    const std::string quoted = "`" + name + "` ";
    if (dict_.count(trained_prefix + name)) return problems_.push_back(quoted + detail::no_average);
    if (!name.starts_with(std::string(reserved_prefix) + parts_prefix))
      return problems_.push_back(quoted + "belongs to no part of this trainer");
    if (ignores_parts_) return;
    problems_.push_back(
        quoted +
        "was saved beside the trainer, and no part here takes it (pass the part, or ignore_parts)");
  }
  void put(const std::string& name, at::Tensor t) {
    if (prefix_.empty() && name.starts_with(reserved_prefix))
      throw BadModel("state: the model's `" + name + "` begins with `" + reserved_prefix +
                     "`, which is reserved for what is not the model's. Register it under another "
                     "name.");
    note_rows(prefix_ + name);
    const auto [at, is_new] = dict_.try_emplace(prefix_ + name, t);
    if (!is_new && !(at->second.options().type_equal(t.options()) && at->second.equal(t)))
      throw BadModel("state: two values have the name `" + prefix_ + name +
                     "`. Give each a name of its own.");
  }

  StateDict& dict_;
  Mode mode_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
  StateDict checked_copies_;  // of optional tensors, made by checking and taken by loading
  bool ignores_parts_ = false;
};

}  // namespace ikebana
