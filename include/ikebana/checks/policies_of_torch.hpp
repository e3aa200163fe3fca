#pragma once
// Names LibTorch's losses, optimizers and schedules, so that one in a recipe is answered with the
// policy that was likely meant. Also names its types of devices and dtypes, and its module of
// TorchScript, which is not a model that can be trained here.
#include <cstdint>

namespace torch::nn {
class CrossEntropyLoss;
class MSELoss;
class BCEWithLogitsLoss;
class KLDivLoss;
class NLLLoss;
class L1Loss;
class SmoothL1Loss;
class HuberLoss;
class PoissonNLLLoss;
class BCELoss;
class CTCLoss;
class TripletMarginLoss;
class CosineEmbeddingLoss;
class HingeEmbeddingLoss;
class MarginRankingLoss;
class MultiMarginLoss;
class MultiLabelMarginLoss;
class MultiLabelSoftMarginLoss;
class SoftMarginLoss;
class TripletMarginWithDistanceLoss;
}  // namespace torch::nn
namespace torch::optim {
class AdamW;
class Adam;
class SGD;
class Adagrad;
class RMSprop;
class LBFGS;
class StepLR;
class ReduceLROnPlateauScheduler;
struct AdamWOptions;
struct AdamOptions;
struct SGDOptions;
struct AdagradOptions;
struct RMSpropOptions;
}  // namespace torch::optim
namespace torch::jit {
struct Module;
}  // namespace torch::jit
namespace c10 {
enum class DeviceType : std::int8_t;
struct Device;
enum class ScalarType : std::int8_t;
}  // namespace c10
