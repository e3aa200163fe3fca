#pragma once
// Defines the common part of parameters whose master weights are stored apart: the units with their
// masters, the order in which they are run, and the operations on all of them.
#include <cstdint>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/model.hpp>
#include <ikebana/parameters/gather_chain.hpp>
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/prefetch_order.hpp>
#include <ikebana/parameters/written_weights.hpp>
#include <optional>
#include <vector>

namespace ikebana {

namespace detail {

/// Throws BadModel if a leaf of the loss's graph, which is no master weight, is a parameter of this
/// unit.
void refuse_use_outside_run(const Unit& unit, const at::Tensor& leaf);

[[noreturn]] void refuse_unused(const Unit& unit, const std::string& how_to_allow);

}  // namespace detail

/// The base of `KeptParameters` and `GatheredParameters`. Parameters keep their identity.
template <class Mechanisms>
class StoredParameters {
 public:
  StoredParameters(const StoredParameters&) = delete;
  StoredParameters& operator=(const StoredParameters&) = delete;

  const Masters& masters() const { return masters_; }
  void begin_step() noexcept {
    order_.begin_step();
    for (auto& stored : units_) stored.was_run = false;
  }
  /// Throws BadModel for a unit that is to be trained and that no microbatch has run.
  void check_all_were_run() {
    for (const auto& stored : units_)
      if (!stored.was_run && !stored.unit->is_root() && stored.requires_grad() &&
          !chain_.allows_unused_units())
        detail::refuse_unused(*stored.unit, chain_.how_to_allow_unused_units());
  }
  /// Returns the bytes of units that are being gathered ahead, which no parameter shows yet. Units
  /// that arrive in the memory of master weights are not counted.
  std::int64_t arriving_bytes() const {
    std::int64_t bytes = 0;
    if constexpr (GatherChain<Mechanisms>::masters_in_place) return bytes;
    for (const auto& stored : units_)
      if (stored.is_arriving())
        for (const auto& p : stored.unit->parameters)
          bytes += static_cast<std::int64_t>(p.nbytes());
    return bytes;
  }
  /// Throws BadModel if something was done to a parameter that its master weight does not see.
  void check() {
    for (auto& stored : units_) stored.check();
  }
  /// Is called when the trainer is made: from then on this rank has slices alone.
  void forget_originals() noexcept { originals_.clear(); }
  /// Is called when the trainer ends. Gathers the parameters that are cut, and keeps them whole.
  /// All ranks call it.
  void keep_full() {
    if constexpr (Mechanisms::gathers_from_ranks) {
      std::vector<Tensors> whole;
      for (auto& stored : units_)
        whole.push_back(stored.without_aliases(detail::detached(chain_.full(stored))));
      originals_ = std::move(whole);
    }
  }
  /// Returns a hash of the order in which this step ran the units, or 0 if ranks may differ in it.
  std::uint64_t order_of_units() const {
    return Mechanisms::gathers_from_ranks ? order_.of_step() : 0;
  }

 protected:
  /// Makes the master weights, and releases the parameters, unit by unit.
  StoredParameters(Mechanisms& mechanisms, const UnitTable& table)
      : self_(std::make_shared<StoredParameters*>(this)),
        mechanisms_(mechanisms),
        chain_(mechanisms) {
    at::NoGradGuard no_grad;
    try {
      for (const Unit& unit : table.units()) add(unit);
      masters_.rounding = mechanisms.precision.rounding();
      masters_.storage = mechanisms.offload.state_storage();
      masters_.gradient_storage = mechanisms.offload.gradient_storage();
      if constexpr (Mechanisms::gathers_from_ranks)
        if (RankGroup& slices = mechanisms.shard.ranks().slices(); slices.size() > 1)
          masters_.ranks = &slices;
      leaves_.set_masters(masters_.values);
    } catch (...) {
      restore_all();
      throw;
    }
  }
  ~StoredParameters() { restore_all(); }

  /// Runs autograd. Throws BadModel if a leaf of the graph is one of the parameters: it was used
  /// outside of `run`.
  template <class Others>
  void run_backward(const Roots& roots, const Others& others) {
    check();
    leaves_.backward(roots, NoneOutside<Others>{units_, others});
  }
  void detach_from_graph() noexcept {
    for (auto& stored : units_) stored.detach_from_graph();
  }
  void archive_masters(Archive& archive) {
    archive.begin_model();
    for (auto& stored : units_)
      for (std::size_t i = 0; i < stored.masters.size(); ++i)
        archive.rows_of(stored.slices[i],
                        [&] { archive.tensor(stored.unit->names[i], stored.masters[i]); });
    if constexpr (Mechanisms::gathers_from_ranks)
      if (!archive.notes_rows()) archive_slices(archive);
  }
  /// Calls `f` while every unit is here, in the dtypes that it had before the trainer. Stores what
  /// `f` writes to a parameter in its master weight.
  template <class F>
  decltype(auto) with_full(F&& f) {
    if constexpr (GatherChain<Mechanisms>::restores_dtype)
      for (auto& stored : units_) stored.expose(chain_.full(stored));
    for (auto& stored : units_) stored.note_versions();
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      meet(), store_written();
    } else {
      decltype(auto) result = f();
      meet(), store_written();
      return result;
    }
  }
  static StoredParameters& lock(const std::weak_ptr<StoredParameters*>& weak) {
    if (auto self = weak.lock()) return **self;
    throw BadModel(
        "backward: it ran after the trainer was destroyed, and the trainer stores the parameters "
        "it needs. Keep the trainer at least as long as the graph.");
  }

