#pragma once
// Where the values of a recipe go, by which ranks compare theirs: one number in every step, and if
// the numbers differ, a text for each value.
#include <cstring>
#include <ikebana/detail/fnv1a.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/model/rule.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

/// Numbers of what is long to read: which parameters rules match, and what tensors hold. Each is
/// computed again only when another rule or tensor stands at its place, or the tensor was written.
class KnownValues {
 public:
  explicit KnownValues(const Masters& masters) : masters_(&masters) {}

  const Masters& masters() const { return *masters_; }
  /// The places are counted from the beginning.
  void begin() { rule_ = tensor_ = 0; }
  std::uint64_t of(const ParameterRule& rule);
  std::uint64_t of(const at::Tensor& tensor);

 private:
  struct KnownRule {
    ParameterRule rule;
    std::uint64_t number = 0;
    bool is_known = false;
  };
  struct KnownTensor {
    at::Tensor tensor;
    std::optional<Version> version;
    std::uint64_t number = 0;
  };

  const Masters* masters_;
  std::vector<KnownRule> rules_;
  std::vector<KnownTensor> tensors_;
  std::size_t rule_ = 0, tensor_ = 0;
};

/// Makes one number of all values. Allocates nothing, but for a rule or a tensor that is new.
class ValueHash {
 public:
  ValueHash(KnownValues& known, std::uint64_t first);
  std::uint64_t number() const { return hash_; }

  /// Calls `f()`, which adds the value that has a name; `name()` makes it.
  template <class Name, class F>
  void named(const Name&, const F& f) {
    f();
  }
  void add(bool on) { hash_ = fnv1a(hash_, on ? 2u : 1u); }
  void add(std::int64_t value) { hash_ = key(hash_, static_cast<std::uint64_t>(value)); }
  void add(double value);
  void add(std::string_view text);
  void add(const ParameterRule& rule) { hash_ = key(hash_, known_.of(rule)); }
  void add(const at::Tensor& tensor) { hash_ = key(hash_, known_.of(tensor)); }

 private:
  KnownValues& known_;
  std::uint64_t hash_;
};

/// Makes a line `name = value` of each value.
class ValueLines {
 public:
  explicit ValueLines(KnownValues& known) : known_(known) { known_.begin(); }
  std::string text() && { return std::move(lines_); }

  template <class Name, class F>
  void named(const Name& name, const F& f) {
    const std::size_t before = name_.size();
    const std::string own = name();
    name_ += (name_.empty() || own.starts_with(' ') ? "" : ".") + own;
    f();
    name_.resize(before);
  }
  void add(bool on) { line(on ? "true" : "false"); }
  void add(std::int64_t value) { line(std::to_string(value)); }
  void add(double value) { line(exact_text(value)); }
  void add(std::string_view text) { line(std::string(text)); }
  void add(const ParameterRule& rule);
  void add(const at::Tensor& tensor);

 private:
  void line(std::string value);

  KnownValues& known_;
  std::string name_, lines_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/value_sinks.ipp>
#endif
