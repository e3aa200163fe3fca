#pragma once
// Defines the refusals of what `fit`, `evaluate` and `update_bn` are given: loaders, options and
// metrics.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana {

template <class Batch>
struct FitOptions;

namespace refuse {

// The following refuses loaders and options.

template <class Given>
struct NoBatches {
  static_assert(possible<quoted<Given> + " is no range of batches">,
                "ikebana: the first argument of fit, evaluate and update_bn is a loader: a range "
                "of batches, or a pointer to one. Write fit(loader, {.epochs = 3}), or "
                "evaluate(loader, Accuracy{}); for a single batch, std::vector{batch}.");
};
template <class Loader, class Batch>
struct OtherBatches {
  static_assert(possible<quoted<Loader> + " does not hold batches of type " + quoted<Batch>>,
                "ikebana: the batches of this loader are of another type than those that are "
                "taken: those of the training loader by `validate`, the Batch of an "
                "AnyTrainer<Batch> by its methods. Give it batches of that type; a Trainer "
                "evaluates any that its loss takes: trainer.evaluate(loader).");
};
template <class Loader>
struct TemporaryLoader {
  static_assert(possible<quoted<Loader> + " is a temporary, and would be gone before it is read">,
                "ikebana: `validate` refers to a loader, and this one ends before fit reads it. "
                "Give it a name, `auto held_out = ...;`, and write `.validate = held_out`; or give "
                "a std::unique_ptr or std::shared_ptr to it, which is kept.");
};
template <class Given, class Batch>
struct NotOptions {
  static_assert(
      possible<quoted<Given> + " does not convert to " + quoted<FitOptions<Batch>>>,
      "ikebana: fit takes a loader, and then its options. Write fit(loader, {.epochs = 3, "
      ".validate = held_out, .metrics = {Accuracy{}}}).");
};

// The following refuses metrics.

template <class Metric>
struct MetricWithoutName {
  static_assert(possible<quoted<Metric> + " has no name that is a text">,
                "ikebana: a metric has a name, by which its value is found, and this type has "
                "none, or is no metric. Write `std::string name = \"f1\";` in it.");
};
template <class Metric, class Batch>
struct MetricTakesOtherArguments {
  static_assert(possible<"the update of " + quoted<Metric> + " cannot be called with " +
                         quoted<Batch> + " and a tensor">,
                "ikebana: a metric is updated with each batch and the model's outputs for it, and "
                "this one has no `update` that takes them. Write `void update(const Batch& batch, "
                "const at::Tensor& outputs)`, or a template of the batch.");
};
template <class Metric>
struct MetricWithoutValue {
  static_assert(possible<quoted<Metric> + " has no value() that is a number">,
                "ikebana: the result of a metric is one number, and this one has no `value()` that "
                "gives it. Write `double value() const`, with .item<double>() for a tensor; a "
                "metric of several numbers has `MetricValues values() const`.");
};
template <class Batch>
struct MetricNeedsTarget {
  static_assert(possible<quoted<Batch> + " has no target that a metric finds">,
                "ikebana: a metric compares outputs with the target of a batch, which is the field "
                "`target`, `y`, `label` or `labels`, or the second of two tensors. Name the field "
                "so, or choose what is compared: OutputTransform{metric, [](const Batch& batch, "
                "const at::Tensor& outputs) { return std::pair{outputs, batch.of_mine}; }}.");
  struct Target {  // No further error follows.
    template <class T>
    operator T() const;
  };
  Target operator()(const Batch& batch) const;
};
template <class Chosen>
struct TransformReturnsNoPair {
  static_assert(possible<"the function of an OutputTransform returns " + quoted<Chosen>>,
                "ikebana: the function of an OutputTransform chooses what its metric compares, and "
                "returns both tensors. Write `return std::pair{outputs, target};`.");
};

// The following refuses loggers.

template <class Logger>
struct LogsNothing {
  static_assert(
      possible<quoted<Logger> + " has no log(event) that can be called">,
      "ikebana: a logger takes steps, validations or epochs, and this type has no method for "
      "them, or one that takes its event without `const`. Write `void log(const Report& "
      "report)`, `void log(const Validation& validation)` or `void log(const Epoch& "
      "epoch)`.");
};

}  // namespace refuse
}  // namespace ikebana
