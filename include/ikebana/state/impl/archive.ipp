#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files/write_elements.hpp>
#include <ikebana/state/other_policies.hpp>

namespace ikebana {

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
  const auto* x = on_cpu.const_data_ptr<double>();
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
  const std::string trained = trained_prefix + name;
  return prefix_.empty() && dict_.count(trained) ? trained : name;
}

IKEBANA_INLINE void Archive::check_range(const std::string& name, const at::Tensor& saved,
                                         const NumberRange& range) {
  const at::Tensor numbers = saved.to(at::kCPU, at::kDouble).contiguous();
  const auto* x = numbers.const_data_ptr<double>();
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
  if (dict_.count(trained_prefix + name)) return problems_.push_back(quoted + detail::no_average);
  if (!name.starts_with(std::string(reserved_prefix) + parts_prefix))
    return problems_.push_back(quoted + "belongs to no part of this trainer");
  if (ignores_parts_) return;
  problems_.push_back(
      quoted +
      "was saved beside the trainer, and no part here takes it (pass the part, or ignore_parts)");
}

IKEBANA_INLINE void Archive::put(const std::string& name, at::Tensor t) {
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

}  // namespace ikebana
