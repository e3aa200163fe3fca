#pragma once
// Compares between ranks the values that the update of a step depends on: values of policies, the
// numbers that the schedule makes of them, the parameters that rules match, and the model's modes.
// In every step one hash is compared; if it differs, a text for each value tells which one does.
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <ikebana/detail/fields.hpp>
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
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
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

template <class T>
inline constexpr bool is_tuple = false;
template <class... Ts>
inline constexpr bool is_tuple<std::tuple<Ts...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_variant = false;
template <class... Choices>
inline constexpr bool is_variant<std::variant<Choices...>> = true;
/// A function that returns a value decides something; only its type can be compared.
template <class T>
inline constexpr bool is_deciding_function = false;
template <class R, class... Args>
inline constexpr bool is_deciding_function<std::function<R(Args...)>> = !std::is_void_v<R>;
template <class T>
concept IsList = requires(const T& t) {
  std::size(t);
  std::begin(t);
};
/// A value that can be any schedule: only its rates can be compared.
template <class T>
concept ScheduleValue = requires(const T& t) {
  t.rate(1.0, std::int64_t());
  t.momentum(1.0, std::int64_t());
  static_cast<bool>(t);
};

/// Adds what a schedule makes of some numbers in this step, which is all that can be read of it.
template <class Sink, class T>
void add_schedule(Sink& sink, const T& value, std::int64_t step) {
  if (!value) return sink.add(std::string_view("none"));
  for (const double base : {1.0, 1e-3})
    sink.named([&] { return " makes of an lr of " + exact_text(base) + " in this step"; },
               [&] { sink.add(value.rate(base, step)); });
  sink.named([] { return " makes of a momentum of 0.9 in this step"; },
             [&] { sink.add(value.momentum(0.9, step)); });
}

template <class Sink, class T>
void add_value(Sink& sink, const T& value, std::int64_t step);

/// Adds each value within an optional, a variant, a tuple or a list, or each field of a struct.
template <class Sink, class T>
void add_parts(Sink& sink, const T& value, std::int64_t step) {
  auto each = [&](std::size_t i, const auto& one) {
    sink.named([&] { return std::to_string(i); }, [&] { add_value(sink, one, step); });
  };
  if constexpr (is_optional<T>) {
    if (value) add_value(sink, *value, step);
    else sink.add(std::string_view("left out"));
  } else if constexpr (is_variant<T>) {
    sink.add(static_cast<std::int64_t>(value.index()));
    std::visit([&](const auto& one) { add_value(sink, one, step); }, value);
  } else if constexpr (is_tuple<T>) {
    std::size_t i = 0;
    std::apply([&](const auto&... all) { (each(i++, all), ...); }, value);
  } else if constexpr (IsList<T>) {
    sink.named([] { return std::string("size()"); },
               [&] { sink.add(static_cast<std::int64_t>(std::size(value))); });
    std::size_t i = 0;
    for (const auto& one : value) each(i++, one);
  } else if constexpr (ShowsFields<T>) {
    with_fields(value, [&](const auto&... fields) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (sink.named([] { return field_name<T, I>(); }, [&] { add_value(sink, fields, step); }),
         ...);
      }(std::index_sequence_for<decltype(fields)...>());
    });
  }
}

/// Adds a value of a policy, or each value within it. Leaves out what cannot be compared: pointers,
/// paths, devices, and what a function does or has captured.
template <class Sink, class T>
void add_value(Sink& sink, const T& value, std::int64_t step) {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, ParameterRule> ||
                std::is_same_v<T, bool>) {
    sink.add(value);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    sink.add(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    sink.add(static_cast<double>(value));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    sink.add(std::string_view(value));
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return;
  } else if constexpr (is_deciding_function<T>) {
    sink.add(std::string_view(value.target_type().name()));
  } else if constexpr (ScheduleValue<T>) {
    add_schedule(sink, value, step);
  } else {
    add_parts(sink, value, step);
  }
}

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
#include <ikebana/core/impl/recipe_values.ipp>
#endif
