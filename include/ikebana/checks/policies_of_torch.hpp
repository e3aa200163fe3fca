#pragma once
// LibTorch's losses and optimizers by name, so that one in a recipe is answered with the policy
// that was likely meant, and its module of TorchScript, which is no model that can be trained here.

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
}  // namespace torch::nn
namespace torch::optim {
class AdamW;
class Adam;
class SGD;
class Adagrad;
class RMSprop;
struct AdamWOptions;
struct AdamOptions;
struct SGDOptions;
struct AdagradOptions;
struct RMSpropOptions;
}  // namespace torch::optim
namespace torch::jit {
struct Module;
}  // namespace torch::jit
