#pragma once
// The axes of a recipe, and the policy that each has if none is written.
#include <ikebana/grammar/vocabulary.hpp>

namespace ikebana {

/// The axes of a recipe. Each takes one policy, or declares that it takes `many`; if none is
/// written, its `default_policy` holds.
namespace axis {
struct own {};  ///< The base of an axis of your own, which is asked the hooks of `Hooks`, last.
/// The entries of a report besides the loss. Takes several policies.
struct observe {
  static constexpr bool many = true;  ///< a recipe may have several
};
/// The part of a step that is recorded once and replayed afterwards.
struct capture {
  using default_policy = Capture<Off>;  ///< none
};
/// The part that each of several ranks stores.
struct shard {
  using default_policy = Shard<Off>;  ///< one rank
};
/// The tensors that leave the device while they are not needed.
struct offload {
  using default_policy = Offload<Off>;  ///< nothing
};
/// The activations that backward computes again.
struct checkpoint {
  using default_policy = Checkpoint<Off>;  ///< none
};
/// The dtypes of the computation and of the weights.
struct precision {
  using default_policy = Precision<FP32>;  ///< the dtypes of the weights
};
/// The number of microbatches that make one update.
struct accumulate {
  using default_policy = Accumulate<1>;  ///< one
};
/// The loss that is minimised. Any callable is a policy on it.
struct objective {
  using default_policy = Without<objective>;  ///< the model's own `loss`
};
/// The changes to all gradients before the update. Takes several policies.
struct clip {
  static constexpr bool many = true;     ///< a recipe may have several
  using default_policy = Without<clip>;  ///< nothing
};
/// The rule that updates parameters.
struct optimizer {
  using default_policy = AdamW;  ///< with its default values
};
/// The learning rate of each step.
struct schedule {
  using default_policy = ConstantLR;  ///< the optimizer's lr
};
/// The weights that are evaluated.
struct average {
  using default_policy = Without<average>;  ///< the trained ones
};
/// The parameters that are not trained.
struct freeze {
  using default_policy = Freeze<Off>;  ///< none
};
/// The device on which the model computes.
struct device {
  using default_policy = Without<device>;  ///< where it is
};
/// The memory layout of tensors of four dimensions.
struct layout {
  using default_policy = Layout<Off>;  ///< as they are
};
}  // namespace axis

// These axes have a null choice of their own. The other name of each is removed in version 0.2.
template <>
struct [[deprecated("use Capture<Off>")]] Without<axis::capture> {};
template <>
struct [[deprecated("use Shard<Off>")]] Without<axis::shard> {};
template <>
struct [[deprecated("use Offload<Off>")]] Without<axis::offload> {};
template <>
struct [[deprecated("use Checkpoint<Off>")]] Without<axis::checkpoint> {};
template <>
struct [[deprecated("use Precision<FP32>")]] Without<axis::precision> {};
template <>
struct [[deprecated("use Accumulate<1>")]] Without<axis::accumulate> {};
template <>
struct [[deprecated("use ConstantLR")]] Without<axis::schedule> {};
template <>
struct [[deprecated("use Freeze<Off>")]] Without<axis::freeze> {};
template <>
struct [[deprecated("use Layout<Off>")]] Without<axis::layout> {};

}  // namespace ikebana
