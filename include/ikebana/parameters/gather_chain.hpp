#pragma once
// What the mechanisms of a recipe make of a unit's master weights and of its gradients: each hook
// asked of all of them, in order.
#include <ikebana/detail/text.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/parameters/unit_parameters.hpp>

namespace ikebana {

/// The hooks of parameters/, each asked of the mechanisms of a recipe one after the other.
template <class Mechanisms>
class GatherChain {
 public:
  /// True where parameters are shown in the dtypes that they had when the trainer was made.
  static constexpr bool restores_dtype =
      requires(Mechanisms m, const Unit& u, Tensors t) { m.precision.restore_dtype(u, t); };

  explicit GatherChain(Mechanisms& mechanisms) : mechanisms_(mechanisms) {}

  Tensors to_masters(const Unit& unit, Tensors t) {
    mechanisms_.each(detail::reversed_t<StorageOrder>(),
                     [&](auto& m) { t = m.to_masters(unit, std::move(t)); });
    return t;
  }
  Tensors gather(const UnitParameters& stored) {
    at::NoGradGuard no_grad;
    Tensors t = stored.values;
    if (t.empty()) return t;
    mechanisms_.each(GatherOrder(), [&](auto& m) { t = m.gather(*stored.unit, std::move(t)); });
    return stored.without_aliases(std::move(t));
  }
  /// Writes the present master weights to the memory that is gathered already. False where that
  /// needs a `gather`, which allocates.
  bool refresh(const UnitParameters& stored) {
    if constexpr (refreshes) mechanisms_.precision.refresh(*stored.unit, stored.values);
    return refreshes;
  }
  /// Parameters of the dtypes that they had when the trainer was made, with the present values.
  /// They may be the master weights themselves. Precision restores instead of casting, and nothing
  /// is quantized.
  Tensors full(const UnitParameters& stored) {
    if constexpr (!restores_dtype) {
      return gather(stored);
    } else {
      at::NoGradGuard no_grad;
      const Unit& unit = *stored.unit;
      Tensors t = stored.values;
      if (t.empty()) return t;
      mechanisms_.each(StorageOrder(), [&](auto& m) {
        if constexpr (requires { m.restore_dtype(unit, t); })
          t = m.restore_dtype(unit, std::move(t));
        else t = m.gather(unit, std::move(t));
      });
      return mechanisms_.prune.gather(unit, std::move(t));
    }
  }
  Tensors reduce(const Unit& unit, Tensors t) {
    at::NoGradGuard no_grad;
    mechanisms_.each(detail::reversed_t<GatherOrder>(),
                     [&](auto& m) { t = m.reduce(unit, std::move(t)); });
    return t;
  }

  /// Whether a policy that moves parameters has `allow_unused_units` set.
  bool allows_unused_units() {
    bool allowed = false;
    mechanisms_.each(GatherOrder(), [&](auto& m) {
      if constexpr (requires { m.values.allow_unused_units; })
        allowed = allowed || m.values.allow_unused_units;
    });
    return allowed;
  }
  /// How a user sets it; empty where no policy has it.
  std::string how_to_allow_unused_units() {
    std::string text;
    mechanisms_.each(GatherOrder(), [&](auto& m) {
      if constexpr (requires { m.values.allow_unused_units; })
        text = " If some steps leave a unit out, write " +
               detail::type_name<std::decay_t<decltype(m.values)>>() +
               "{.allow_unused_units = true}.";
    });
    return text;
  }

 private:
  static constexpr bool refreshes =
      Mechanisms::only_precision_gathers &&
      requires(Mechanisms m, const Unit& u, const Tensors& t) { m.precision.refresh(u, t); };

  Mechanisms& mechanisms_;
};

}  // namespace ikebana
