#pragma once
// Estimates how much memory a recipe takes, before anything is allocated.
#include <ikebana/advice/result.hpp>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/estimate/explain.hpp>
#include <ikebana/estimate/marks.hpp>
#include <ikebana/fake/fake_ledger.hpp>
#include <ikebana/trainer.hpp>
#include <typeinfo>

namespace ikebana {

/// The options of `estimate`: the rank whose memory it estimates.
struct EstimateOptions {
  /// The number of ranks, under Shard; 0: as many as the policy's process group has, or one. The
  /// ranks need not exist. Must be 0 with a batch of real tensors.
  std::int64_t ranks = 0;
  /// The rank. Rank 0 has the most rows of each parameter.
  std::int64_t rank = 0;
};

/// Returns a batch with the shapes of another one and without memory, for `estimate`.
template <class Batch>
Batch shapes(const Batch& batch) {
  Batch copy = batch;
  detail::for_each_tensor(copy, [](at::Tensor& t) {
    if (t.defined()) t = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta));
  });
  return copy;
}

namespace detail {

void check(const EstimateOptions& options);
/// Throws BadValue if `options` have several ranks: the recipe trains on one.
void refuse_ranks(const EstimateOptions& options);
[[noreturn]] void refuse_pretended_ranks();
/// Throws an error of an estimate from shapes, without LibTorch's list of frames. Its advice is a
/// batch of real tensors, which pretended ranks cannot take.
[[noreturn]] void throw_of_shapes(std::string text, bool has_ranks);
template <class Recipe>
struct with_marks;
template <class Model, class... Policies>
struct with_marks<Trainer<Model, Policies...>> {
  using type = Trainer<Model, Policies..., MarkMemory>;
};

/// Defined for the policies of several ranks by <ikebana/shard.hpp>.
template <class Policy>
struct PretendRanks;

/// Gives a policy on shard pretended ranks; other policies stay as they are.
template <class Policy>
Policy with_ranks(Policy policy, EstimateOptions options) {
  if constexpr (requires { policy.process_group; }) {
    if (options.ranks == 0 && policy.process_group)
      options = {policy.process_group->size(), policy.process_group->rank()};
    PretendRanks<Policy>::apply(policy, options.rank, std::max<std::int64_t>(options.ranks, 1));
  }
  return policy;
}

/// The policy of a recipe on shard.
template <class... Policies>
struct shard_among {
  using type = Shard<Off>;
};
template <class Policy, class... Others>
struct shard_among<Policy, Others...> : shard_among<Others...> {};
template <class How, class... Others>
struct shard_among<Shard<How>, Others...> {
  using type = Shard<How>;
};
template <class Recipe>
struct shard_of;
template <class... Policies>
struct shard_of<Composed<Policies...>> : shard_among<Policies...> {};

template <class Batch>
bool has_memory(const Batch& batch) {
  bool any_meta = false;
  for_each_tensor(batch, [&](const at::Tensor& t) { any_meta |= t.defined() && t.is_meta(); });
  return !any_meta;
}

/// Runs the trainer's own steps: the first one makes the state of optimizers, the second is read.
template <class Recipe, class Maker, class Batch, class... Values>
Estimate marked_steps(MemoryMarks& marks, Maker& maker, const Batch& batch,
                      const EstimateOptions& options, Values... values) {
  using Shards = typename shard_of<typename Recipe::Recipe>::type;
  auto run = [&](auto... all) {
    typename with_marks<Recipe>::type trainer(maker, std::move(all)..., MarkMemory{&marks});
    for (int step = 0; step < 2; ++step) trainer.step(batch);
    if constexpr (!Mechanisms<typename Recipe::Recipe>::one_rank) trainer.restore_model();
  };
  constexpr bool has_ranks = requires(Shards policy) { policy.process_group; };
  constexpr bool is_given = (std::is_same_v<Shards, Values> || ...);
  if constexpr (!has_ranks) refuse_ranks(options);
  else if (!without_values() && options.ranks > 0) refuse_pretended_ranks();
  if (!without_values()) run(std::move(values)...);
  else if constexpr (has_ranks && !is_given)
    run(std::move(values)..., with_ranks(Shards{}, options));
  else run(with_ranks(std::move(values), options)...);
  return marks.result;
}

}  // namespace detail

/// Returns the memory that training a model by `Recipe`, a Trainer, takes on each rank. The steps
/// of that trainer itself run on tensors without memory, so that everything in it is counted, also
/// a user's own policies. `maker` is a callable that returns the model. `batch` has the shapes that
/// training will have, and tensors on the meta device: `shapes(batch)`, or `at::empty(sizes,
/// at::TensorOptions(at::kMeta).dtype(...))`. The values of policies follow, as for the trainer.
/// Nothing is allocated. A model of 70 billion parameters takes less than a second, and no random
/// number is drawn.
///
/// With a batch of real tensors, the trainer is made and two of its steps are run and measured. The
/// CPU's random generator is put back afterwards. Under Shard all ranks of the trainer must call
/// it, and each measures its own memory.
///
/// On a CPU the peak was within 5 % of the measured one, and mostly equal to the byte
/// (docs/memory.md). Throws Error for an operator whose shapes are not known to LibTorch's C++ side
/// nor to this library, and for a model that reads the value of a tensor, as by `item()`. Also
/// throws what making the trainer and its steps throw.
template <class Recipe, class Maker, class Batch, class... Values>
Estimate estimate(Maker&& maker, const Batch& batch, const EstimateOptions& options,
                  Values... values) {
  detail::check(options);
  if (detail::has_memory(batch)) {
    const bridge::RestoreGenerator afterwards(at::kCPU);
    detail::MemoryMarks marks;
    Estimate measured =
        detail::marked_steps<Recipe>(marks, maker, batch, options, std::move(values)...);
    measured.is_measured = true;
    measured.between_steps += measured.batch;  // the batch existed before
    measured.peak += measured.batch;
    return measured;
  }
  bridge::FakeLedgerScope scope(std::make_shared<bridge::FakeLedger>());
  detail::MemoryMarks marks;
  Batch fake = batch;
  detail::for_each_tensor(fake, [&](at::Tensor& t) {
    if (t.defined() && t.is_meta())
      t = scope.tensors().make(t.sizes(), t.strides(), t.scalar_type(), at::kCPU);
  });
  try {
    return detail::marked_steps<Recipe>(marks, maker, fake, options, std::move(values)...);
  } catch (const c10::Error& error) {
    detail::throw_of_shapes(detail::message_of(error), options.ranks > 0);
  } catch (const Error& error) {
    if (options.ranks == 0 || typeid(error) != typeid(Error)) throw;
    detail::throw_of_shapes(error.what(), true);
  }
}
template <class Recipe, class Maker, class Batch, class... Values>
Estimate estimate(Maker&& maker, const Batch& batch, Values... values) {
  return estimate<Recipe>(maker, batch, EstimateOptions(), std::move(values)...);
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/impl/estimate.ipp>
#endif
