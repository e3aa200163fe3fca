#pragma once
// How the parts of a trainer name what they keep, once for saving, checking and loading.
#include <functional>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ikebana {

/// Named tensors: what `Trainer::state()` gives and `Trainer::restore()` takes. The model's have
/// their own names, all others begin with `ikebana.`.
using StateDict = std::map<std::string, at::Tensor>;

/// One description serves saving, checking and loading: a part names its tensors and numbers in
/// `state(Archive&)`, and never asks which of the three is going on. Checking notes everything that
/// does not fit and changes nothing; what loading needs is allocated then.
class Archive {
 public:
  enum class Mode { Save, Check, Load };
  static constexpr const char *reserved = "ikebana.", *parts = "parts.";

  /// Saving makes no copies: the dictionary then holds the tensors themselves.
  Archive(StateDict& dict, Mode mode) : dict_(dict), mode_(mode) {}

  /// A tensor that exists before and after; shape and type must agree.
  void tensor(const std::string& name, const at::Tensor& t) {
    if (mode_ == Mode::Save) return put(name, t.detach());
    const at::Tensor* from = find(name, t.sizes(), t.scalar_type());
    if (from && mode_ == Mode::Load) t.detach().copy_(*from);
  }
  /// A tensor made on first use, in the memory layout of `like`; absent where it was not made yet.
  /// Tells whether it was there.
  bool optional(const std::string& name, at::Tensor& t, const at::Tensor& like) {
    if (mode_ == Mode::Save) {
      if (t.defined()) put(name, t.detach());
      return t.defined();
    }
    if (!has(name)) {
      if (mode_ == Mode::Load) t = at::Tensor();
      return false;
    }
    if (mode_ == Mode::Load) t = std::move(ready_[prefix_ + name]);
    else if (const at::Tensor* from = find(name, like.sizes(), like.scalar_type()))
      ready_[prefix_ + name] = at::empty_like(like).copy_(*from);
    return true;
  }
  /// A list of numbers, of any length.
  void list(const std::string& name, std::vector<double>& values) {
    if (mode_ == Mode::Save) return put(name, at::tensor(values, at::kDouble));
    auto found = dict_.find(prefix_ + name);
    const bool is_list = found != dict_.end() && found->second.dim() == 1;
    const at::Tensor* from =
        find(name, is_list ? found->second.sizes() : at::IntArrayRef{0}, at::kDouble);
    if (!from || mode_ != Mode::Load) return;
    const at::Tensor here = from->cpu().contiguous();
    values.assign(here.const_data_ptr<double>(), here.const_data_ptr<double>() + here.numel());
  }
  /// A number of any type, kept as Long or Double; one that the type cannot hold is an error.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void number(const std::string& name, Number& value) {
    if (mode_ == Mode::Save)
      return put(name, at::scalar_tensor(static_cast<Wide<Number>>(value), kind<Number>));
    const at::Tensor* from = find(name, {}, kind<Number>);
    if (!from) return;
    const auto saved = from->item<Wide<Number>>();
    if (mode_ == Mode::Load) value = static_cast<Number>(saved);
    else if (std::is_integral_v<Number> &&
             static_cast<Wide<Number>>(static_cast<Number>(saved)) != saved)
      does_not_fit(name, "is " + c10::str(saved) + ", which the number here cannot hold");
  }
  /// A number that is given, not loaded: one that differs in the state is an error.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void constant(const std::string& name, Number value) {
    if (mode_ != Mode::Check) return mode_ == Mode::Save ? number(name, value) : void();
    const at::Tensor* from = find(name, {}, kind<Number>);
    const auto here = static_cast<Wide<Number>>(value);
    const auto saved = from ? from->item<Wide<Number>>() : here;
    if (saved != here)
      does_not_fit(name, "is " + c10::str(saved) + ", here it is " + c10::str(here));
  }

  bool saving() const { return mode_ == Mode::Save; }
  bool loading() const { return mode_ == Mode::Load; }
  bool checking() const { return mode_ == Mode::Check; }
  bool has(const std::string& name) const { return dict_.count(prefix_ + name) != 0; }
  /// Notes that `name` should be there.
  void missing(const std::string& name) {
    problems_.push_back("`" + prefix_ + name + "` is missing");
  }
  /// Notes why what `name` holds cannot be loaded.
  void does_not_fit(const std::string& name, const std::string& why) {
    problems_.push_back("`" + prefix_ + name + "` " + why);
  }
  /// What is given for `name`, for a check of its contents; null where it is nothing like `like`.
  const at::Tensor* given(const std::string& name, const at::Tensor& like) const {
    auto found = dict_.find(prefix_ + name);
    bool fits = found != dict_.end() && found->second.sizes() == like.sizes() &&
                found->second.scalar_type() == like.scalar_type();
    return fits ? &found->second : nullptr;
  }

  /// Names from here on are the model's own.
  void model() { prefix_.clear(); }
  /// Names from here on begin with `ikebana.` and `prefix`.
  void under(const std::string& prefix) { prefix_ = reserved + prefix + "."; }
  /// Within `f`, names begin with `prefix` besides: a part of a part.
  template <class F>
  void within(const std::string& prefix, F&& f) {
    std::string before = prefix_;
    prefix_ += prefix + ".";
    f();
    prefix_ = before;
  }
  /// What was saved beside the trainer and nobody asks for is no error.
  void ignore_parts() { ignores_parts_ = true; }
  /// Between checking and loading. Throws BadState that names everything that does not fit, what
  /// nobody asked for included.
  void load() {
    for (const auto& [name, tensor] : dict_)
      if (!used_.count(name)) not_asked_for(name);
    if (!problems_.empty()) throw BadState(told());
    mode_ = Mode::Load;
  }

 private:
  template <class Number>
  using Wide = std::conditional_t<std::is_floating_point_v<Number>, double, std::int64_t>;
  template <class Number>
  static constexpr at::ScalarType kind = c10::CppTypeToScalarType<Wide<Number>>::value;

  const at::Tensor* find(const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
    auto found = dict_.find(prefix_ + name);
    if (found == dict_.end()) return missing(name), nullptr;
    used_.insert(found->first);
    const at::Tensor& t = found->second;
    if (t.sizes() == sizes && t.scalar_type() == type) return &t;
    does_not_fit(
        name, "is " + text(t.scalar_type(), t.sizes()) + ", the trainer has " + text(type, sizes));
    return nullptr;
  }
  void not_asked_for(const std::string& name) {
    const bool is_part = name.starts_with(std::string(reserved) + parts);
    if (!is_part) return problems_.push_back("`" + name + "` belongs to no part of this trainer");
    if (ignores_parts_) return;
    problems_.push_back("`" + name +
                        "` was saved beside the trainer, and nothing here takes it (give it, or "
                        "ignore_parts)");
  }
  void put(const std::string& name, at::Tensor t) {
    if (prefix_.empty() && name.starts_with(reserved))
      throw BadModel("state: the model's `" + name + "` begins with `" + reserved +
                     "`, as everything does that is not the model's. Register it by another name.");
    dict_[prefix_ + name] = std::move(t);
  }
  static std::string text(at::ScalarType type, at::IntArrayRef sizes) {
    return c10::toString(type) + c10::str(sizes);
  }
  std::string told() const {
    std::string all = "restore: ";
    for (const auto& problem : problems_) all += (all.size() > 9 ? "; " : "") + problem;
    return detail::escaped(all) +
           ". Nothing was changed. Restore into the recipe and model that the state is of.";
  }

  StateDict& dict_;
  Mode mode_;
  std::string prefix_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
  StateDict ready_;
  bool ignores_parts_ = false;
};

