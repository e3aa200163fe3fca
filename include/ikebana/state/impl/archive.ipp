#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/archive.hpp>
#include <set>

namespace ikebana::detail {

/// The end of the error of a tensor that a recipe without an average cannot load.
inline constexpr const char* no_average = "is an average of weights, and this recipe has none";

/// Returns the section in an error "`ikebana.<section>.<name>` ..." if it is the name of a policy,
/// else an empty text. The names of `policies`, the trainer's own, may contain dots.
inline std::string section_of(const std::string& problem,
                              const std::vector<std::string>& policies) {
  const std::string begin = std::string("`") + detail::EntryNames::reserved_prefix;
  if (!problem.starts_with(begin)) return {};
  const std::string name = problem.substr(begin.size());
  for (const auto& policy : policies)
    if (name.starts_with(policy + ".")) return policy;
  std::string section = name.substr(0, name.find_first_of(".`"));
  for (const char* other : {"parts", "trained", "trainer", "slices"})
    if (section == other) return {};
  return section;
}

inline std::string listed_policies(const std::set<std::string>& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

/// Removes the errors that are due to policies which only the state or only the trainer has, and
/// returns one clause on these policies instead; empty without such policies.
inline std::string take_other_policies(std::vector<std::string>& problems,
                                       const std::vector<std::string>& policies,
                                       const StateDict& state) {
  std::set<std::string> saved, own;
  auto is_due_to_policy = [&](const std::string& problem) {
    const std::string section = section_of(problem, policies);
    if (section.empty()) return false;
    const std::string prefix = detail::EntryNames::reserved_prefix + section + ".";
    const auto first = state.lower_bound(prefix);
    const bool is_saved = first != state.end() && first->first.starts_with(prefix);
    const bool is_own = std::find(policies.begin(), policies.end(), section) != policies.end();
    if (is_saved != is_own) (is_saved ? saved : own).insert(section);
    return is_saved != is_own;
  };
  std::erase_if(problems, is_due_to_policy);
  if (saved.empty() && own.empty()) return {};
  if (!saved.empty())
    std::erase_if(problems, [](const auto& problem) { return problem.ends_with(no_average); });
  std::string text = "the state was saved ";
  if (own.empty()) text += "with " + listed_policies(saved) + ", which this recipe does not have";
  else if (saved.empty()) text += "without " + listed_policies(own) + ", which this recipe has";
  else text += "with " + listed_policies(saved) + ", and this recipe has " + listed_policies(own);
  return text + (problems.empty() ? "" : "; ");
}

/// Returns the text of the error for a state that does not fit: `problems`, and their cause.
inline std::string text_of_mismatch(std::vector<std::string> problems,
                                    const std::vector<std::string>& policies,
                                    const StateDict& state) {
  const std::string other = take_other_policies(problems, policies, state);
  return escaped("restore: " + other + joined(problems)) +
         ". Nothing was changed. Restore into the recipe and model that the state was saved from" +
         (other.empty() ? "." : "; load_weights takes the weights alone of any state.");
}

IKEBANA_INLINE void write_elements(const at::Tensor& t, at::Tensor from) {
  at::NoGradGuard no_grad;
  if (t.layout() != at::kStrided) return void(t.copy_(from));
  at::Tensor to = t.detach();
  for (std::int64_t d = 0; d < to.dim(); ++d)
    if (to.stride(d) == 0 && to.size(d) > 1) to = to.narrow(d, 0, 1), from = from.narrow(d, 0, 1);
  to.copy_(from);
}

IKEBANA_INLINE void archive_buffers(Archive& archive, const torch::nn::Module& model) {
  const auto buffers = model.named_buffers();
  for (const auto& item : each_once(buffers)) archive.tensor(item.key(), item.value());
  for (const std::string& name : later_names(buffers))  // older states have them, too
    archive.ignore(name), archive.ignore(detail::EntryNames::trained_prefix + name);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE bool NumberRange::has(double number) const {
  return number >= min && number <= max && (!is_whole || number == std::floor(number));
}

IKEBANA_INLINE const double* NumberRange::first_outside(const double* x, const double* end) const {
  while (x != end && has(*x)) ++x;
  return x;
}

IKEBANA_INLINE void Archive::begin_policy(const std::string& name) {
  policies_.push_back(name);
  begin_section(name);
}

IKEBANA_INLINE void Archive::tensor(const std::string& name, const at::Tensor& t,
                                    const NumberRange* range) {
  if (mode_ == Mode::Save) return put(name, t.detach());
  if (mode_ == Mode::Undo) return put_back(name, t);
  if (mode_ == Mode::Plan) return note_rows(prefix_ + stored_name(name));
  const at::Tensor* from = find(stored_name(name), t.sizes(), t.scalar_type());
  if (from && mode_ == Mode::Load) detail::write_elements(t, *from);
  else if (from && range) check_range(name, *from, *range);
}

IKEBANA_INLINE bool Archive::optional(const std::string& name, at::Tensor& t,
                                      const at::Tensor& like, const NumberRange* range) {
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

IKEBANA_INLINE at::Tensor* Archive::checked_copy(const std::string& name) {
  return checked_copies_.count(prefix_ + name) ? &checked_copies_[prefix_ + name] : nullptr;
}

IKEBANA_INLINE bool Archive::evaluated(const std::string& name, at::Tensor& t,
                                       const at::Tensor& like) {
  const std::string trained = detail::EntryNames::trained_prefix + name;
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

IKEBANA_INLINE void Archive::list(const std::string& name, std::vector<double>& values,
                                  std::int64_t length, const NumberRange* range) {
  if (mode_ == Mode::Save) return put(name, at::tensor(values, at::kDouble));
  if (mode_ == Mode::Plan) return;
  auto found = dict_.find(prefix_ + name);
  if (length < 0)
    length = found != dict_.end() && found->second.dim() == 1 ? found->second.numel() : 0;
  const at::Tensor* from = find(name, length, at::kDouble);
  if (from && range && mode_ == Mode::Check) check_range(name, *from, *range);
  if (!from || !loading()) return;
  const at::Tensor on_cpu = from->cpu().contiguous();
  const auto* x = static_cast<const double*>(on_cpu.const_data_ptr());
  values.assign(x, x + on_cpu.numel());
}

IKEBANA_INLINE std::vector<std::string> Archive::names() const {
  std::vector<std::string> all;
  for (auto at = dict_.lower_bound(prefix_); at != dict_.end() && at->first.starts_with(prefix_);
       ++at)
    all.push_back(at->first.substr(prefix_.size()));
  return all;
}

IKEBANA_INLINE void Archive::ignore_section() {
  for (const auto& name : names()) ignore(name);
}

IKEBANA_INLINE void Archive::add_missing(const std::string& name) {
  problems_.push_back("`" + prefix_ + name + "` is missing");
}

IKEBANA_INLINE void Archive::add_mismatch(const std::string& name, const std::string& why) {
  problems_.push_back("`" + prefix_ + name + "` " + why);
}

IKEBANA_INLINE std::pair<const StateDict&, std::string> Archive::saved() const {
  static const StateDict none;
  return {mode_ == Mode::Plan ? none : dict_, prefix_};
}

IKEBANA_INLINE const at::Tensor* Archive::find_like(const std::string& name,
                                                    const at::Tensor& like) const {
  const at::Tensor* t = has(name) && mode_ != Mode::Plan ? &dict_.at(prefix_ + name) : nullptr;
  const bool fits = t && t->sizes() == like.sizes() && t->scalar_type() == like.scalar_type();
  return fits ? t : nullptr;
}

IKEBANA_INLINE std::string Archive::finish_undo() {
  for (const auto& [name, tensor] : dict_)
    if (!used_.count(name)) problems_.push_back("`" + name + "` is not listed any more");
  return detail::joined(problems_);
}

IKEBANA_INLINE void Archive::finish_check() {
  for (const auto& [name, tensor] : dict_)
    if (!used_.count(name)) add_unused(name);
  if (!problems_.empty())
    throw BadState(detail::text_of_mismatch(std::move(problems_), policies_, dict_));
  mode_ = Mode::Load;
}

IKEBANA_INLINE const at::Tensor* Archive::find(const std::string& name, at::IntArrayRef sizes,
                                               at::ScalarType dtype) {
  if (!has(name)) return add_missing(name), nullptr;
  ignore(name);
  const at::Tensor& t = dict_.at(prefix_ + name);
  const at::IntArrayRef read = read_sizes(prefix_ + name, t.sizes()), own = whole_sizes(sizes);
  if (read == own && t.sizes() == sizes && t.scalar_type() == dtype) return &t;
  add_mismatch(name, c10::str("is ", t.scalar_type(), read, ", the trainer has ", dtype, own));
  return nullptr;
}

IKEBANA_INLINE std::string Archive::stored_name(const std::string& name) const {
  const std::string trained = detail::EntryNames::trained_prefix + name;
  return prefix_.empty() && dict_.count(trained) ? trained : name;
}

IKEBANA_INLINE void Archive::check_range(const std::string& name, const at::Tensor& saved,
                                         const NumberRange& range) {
  const at::Tensor numbers = saved.to(at::kCPU, at::kDouble).contiguous();
  const auto* x = static_cast<const double*>(numbers.const_data_ptr());
  if (const auto *end = x + numbers.numel(), *bad = range.first_outside(x, end); bad != end)
    add_mismatch(name, (saved.dim() == 0 ? "is " : "has a ") + c10::str(*bad) + ", and must be " +
                           range.text);
}

IKEBANA_INLINE void Archive::put_back(const std::string& name, const at::Tensor& t) {
  if (!has(name)) return add_missing(name);
  ignore(name);
  if (const at::Tensor& former = dict_.at(prefix_ + name);
      !detail::same_storage(t, former) || t.sizes() != former.sizes())
    t.set_data(former);
}

IKEBANA_INLINE void Archive::add_unused(const std::string& name) {
  const std::string quoted = "`" + name + "` ";
  if (dict_.count(detail::EntryNames::trained_prefix + name))
    return problems_.push_back(quoted + detail::no_average);
  if (!name.starts_with(std::string(detail::EntryNames::reserved_prefix) +
                        detail::EntryNames::parts_prefix))
    return problems_.push_back(quoted + "belongs to no part of this trainer");
  if (ignores_parts_) return;
  problems_.push_back(
      quoted +
      "was saved beside the trainer, and no part here takes it (pass the part, or ignore_parts)");
}

IKEBANA_INLINE void Archive::put(const std::string& name, at::Tensor t) {
  if (prefix_.empty() && name.starts_with(detail::EntryNames::reserved_prefix))
    throw BadModel("state: the model's `" + name + "` begins with `" +
                   detail::EntryNames::reserved_prefix +
                   "`, which is reserved for what is not the model's. Register it under another "
                   "name.");
  note_rows(prefix_ + name);
  const auto [at, is_new] = dict_.try_emplace(prefix_ + name, t);
  if (!is_new && !(at->second.options().type_equal(t.options()) && at->second.equal(t)))
    throw BadModel("state: two values have the name `" + prefix_ + name +
                   "`. Give each a name of its own.");
}

IKEBANA_INLINE void Archive::note_rows(const std::string& full_name) {
  if (rows_ != nullptr && slice_ != nullptr) rows_->insert_or_assign(full_name, *slice_);
}

IKEBANA_INLINE void Archive::move_rows(const std::string& from, const std::string& to) {
  if (rows_ == nullptr || !rows_->count(from)) return;
  auto node = rows_->extract(from);
  node.key() = to;
  rows_->insert(std::move(node));
}

IKEBANA_INLINE at::IntArrayRef Archive::whole_sizes(at::IntArrayRef sizes) const {
  return rows_ != nullptr && slice_ != nullptr ? at::IntArrayRef(slice_->sizes) : sizes;
}

IKEBANA_INLINE at::IntArrayRef Archive::read_sizes(const std::string& full_name,
                                                   at::IntArrayRef sizes) const {
  if (rows_ == nullptr) return sizes;
  const auto read = rows_->find(full_name);
  return read == rows_->end() ? sizes : at::IntArrayRef(read->second.sizes);
}

}  // namespace ikebana
