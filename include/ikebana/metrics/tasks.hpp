#pragma once
// The tasks of classification, which say how a metric reads outputs and targets: F1Score<Binary>.
#include <cstdint>
#include <optional>

namespace ikebana {

/// The task of a metric of one class against the rest. Shapes: outputs (N, ...) or (N, ..., 1) of
/// one score each, targets (N, ...) of 0 and 1.
struct Binary {
  /// The probability above which an output is predicted positive, between 0 and 1.
  double threshold = 0.5;
  /// True if outputs are logits, as for BCEWithLogitsLoss; false: they are probabilities. It cannot
  /// be seen for certain, but reading a value throws Error if at least 32 logits all lie in [0, 1],
  /// or a probability does not.
  bool from_logits = true;
};

/// The task of a metric of several classes, of which each item has one. Shapes: outputs (N, C, ...)
/// or (N, ..., C) of one score per class, targets (N, ...) of class indices. The class with the
/// largest score is predicted, the first of several.
struct Multiclass {
  /// The dimension of the outputs that holds the classes; negative: counted from the last. If it is
  /// not given, dimension 1 or the last one is used, whichever fits the targets' shape. If both
  /// fit, `update` throws BadBatch.
  std::optional<std::int64_t> dim = {};
  /// The number of classes. 0: that of the outputs. Outputs may also be predicted classes, of an
  /// integral dtype and with the targets' shape; these need it. AUROC and AveragePrecision refuse
  /// such outputs.
  std::int64_t num_classes = 0;
  /// True if AUROC and AveragePrecision take the softmax of the outputs, as for CrossEntropyLoss.
  /// False: outputs are probabilities, of which each item's add up to 1. Reading a value throws
  /// Error if outputs are found to be the other ones. Other metrics do not need to know.
  bool from_logits = true;
};

/// The task of a metric of several labels, of which each item has any number. Shapes: outputs
/// (N, L, ...) of one score per label, targets of the same shape, of 0 and 1.
struct Multilabel {
  /// The probability above which a label is predicted, between 0 and 1.
  double threshold = 0.5;
  /// True if outputs are logits, as for Binary.
  bool from_logits = true;
};

}  // namespace ikebana