template <class Part>
concept KeepsState = requires(Part& part, Archive& archive) { part.state(archive); };

/// What is saved beside the trainer, such as a DataLoader's position: each part has
/// `state(Archive&)`. Its names begin with `ikebana.parts.` and its `state_name`, or else its type.
class StateParts {
 public:
  StateParts() = default;
  /// Refers to the parts, which must live as long.
  template <class... Parts>
    requires(sizeof...(Parts) > 0 && (KeepsState<Parts> && ...))
  StateParts(Parts&... parts) {
    (add(parts), ...);
  }

  template <class Part>
  void add(Part& part) {
    std::string name;
    if constexpr (requires { Part::state_name; }) name = Part::state_name;
    else name = detail::type_name<Part>();
    for (const auto& [known, visit] : parts_)
      if (known == name)
        throw BadValue("state: two parts are called `" + name + "`. Give one another state_name.");
    parts_.emplace_back(name, [&part](Archive& archive) { part.state(archive); });
  }
  void state(Archive& archive) const {
    for (const auto& [name, visit] : parts_) archive.under(Archive::parts + name), visit(archive);
    if (ignores_others_) archive.ignore_parts();
  }
  /// None; and what a state holds beside the trainer is left unread.
  static StateParts ignored() {
    StateParts none;
    none.ignores_others_ = true;
    return none;
  }

 private:
  std::vector<std::pair<std::string, std::function<void(Archive&)>>> parts_;
  bool ignores_others_ = false;
};

/// `trainer.load("run/best.safetensors", ignore_parts)`: the trainer alone, without the data's
/// position and whatever else was saved with it.
inline const StateParts ignore_parts = StateParts::ignored();

}  // namespace ikebana