  std::shared_ptr<StoredParameters*> self_;  // graphs hold it weakly
  Mechanisms& mechanisms_;
  GatherChain<Mechanisms> chain_;
  std::deque<UnitParameters> units_;
  Masters masters_;
  Leaves leaves_;
  UnitOrder order_;

 private:
  /// Checks each leaf of a graph: first whether it is a parameter.
  template <class Others>
  struct NoneOutside {
    const std::deque<UnitParameters>& units;
    const Others& others;

    void operator()(const at::Tensor& leaf) const {
      for (const auto& stored : units) detail::refuse_use_outside_run(*stored.unit, leaf);
      others(leaf);
    }
    void end_walk() const { others.end_walk(); }
  };
  std::vector<Tensors> originals_;  // the originals of each unit, if parameters are cut among ranks

  void add(const Unit& unit) {
    auto& stored = units_.emplace_back(unit);
    stored.masters_in_place = GatherChain<Mechanisms>::masters_in_place;
    if constexpr (Mechanisms::gathers_from_ranks)
      originals_.push_back(detail::detached(unit.parameters));
    if (unit.parameters.empty()) return;
    for (std::size_t i = 0; Mechanisms::gathers_from_ranks && i < unit.names.size(); ++i)
      if (unit.parameters[i].dim() == 0)
        throw BadModel("trainer: `" + unit.names[i] +
                       "` has no dimension, so that it cannot be cut into rows for several ranks. "
                       "Give it the shape {1}.");
    chain_.set_reduce_dtypes(unit);
    stored.set_masters(chain_.to_masters(unit, mechanisms_.shard.full_parameters(unit)),
                       [&](std::size_t i, std::int64_t count) {
                         return mechanisms_.shard.stored_rows(unit, i, count);
                       });
    for (std::size_t i = 0; i < stored.masters.size(); ++i)
      if (stored.masters[i].requires_grad())
        masters_.add(unit.names[i], stored.masters[i], stored.slices[i], unit.other_names[i]);
    stored.release();
  }
  /// Stores what was written, on all ranks or on none; it must be equal on all. Gathers again from
  /// the master weights what is not stored.
  void meet() {
    if constexpr (Mechanisms::gathers_from_ranks) {
      try {
        detail::compare_written(mechanisms_.shard.ranks().data(), "the end of with_full_weights",
                                [&](const auto& f) {
                                  for (auto& stored : units_)
                                    for (std::size_t i = 0; i < stored.unit->names.size(); ++i)
                                      if (stored.was_written(i))
                                        f(stored.unit->names[i], stored.unit->parameters[i]);
                                });
      } catch (...) {
        for (auto& stored : units_) stored.note_versions();
        throw;
      }
    }
  }
  void store_written() {
    at::NoGradGuard no_grad;
    for (auto& stored : units_) {
      if (!stored.was_written()) continue;
      const Tensors now =
          chain_.to_masters(*stored.unit, detail::detached(stored.unit->parameters));
      for (std::size_t i = 0; i < now.size(); ++i)
        if (stored.was_written(i) && !detail::same_storage(now[i], stored.values[i]))
          stored.values[i].copy_(now[i]);
      stored.note_versions();
    }
  }
  /// Archives the rows of each master: a state in memory fits only the rank that it comes from.
  void archive_slices(Archive& archive) {
    archive.begin_section("slices");
    for (auto& stored : units_)
      for (std::size_t i = 0; i < stored.masters.size(); ++i)
        archive.within(stored.unit->names[i], [&] {
          const Slice& slice = stored.slices[i];
          archive.constant("first_row", slice.rows.first);
          archive.constant("rows", slice.rows.count);
          archive.constant("all_rows", slice.sizes.empty() ? 1 : slice.sizes[0]);
        });
  }
  /// Makes all parameters plain leaves again with their present values, as before the trainer.
  /// Parameters that are cut among ranks keep what they show, which is nothing if they are away:
  /// all ranks would have to gather them, and a destructor must not wait for others.
  void restore_all() noexcept {
    self_.reset();
    if (Mechanisms::gathers_from_ranks && originals_.empty()) warn_of_empty();
    for (auto& stored : units_) {
      stored.detach_from_graph();
      const bool is_shown = stored.users > 0 && !stored.is_stale;
      try {
        if (Mechanisms::gathers_from_ranks)
          stored.restore(originals_.empty() ? Tensors() : originals_[stored.unit->index]);
        else if (is_shown && !GatherChain<Mechanisms>::restores_dtype)
          chain_.await_refresh(stored), stored.restore({});
        else stored.restore(chain_.full(stored));
      } catch (...) {
        warn_not_restored(*stored.unit);
      }
    }
  }
  /// Warns of parameters without values, if other code has the model, too.
  void warn_of_empty() const noexcept {
    if (units_.empty() || std::uncaught_exceptions() > 0) return;
    if (units_[0].unit->module->weak_from_this().use_count() < 3) return;  // ours
    try {
      TORCH_WARN_ONCE(
          "ikebana: a trainer whose parameters are cut among ranks has ended, and those "
          "of its model have no values now. Call trainer.restore_model() on all ranks before.");
    } catch (...) {  // there is no memory for the text
    }
  }
  static void warn_not_restored(const Unit& unit) noexcept {
    try {
      TORCH_WARN("ikebana: the parameters of `", unit.name, "` could not be restored, since ",
                 "memory ended: they are ",
                 Mechanisms::keeps_gathered ? "in a lower precision." : "without values.");
    } catch (...) {  // there is no memory for the text either
    }
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/stored_parameters.ipp>
#endif
