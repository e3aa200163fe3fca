#pragma once
#include <cstring>
#include <ikebana/capture/recording.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/text.hpp>
#include <unordered_set>

namespace ikebana::detail {

IKEBANA_INLINE std::string RecordedOperator::name() const {
  if (kind == Kind::CapturesRandom) return "generator.capture";
  if (kind == Kind::RestoresRandom) return "generator.restore";
  return name_of(*op);
}

IKEBANA_INLINE bool writes_argument(const c10::FunctionSchema& schema, std::size_t i) {
  const auto* alias = schema.arguments()[i].alias_info();
  return alias != nullptr && alias->isWrite();
}

IKEBANA_INLINE bool writes_unsaid(const std::string& name) {
  return name.find("batch_norm") != std::string::npos && name.find("backward") == std::string::npos;
}

template <class T>
bool same_bits_of(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

IKEBANA_INLINE bool same_plain(const c10::IValue& a, const c10::IValue& b) {
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isDouble()) return same_bits_of(a.toDouble(), b.toDouble());
  if (a.isInt()) return a.toInt() == b.toInt();
  if (a.isBool()) return a.toBool() == b.toBool();
  if (a.isNone()) return true;
  if (a.isString()) return a.toStringRef() == b.toStringRef();
  if (a.isDevice()) return a.toDevice() == b.toDevice();
  if (a.isGenerator()) return a.toGenerator() == b.toGenerator();
  if (a.isComplexDouble()) return same_bits_of(a.toComplexDouble(), b.toComplexDouble());
  if (a.isList()) {
    const auto x = a.toListRef(), y = b.toListRef();
    return x.size() == y.size() &&
           std::equal(x.begin(), x.end(), y.begin(),
                      [](const auto& p, const auto& q) { return same_plain(p, q); });
  }
  return c10::str(a) == c10::str(b);
}

IKEBANA_INLINE bool same_part(const RecordedTensor& a, const RecordedTensor& b) {
  return a.defined() == b.defined() && a.identity == b.identity && a.dtype == b.dtype &&
         a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset &&
         a.is_wrapped_number == b.is_wrapped_number && a.number == b.number &&
         a.is_conjugate == b.is_conjugate && a.is_negative == b.is_negative;
}

IKEBANA_INLINE std::string number_text(const RecordedTensor& t) {
  double number;
  std::memcpy(&number, &t.number, sizeof number);
  return exact_text(number);
}

inline std::string shape_text(const RecordedTensor& t) {
  return t.defined() ? c10::str(t.dtype, at::IntArrayRef(t.sizes)) : std::string("undefined");
}

inline std::string difference(const std::string& of, const RecordedValue& a,
                              const RecordedValue& b) {
  if (a.form != b.form || a.tensors.size() != b.tensors.size()) return of + " has another form";
  if (a.form == RecordedValue::Form::Plain)
    return same_plain(a.plain, b.plain)
               ? std::string()
               : of + " was " + c10::str(a.plain) + " and is " + c10::str(b.plain);
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const RecordedTensor &x = a.tensors[i], &y = b.tensors[i];
    if (same_part(x, y)) continue;
    if (x.is_wrapped_number && y.is_wrapped_number)
      return of + " was " + number_text(x) + " and is " + number_text(y);
    if (x.dtype != y.dtype || x.sizes != y.sizes || x.defined() != y.defined())
      return of + " was " + shape_text(x) + " and is " + shape_text(y);
    return of + " is another tensor than before";
  }
  return {};
}

IKEBANA_INLINE std::string difference(const RecordedOperator& before, const RecordedOperator& now) {
  if (before.kind != now.kind || before.name() != now.name())
    return "`" + now.name() + "` is called where the step before called `" + before.name() + "`";
  for (std::size_t i = 0; i < now.arguments.size(); ++i) {
    const std::string of =
        "its argument `" + (now.op ? now.op->schema().arguments()[i].name() : "") + "`";
    if (auto text = difference(of, before.arguments[i], now.arguments[i]); !text.empty())
      return text;
  }
  for (std::size_t i = 0; i < now.results.size(); ++i)
    if (auto text = difference("its result", before.results[i], now.results[i]); !text.empty())
      return text;
  return {};
}

IKEBANA_INLINE void find_live_operators(Recording& recording) {
  std::vector<bool> is_read(recording.memory.size());
  for (std::size_t i = 0; i < is_read.size(); ++i) {
    const RecordedMemory& memory = recording.memory[i];
    is_read[i] = memory.outlives || memory.use != MemoryUse::Made;
  }
  for (std::size_t k = recording.operators.size(); k-- > 0;) {
    RecordedOperator& one = recording.operators[k];
    if (one.kind != RecordedOperator::Kind::Computes) continue;
    bool is_live = one.op->hasTag(at::Tag::nondeterministic_seeded) || writes_unsaid(one.name()) ||
                   one.op->schema().returns().empty();  // it checks something
    each_defined(one.results, [&](const RecordedTensor& t) { is_live |= is_read[t.memory]; });
    for (std::size_t i = 0; i < one.arguments.size(); ++i)
      if (writes_argument(one.op->schema(), i))
        for (const RecordedTensor& t : one.arguments[i].tensors)
          is_live |= t.defined() && is_read[t.memory];
    one.is_live = is_live;
    if (is_live)
      each_defined(one.arguments, [&](const RecordedTensor& t) { is_read[t.memory] = true; });
  }
}

IKEBANA_INLINE std::vector<std::size_t> called_operators(const Recording& recording) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < recording.operators.size(); ++i) {
    const RecordedOperator& one = recording.operators[i];
    const bool computes = one.kind == RecordedOperator::Kind::Computes && one.is_live;
    if (computes || one.generator) all.push_back(i);
  }
  return all;
}

IKEBANA_INLINE std::vector<at::Tensor> written_of(const Recording& recording,
                                                  const std::vector<at::Tensor>& tensors) {
  std::unordered_set<StorageKey> written;
  for (const std::size_t k : called_operators(recording)) {
    const RecordedOperator& one = recording.operators[k];
    if (one.generator) continue;
    const bool writes_all = writes_unsaid(one.name());
    for (std::size_t i = 0; i < one.arguments.size(); ++i)
      if (writes_all || writes_argument(one.op->schema(), i))
        for (const RecordedTensor& t : one.arguments[i].tensors)
          if (t.defined())
            written.insert(recording.memory[t.memory].storage.unsafeGetStorageImpl());
  }
  std::vector<at::Tensor> found;
  for (const at::Tensor& t : tensors)
    if (t.defined() && t.has_storage() && written.contains(key_of(t))) found.push_back(t);
  return found;
}

}  // namespace ikebana::detail
