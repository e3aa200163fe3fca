#pragma once
// Defines the methods of a trainer that saving and loading need, without the trainer's type.
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/state_parts.hpp>

namespace ikebana::detail {

/// True if a trainer is compiled for one rank. A trainer whose type is erased may run on several.
template <class Trainer>
inline constexpr bool runs_on_one_rank = [] {
  if constexpr (requires { Trainer::one_rank(); }) return Trainer::one_rank();
  else return false;
}();

template <class Trainer>
struct CoreOf;  // core/core.hpp

/// Returns the objective of a recipe that leaves the model's outputs out of the reports of steps,
/// and would give them with `.outputs = true`; empty if the recipe has none such.
template <class Core>
std::string objective_without_outputs(Core& core) {
  auto& objective = core.mechanisms.objective;
  if constexpr (requires { bool(objective.values.outputs); })
    if (!objective.values.outputs) return type_name<std::decay_t<decltype(objective.values)>>();
  return {};
}

/// Refers to a trainer. Each method calls the trainer's method of the same name, or a function of
/// its core. All but the first two are private there, because no program calls them.
class SavedTrainer {
 public:
  virtual std::int64_t steps() const = 0;
  virtual std::string describe() = 0;
  /// Returns what the function of this name returns for its recipe.
  virtual std::string objective_without_outputs() = 0;
  /// Returns the tensors of a state without copies: valid until the next step.
  virtual StateDict tensors(const StateParts& parts) = 0;
  /// Returns the same for a state in files, with the rows that this rank has.
  virtual RankState rank_state(const StateParts& parts) = 0;
  /// Restores a state from files on all ranks, or throws on all of them.
  virtual void restore_rows(RankState&& state, const StateParts& parts) = 0;
  /// Returns the ranks, if there are several.
  virtual std::optional<Ranks> several_ranks() = 0;
  /// Returns the rows that this rank loads of a state's tensors. It loads all rows of a tensor that
  /// is not named. Not called on one rank.
  virtual StateRows rows_to_load(StateDict names) = 0;
  /// Calls `f`, which ends in all_or_none, in a call of all ranks. Not called on one rank.
  virtual void together_or_not(const char* call, c10::function_ref<void()> f) = 0;

 protected:
  ~SavedTrainer() = default;
};

/// Returns the metadata of a saved state.
Metadata metadata_of(SavedTrainer& trainer);

/// A trainer with its type erased, as an implementation of `Base`.
template <class Trainer, class Base = SavedTrainer>
class SavedTrainerOf : public Base {
 public:
  explicit SavedTrainerOf(Trainer& trainer) : trainer_(trainer) {}
  std::int64_t steps() const final { return trainer_.steps(); }
  std::string describe() final { return trainer_.describe(); }
  std::string objective_without_outputs() final {
    if constexpr (requires { trainer_.objective_without_outputs(); })
      return trainer_.objective_without_outputs();
    else return detail::objective_without_outputs(CoreOf<Trainer>::of(trainer_));
  }
  StateDict tensors(const StateParts& parts) final { return trainer_.tensors(parts); }
  RankState rank_state(const StateParts& parts) final { return trainer_.rank_state(parts); }
  void restore_rows(RankState&& state, const StateParts& parts) final {
    trainer_.restore_rows(std::move(state), parts);
  }
  std::optional<Ranks> several_ranks() final {
    if constexpr (runs_on_one_rank<Trainer>) return std::nullopt;
    else return trainer_.several_ranks();
  }
  StateRows rows_to_load([[maybe_unused]] StateDict names) final {
    if constexpr (runs_on_one_rank<Trainer>) return {};
    else return trainer_.rows_to_load(std::move(names));
  }
  void together_or_not([[maybe_unused]] const char* call, c10::function_ref<void()> f) final {
    if constexpr (runs_on_one_rank<Trainer>) f();
    else trainer_.together_or_not(call, f);
  }

 protected:
  Trainer& trainer_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/saved_trainer.ipp>
#endif
