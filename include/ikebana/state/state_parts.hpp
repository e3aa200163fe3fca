#pragma once
// Defines the objects that are saved beside a trainer.
#include <ikebana/detail/text.hpp>
#include <ikebana/state/archive.hpp>

namespace ikebana {

/// A type that can be saved beside a trainer: any type with `state(Archive&)`.
template <class Part>
concept KeepsState = requires(Part& part, Archive& archive) { part.state(archive); };

namespace detail {

struct IgnoredParts;

}  // namespace detail

/// A list of objects that are saved beside the trainer, such as a DataLoader: any objects with
/// `state(Archive&)`. The names of a part begin with `ikebana.parts.` and its `state_name`, or the
/// name of its type if it has no `state_name`.
class StateParts {
 public:
  StateParts() = default;
  /// Refers to the parts, which must outlive it.
  template <class... Parts>
    requires(sizeof...(Parts) > 0 && (KeepsState<Parts> && ...))
  StateParts(Parts&... parts) {
    (add(parts), ...);
  }

  /// Adds a part, which must outlive it. Throws BadValue for a second part of the same name.
  template <class Part>
  void add(Part& part) {
    std::string name;
    if constexpr (requires { Part::state_name; }) name = Part::state_name;
    else name = detail::type_name<Part>();
    add(std::move(name), [&part](Archive& archive) { part.state(archive); });
  }
  /// Adds the parts of another list.
  void append(const StateParts& others);
  /// Returns whether the list is empty.
  bool empty() const { return parts_.empty(); }
  /// Saves, checks or loads the parts, each in its own section.
  void state(Archive& archive) const;
  /// Returns `ignore_parts`; removed in version 0.2.
  [[deprecated("use ignore_parts")]] static StateParts ignored();

 private:
  friend struct detail::IgnoredParts;
  using Visit = std::function<void(Archive&)>;
  void add(std::string name, Visit visit);

  std::vector<std::pair<std::string, Visit>> parts_;
  bool ignores_others_ = false;
};

namespace detail {

/// Makes a list without parts, with which the parts of a saved state are not loaded.
struct IgnoredParts {
  static StateParts make();
};

}  // namespace detail

/// `trainer.load("run/best.safetensors", ignore_parts)` loads the trainer alone, without the data's
/// position and anything else that was saved beside it.
inline const StateParts ignore_parts = detail::IgnoredParts::make();

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/state_parts.ipp>
#endif
