#pragma once
#include <ikebana/core/compared_values.hpp>
#include <ikebana/detail/content_hash.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void LinesHash::operator()(const std::string& name, std::string_view text) {
  value = fnv1a(fnv1a(value, name), text);
}

IKEBANA_INLINE std::string text_of_lines(c10::function_ref<void(AddLine)> each_line) {
  std::string lines;
  try {
    each_line([&](const std::string& name, std::string_view value) {
      lines += name + " = " + std::string(value) + '\n';
    });
  } catch (const Error&) {  // a policy does not say values that it refuses: others say those
  }
  return lines;
}

IKEBANA_INLINE void each_line_of(const Masters& masters, AddLine add) {
  for (std::size_t i = 0; i < masters.names.size(); ++i)
    add(masters.names[i],
        c10::str(at::IntArrayRef(masters.slices[i].sizes), masters.values[i].dtype()));
}

IKEBANA_INLINE std::uint64_t KnownValues::of(const ParameterRule& rule) {
  if (rule_ == rules_.size()) rules_.emplace_back();
  KnownRule& known = rules_[rule_++];
  if (known.is_known && rule.is(known.rule)) return known.number;
  std::uint64_t number = key(0, static_cast<bool>(rule) ? 1 : 0);
  for (std::size_t i = 0; rule && i < masters_->names.size(); ++i)
    number = key(number, rule(masters_->names[i], masters_->whole(i)) ? 1 : 0);
  known = {rule, number, true};
  return number;
}

IKEBANA_INLINE std::uint64_t KnownValues::of(const at::Tensor& tensor) {
  if (tensor_ == tensors_.size()) tensors_.emplace_back();
  KnownTensor& known = tensors_[tensor_++];
  if (!tensor.defined()) return known = {}, 0;
  if (known.tensor.is_same(tensor) && !known.version->changed()) return known.number;
  known = {tensor, Version(tensor), content_hash(tensor.detach().cpu())};
  return known.number;
}

IKEBANA_INLINE ValueHash::ValueHash(KnownValues& known, std::uint64_t first)
    : known_(known), hash_(first) {
  known_.begin();
}

IKEBANA_INLINE void ValueHash::add(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  hash_ = key(hash_, value == 0 ? 0 : bits);
}

IKEBANA_INLINE void ValueHash::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  hash_ = fnv1a(hash_, text);
}

IKEBANA_INLINE void ValueLines::add(const ParameterRule& rule) {
  known_.of(rule);
  if (!rule) return line("no rule");
  const Masters& masters = known_.masters();
  for (std::size_t i = 0; i < masters.names.size(); ++i)
    named([&] { return " of " + masters.names[i]; },
          [&] { line(rule(masters.names[i], masters.whole(i)) ? "true" : "false"); });
}

IKEBANA_INLINE void ValueLines::add(const at::Tensor& tensor) {
  const std::uint64_t number = known_.of(tensor);
  if (!tensor.defined()) return line("undefined");
  line(c10::str("a tensor ", tensor.sizes(), " ", tensor.scalar_type(), " with the hash ", number));
}

IKEBANA_INLINE void ValueLines::line(std::string value) {
  for (char& c : value)
    if (c == '\n') c = ' ';
  lines_ += name_ + " = " + value + '\n';
}

}  // namespace ikebana::detail
