#pragma once
// Compares between ranks the values that the update of a step depends on: values of policies, the
// numbers that the schedule makes of them, the parameters that rules match, and the model's modes.
// In every step one hash is compared; if it differs, a text for each value tells which one does.
#include <cstring>
#include <ikebana/core/value_walk.hpp>
#include <ikebana/detail/fnv1a.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/grammar/axis_of.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/model/rule.hpp>
#include <ikebana/parameters/written_weights.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

/// Takes a line's name and value.
using AddLine = c10::function_ref<void(const std::string& name, std::string_view value)>;

/// The hash FNV-1a of the lines that it is given.
struct LinesHash {
  std::uint64_t value = fnv1a_start;
  void operator()(const std::string& name, std::string_view text);
};
/// Returns the lines that `each_line` gives, up to the first for which a policy throws because of
/// its values.
std::string text_of_lines(c10::function_ref<void(AddLine)> each_line);
/// Adds a line for each parameter: its name, shape and dtype.
void each_line_of(const Masters& masters, AddLine add);

/// Keeps hashes of what takes long to read: the parameters that rules match, and the values of
/// tensors. Each is computed again only if another rule or tensor stands at its place, or if the
/// tensor was written.
class KnownValues {
 public:
  explicit KnownValues(const Masters& masters) : masters_(&masters) {}

  const Masters& masters() const { return *masters_; }
  /// Counts the places from the beginning again.
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

/// Makes one hash of all values. Allocates only for a rule or a tensor that is new.
class ValueHash {
 public:
  ValueHash(KnownValues& known, std::uint64_t first);
  std::uint64_t number() const { return hash_; }

  /// Calls `f()`, which adds the value that has the name `name()`.
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

/// True for policies on axes that change neither what is computed nor which messages are sent, and
/// for policies of a user's own, which may hold anything: ranks compare their `describe` instead.
template <class Policy>
inline constexpr bool may_differ_by_rank = [] {
  using Axis = axis_of_t<Policy>;
  return own_policy<Policy> || std::is_same_v<Axis, axis::device> ||
         std::is_same_v<Axis, axis::observe> || std::is_same_v<Axis, axis::offload>;
}();

/// The values that this rank compares with the other ranks when a step opens.
template <bool one_rank>
class ComparedValues {
 public:
  ComparedValues(const torch::nn::Module& model, const Masters& masters)
      : known_(masters), written_(masters) {
    for (const auto& item : model.named_modules("", /*include_self=*/true))
      modules_.push_back({item.key(), item.value()});
    for (const auto& item : model.named_parameters())
      parameters_.push_back({item.key(), item.value()});
  }

  /// Returns a hash of all values. `fixed()` hashes the values that cannot change between steps,
  /// and is not called any more once ranks have compared it.
  template <class Mechanisms, class Fixed>
  std::uint64_t number(Mechanisms& mechanisms, std::int64_t step, const Fixed& fixed) {
    if (!is_fixed_) fixed_ = fixed();
    written_.look();
    ValueHash hash(known_, fixed_);
    add_all(hash, mechanisms, step);
    return hash.number();
  }
  /// Returns a line for each value.
  template <class Mechanisms>
  std::string lines(Mechanisms& mechanisms, std::int64_t step) {
    ValueLines lines(known_);
    add_all(lines, mechanisms, step);
    return std::move(lines).text();
  }
  /// Notes that ranks have compared the values of this step, and that they are equal.
  void note_equal() { is_fixed_ = is_opened_ = true; }
  /// Notes that a state was loaded, which may change all values.
  void read_again() { is_fixed_ = false; }
  void end_step() noexcept { written_.forget(), is_opened_ = false; }
  void abort() noexcept {
    if (std::exchange(is_opened_, false)) written_.skip();
  }
  WrittenWeights& written() { return written_; }

 private:
  template <class T>
  struct Named {
    std::string name;
    T value;
  };

  template <class Sink, class Mechanisms>
  void add_all(Sink& sink, Mechanisms& mechanisms, std::int64_t step) {
    mechanisms.each([&](auto& mechanism) {
      using Policy = std::decay_t<decltype(mechanism.values)>;
      if constexpr (!may_differ_by_rank<Policy> && !requires { mechanism.describe_values(); })
        sink.named([] { return type_name<Policy>(); },
                   [&] { add_value(sink, std::as_const(mechanism.values), step); });
    });
    const double base = mechanisms.optimizer.base_lr();
    sink.named([] { return std::string("the learning rate of this step"); },
               [&] { sink.add(static_cast<double>(mechanisms.schedule.rate(base, step))); });
    sink.named([] { return std::string("what the schedule makes of a momentum of 0.9"); },
               [&] { sink.add(static_cast<double>(mechanisms.schedule.momentum(0.9, step))); });
    add_modes(sink);
    if (mechanisms.shard.ranks().slices().size() == 1) add_written(sink);
  }
  /// Reads only weights that the program has written.
  template <class Sink>
  void add_written(Sink& sink) const {
    written_.each([&](const std::string& name, const at::Tensor& t, bool written) {
      sink.named([&] { return name + ", which the program wrote since the last step,"; },
                 [&] { sink.add(written); });
      if (written && !without_values())
        sink.named([&] { return "the hash of " + name + ", which was written,"; },
                   [&] { sink.add(static_cast<std::int64_t>(content_hash(t))); });
    });
  }
  template <class Sink>
  void add_modes(Sink& sink) const {
    for (const auto& module : modules_)
      sink.named([&] { return (module.name.empty() ? "model" : module.name) + "->is_training()"; },
                 [&] { sink.add(module.value->is_training()); });
    for (const auto& parameter : parameters_)
      sink.named([&] { return parameter.name + ".requires_grad()"; },
                 [&] { sink.add(parameter.value.requires_grad()); });
  }

  KnownValues known_;
  WrittenWeights written_;
  std::uint64_t fixed_ = 0;
  bool is_fixed_ = false;   // ranks have compared `fixed_`
  bool is_opened_ = false;  // ranks have compared the values of the present step
  std::vector<Named<std::shared_ptr<torch::nn::Module>>> modules_;
  std::vector<Named<at::Tensor>> parameters_;
};
template <>
class ComparedValues<true> {
 public:
  ComparedValues(const torch::nn::Module&, const Masters&) {}
  void read_again() {}
  void end_step() noexcept {}
  void abort() noexcept {}
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/compared_values.ipp>
#endif
