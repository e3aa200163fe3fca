#pragma once
// LibTorch's losses and optimizers by name, so that one in a recipe is answered with the policy
// that was likely meant.

namespace torch::nn {
class CrossEntropyLoss;
class MSELoss;
class BCEWithLogitsLoss;
class KLDivLoss;
}  // namespace torch::nn
namespace torch::optim {
class AdamW;
class Adam;
class SGD;
class Adagrad;
struct AdamWOptions;
struct AdamOptions;
struct SGDOptions;
struct AdagradOptions;
}  // namespace torch::optim
