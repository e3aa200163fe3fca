#pragma once
#include <cstdio>
#include <ikebana/capture/tape_text.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>

namespace ikebana::detail {

/// Memory without a name is numbered in the order in which it is written.
IKEBANA_INLINE TapeText::TapeText(const Recording& recording)
    : recording_(recording), operators_(called_operators(recording)) {
  std::uint32_t next = 0;
  numbers_.resize(recording_.memory.size());
  for (const std::size_t k : operators_) {
    const RecordedOperator& one = recording_.operators[k];
    auto number = [&](const RecordedTensor& t) {
      std::uint32_t& known = numbers_[t.memory];
      if (known == 0 && recording_.memory[t.memory].name.empty()) known = ++next;
    };
    each_defined(one.arguments, number), each_defined(one.results, number);
  }
}

IKEBANA_INLINE std::string TapeText::text_of(const RecordedTensor& t) const {
  if (!t.defined()) return "none";
  const RecordedMemory& memory = recording_.memory[t.memory];
  if (t.is_wrapped_number) return number_text(t);
  std::string text = memory.name.empty() ? "%" + std::to_string(numbers_[t.memory]) : memory.name;
  std::vector<std::int64_t> dense(t.sizes.size(), 1);
  for (std::size_t i = dense.size(); i-- > 1;)
    dense[i - 1] = dense[i] * std::max<std::int64_t>(t.sizes[i], 1);
  const bool is_dense = std::equal(dense.begin(), dense.end(), t.strides.begin());
  if (t.offset != 0) text += "+" + std::to_string(t.offset);
  if (!is_dense && t.sizes.size() == 2 && t.strides[0] == 1) text += ".t";
  else if (!is_dense) text += c10::str(".strided", at::IntArrayRef(t.strides));
  return text;
}

/// Returns a value without tensors, as a program would write it.
inline std::string text_of(const c10::IValue& value, const std::string& argument) {
  if (value.isNone()) return "none";
  if (value.isDouble()) return exact_text(value.toDouble());
  if (value.isInt() && argument == "dtype")
    return c10::toString(static_cast<at::ScalarType>(value.toInt()));
  return c10::str(value);
}

IKEBANA_INLINE std::string TapeText::text_of(const RecordedValue& value,
                                             const std::string& argument) const {
  if (value.form == RecordedValue::Form::Plain) return detail::text_of(value.plain, argument);
  if (value.form == RecordedValue::Form::Tensor) return text_of(value.tensors[0]);
  std::string text = "[";
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < value.tensors.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + text_of(value.tensors[i]);
  if (value.tensors.size() > most)
    text += ", and " + std::to_string(value.tensors.size() - most) + " more";
  return text + "]";
}

IKEBANA_INLINE std::string TapeText::line_of(const RecordedOperator& one) const {
  std::string results, arguments, shapes;
  for (const RecordedValue& value : one.results) {
    if (one.op->schema().is_mutable()) break;
    results += (results.empty() ? "" : ", ") + text_of(value, {});
    for (const RecordedTensor& t : value.tensors)
      if (t.defined()) shapes += " " + c10::str(t.dtype, at::IntArrayRef(t.sizes));
  }
  // Arguments at the end that have their default value say nothing.
  std::size_t last = one.arguments.size();
  auto is_default = [&](std::size_t i) {
    const auto& value = one.op->schema().arguments()[i].default_value();
    return one.arguments[i].form == RecordedValue::Form::Plain && value &&
           same_plain(*value, one.arguments[i].plain);
  };
  while (last > 0 && is_default(last - 1)) --last;
  for (std::size_t i = 0; i < last; ++i)
    arguments +=
        (i == 0 ? "" : ", ") + text_of(one.arguments[i], one.op->schema().arguments()[i].name());
  std::string name = one.name();
  if (name.starts_with("aten::")) name = name.substr(6);
  return (results.empty() ? "" : results + " = ") + name + "(" + arguments + ")" +
         (shapes.empty() ? "" : "  #" + shapes);
}

IKEBANA_INLINE std::string TapeText::text(const std::string& where,
                                          const std::vector<double>& microseconds) const {
  std::string all = std::to_string(operators_.size()) + " operators, in " + where + "\n";
  std::string unit;
  Phase phase = Phase::Data;
  for (std::size_t k = 0; k < operators_.size(); ++k) {
    const RecordedOperator& one = recording_.operators[operators_[k]];
    const bool begins = one.phase != phase;
    if (begins) phase = one.phase, all += std::string(phase_name(phase)) + "\n", unit.clear();
    if (phase == Phase::Forward && one.unit != unit) {
      unit = one.unit;
      all += "  " + (unit.empty() ? std::string("outside of units") : unit) + "\n";
    }
    char time[32] = "";
    if (k < microseconds.size()) std::snprintf(time, sizeof time, "%8.1f us", microseconds[k]);
    all += right(time, 11) + "    " + line_of(one) + "\n";
  }
  return all;
}

}  // namespace ikebana::detail
