#pragma once
// Passes a unit's master weights, and its gradients, through the hooks of a recipe's mechanisms:
// asks each hook of all of them, in order.
#include <ikebana/detail/inner_phases.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/parameters/unit_parameters.hpp>

namespace ikebana {

/// Asks each hook that parameters/ needs of the mechanisms of a recipe, one after the other.
template <class Mechanisms>
class GatherChain {
 public:
  /// True if parameters are shown in the dtypes that they had when the trainer was made.
  static constexpr bool restores_dtype =
      requires(Mechanisms m, const Unit& u, Tensors t) { m.precision.restore_dtype(u, t); };
  /// True if a mechanism can begin to gather a unit before it is needed.
  static constexpr bool gathers_ahead = Mechanisms::last_ahead(GatherOrder()) >= 0;

  /// True if master weights may be rows of the gathered parameters.
  static constexpr bool masters_in_place =
      Mechanisms::gathers_from_ranks && Mechanisms::template only_gathers<axis::shard> &&
      Mechanisms::keeps_gathered &&
      requires(Mechanisms m, const Unit& u, Tensors t) { m.shard.to_masters_in_place(u, t); };

  explicit GatherChain(Mechanisms& mechanisms) : mechanisms_(mechanisms) {}

  Tensors to_masters(const Unit& unit, Tensors t) {
    if constexpr (masters_in_place)
      return mechanisms_.shard.to_masters_in_place(unit, std::move(t));
    stages(detail::InnerPhase::Gather, detail::reversed_t<GatherOrder>(),
           [&](auto& m, int) { t = m.to_masters(unit, std::move(t)); });
    return t;
  }
  /// Begins to gather a unit that is away. If several mechanisms can begin, all but the last finish
  /// here: on a device the stream waits for them, not the host.
  void begin(UnitParameters& stored) {
    at::NoGradGuard no_grad;
    Tensors t = stored.values;
    stages(detail::InnerPhase::Gather, GatherOrder(), [&](auto& m, int stage) {
      if (stage > last_ahead) return;
      if (stage < last_ahead) t = m.gather(*stored.unit, std::move(t));
      else m.begin_gather(*stored.unit, t);
    });
    stored.arriving = std::move(t);
  }
  /// Finishes a gather that was begun, or does all of one.
  Tensors gather(UnitParameters& stored) {
    at::NoGradGuard no_grad;
    const int first = stored.is_arriving() ? last_ahead : 0;
    Tensors t = stored.is_arriving() ? std::exchange(stored.arriving, {}) : stored.values;
    if (t.empty()) return t;
    stages(detail::InnerPhase::Gather, GatherOrder(), [&](auto& m, int stage) {
      if (stage >= first) t = m.gather(*stored.unit, std::move(t));
    });
    return t;
  }
  /// Writes the present master weights to the memory that is gathered already. Returns false if
  /// that needs a `gather`, which may allocate, and throw.
  bool refresh(const UnitParameters& stored) {
    using Inner = detail::InnerPhase;
    const detail::InnerPhaseScope scope(offload_refreshes ? Inner::Offload : Inner::Gather);
    if constexpr (offload_refreshes)
      return mechanisms_.offload.refresh(*stored.unit, stored.values);
    if constexpr (refreshes) mechanisms_.precision.refresh(*stored.unit, stored.values);
    return refreshes;
  }
  /// Makes the device wait for what `refresh` writes before it computes on.
  void await_refresh([[maybe_unused]] const UnitParameters& stored) {
    if constexpr (offload_refreshes) mechanisms_.offload.await_refresh(*stored.unit);
  }
  /// Returns the parameters in the dtypes that they had when the trainer was made, with the present
  /// values. They may be the master weights themselves. Precision restores instead of casting.
  Tensors full(UnitParameters& stored) {
    if constexpr (!restores_dtype) {
      return gather(stored);
    } else {
      at::NoGradGuard no_grad;
      const Unit& unit = *stored.unit;
      Tensors t = stored.values;
      if (t.empty()) return t;
      stages(detail::InnerPhase::Gather, GatherOrder(), [&](auto& m, int) {
        if constexpr (requires { m.restore_dtype(unit, t); })
          t = m.restore_dtype(unit, std::move(t));
        else t = m.gather(unit, std::move(t));
      });
      return t;
    }
  }
  /// Turns gradients of gathered parameters into gradients of master weights.
  Tensors reduce(const Unit& unit, Tensors t) {
    at::NoGradGuard no_grad;
    if constexpr (!Mechanisms::one_rank)
      if (drops_gradients_) t.assign(t.size(), at::Tensor());
    stages(detail::InnerPhase::Reduce, detail::reversed_t<GatherOrder>(),
           [&](auto& m, int) { t = m.reduce(unit, std::move(t)); });
    return t;
  }
  /// Returns a guard. While it exists, `reduce` is given undefined gradients in place of the
  /// gradients that arrive.
  auto without_gradients() {
    drops_gradients_ = true;
    auto take_again = [](bool* drops) { *drops = false; };
    return std::unique_ptr<bool, decltype(take_again)>(&drops_gradients_, take_again);
  }

  /// Tells Shard in which dtypes Precision promises to sum gradients.
  void set_reduce_dtypes(const Unit& unit) {
    DTypes types;
    for (const at::Tensor& p : unit.parameters)
      types.push_back(mechanisms_.precision.reduce_dtype(p.scalar_type()));
    mechanisms_.shard.set_reduce_dtypes(unit, types);
  }

  /// Returns true if a policy that moves parameters has `allow_unused_units` set.
  bool allows_unused_units() {
    bool allowed = false;
    mechanisms_.each(GatherOrder(), [&](auto& m) {
      if constexpr (requires { m.values.allow_unused_units; })
        allowed = allowed || m.values.allow_unused_units;
    });
    return allowed;
  }
  /// Returns a sentence on how a user sets it, or an empty text if no policy has it.
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
      Mechanisms::template only_gathers<axis::precision> &&
      requires(Mechanisms m, const Unit& u, const Tensors& t) { m.precision.refresh(u, t); };
  static constexpr bool offload_refreshes =
      Mechanisms::template only_gathers<axis::offload> &&
      requires(Mechanisms m, const Unit& u, const Tensors& t) { m.offload.refresh(u, t); };
  static constexpr int last_ahead = Mechanisms::last_ahead(GatherOrder());

  /// Calls `f(mechanism, stage)` for each mechanism that moves parameters. The work is of `phase`,
  /// or Offload's.
  template <class... Axes, class F>
  void stages(detail::InnerPhase phase, AxisList<Axes...>, F&& f) {
    int stage = 0;
    auto ask = [&](auto& mechanism, bool offloads) {
      if constexpr (std::decay_t<decltype(mechanism)>::moves_parameters) {
        const detail::InnerPhaseScope scope(offloads ? detail::InnerPhase::Offload : phase);
        f(mechanism, stage);
      }
      ++stage;
    };
    (ask(mechanisms_.on(std::type_identity<Axes>()), std::is_same_v<Axes, axis::offload>), ...);
  }
  Mechanisms& mechanisms_;
  bool drops_gradients_ = false;  // during the backward of a dummy
};

}  // namespace ikebana
