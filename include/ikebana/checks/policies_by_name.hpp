#pragma once
// Decides which types are policies, and which policy another type was likely meant to be.
#include <cstdint>
#include <ikebana/grammar/compose.hpp>
#include <ikebana/grammar/diagnosis.hpp>

// LibTorch's losses, optimizers and schedules, so that one in a recipe is answered with the policy
// that was likely meant; its types of devices and dtypes; and its module of TorchScript, which is
// no model that can be trained here.
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

namespace ikebana::refuse {

template <class Type>
concept policy = !std::is_void_v<axis_of_t<Type>>;
template <class Type, class List>
inline constexpr bool is_one_of = false;
template <class Type, class... Axes>
inline constexpr bool is_one_of<Type, AxisList<Axes...>> = (std::is_same_v<Type, Axes> || ...);
template <class Type>
concept known_axis = is_one_of<Type, WrappingOrder> || own_axis<Type>;
template <class Policy>
concept listed = detail::declared_axis<Policy>::template takes<Policy>;

// The policy that was likely meant; void if no policy or several could be meant.
template <class Written>
struct nearest {
  using type = void;
};
// clang-format off
template <class W> requires listed<Precision<W>>
struct nearest<W> { using type = Precision<W>; };
template <class W> requires(listed<Checkpoint<W>> && !std::is_same_v<W, Off>)
struct nearest<W> { using type = Checkpoint<W>; };
template <class W> requires listed<Observe<W>>
struct nearest<W> { using type = Observe<W>; };
template <class W> requires(listed<Shard<W>> && !std::is_same_v<W, Off>)
struct nearest<W> { using type = Shard<W>; };
template <> struct nearest<torch::optim::AdamW> { using type = AdamW; };
template <> struct nearest<torch::optim::Adam> { using type = Adam; };
template <> struct nearest<torch::optim::SGD> { using type = SGD; };
template <> struct nearest<torch::optim::Adagrad> { using type = Adagrad; };
template <> struct nearest<torch::optim::RMSprop> { using type = RMSprop; };
template <> struct nearest<torch::optim::AdamWOptions> { using type = AdamW; };
template <> struct nearest<torch::optim::AdamOptions> { using type = Adam; };
template <> struct nearest<torch::optim::SGDOptions> { using type = SGD; };
template <> struct nearest<torch::optim::AdagradOptions> { using type = Adagrad; };
template <> struct nearest<torch::optim::RMSpropOptions> { using type = RMSprop; };
template <> struct nearest<torch::optim::StepLR> { using type = StepLR; };
template <> struct nearest<torch::optim::ReduceLROnPlateauScheduler> {
  using type = ReduceLROnPlateau;
};
template <> struct nearest<c10::DeviceType> { using type = On; };
template <> struct nearest<c10::Device> { using type = On; };
template <> struct nearest<c10::ScalarType> { using type = Precision<BF16>; };
template <> struct nearest<torch::nn::CrossEntropyLoss> { using type = CrossEntropyLoss; };
template <> struct nearest<torch::nn::MSELoss> { using type = MSELoss; };
template <> struct nearest<torch::nn::BCEWithLogitsLoss> { using type = BCEWithLogitsLoss; };
template <> struct nearest<torch::nn::KLDivLoss> { using type = KLDivLoss; };
template <> struct nearest<torch::nn::NLLLoss> { using type = NLLLoss; };
template <> struct nearest<torch::nn::L1Loss> { using type = L1Loss; };
template <> struct nearest<torch::nn::SmoothL1Loss> { using type = SmoothL1Loss; };
template <> struct nearest<torch::nn::HuberLoss> { using type = HuberLoss; };
template <> struct nearest<torch::nn::PoissonNLLLoss> { using type = PoissonNLLLoss; };
template <> struct nearest<torch::nn::BCELoss> { using type = BCELoss; };
template <> struct nearest<torch::nn::CTCLoss> { using type = CTCLoss; };
template <> struct nearest<torch::nn::TripletMarginLoss> { using type = TripletMarginLoss; };
template <> struct nearest<torch::nn::CosineEmbeddingLoss> { using type = CosineEmbeddingLoss; };
template <known_axis Axis> requires requires { typename Axis::default_policy; }
struct nearest<Axis> { using type = typename Axis::default_policy; };
template <class T> struct bare : nearest<T> {};
template <policy T> struct bare<T> { using type = T; };
template <class T> struct nearest<const T> : bare<T> {};
template <class T> struct nearest<T*> : bare<T> {};
template <class T> struct nearest<T&> : bare<T> {};
template <class T> struct nearest<T&&> : bare<T> {};
// clang-format on

/// A loss of LibTorch that has no policy. It is a module, but no second model.
template <class Written>
inline constexpr bool is_other_loss =
    is_one_of<Written, AxisList<torch::nn::HingeEmbeddingLoss, torch::nn::MarginRankingLoss,
                                torch::nn::MultiMarginLoss, torch::nn::MultiLabelMarginLoss,
                                torch::nn::MultiLabelSoftMarginLoss, torch::nn::SoftMarginLoss,
                                torch::nn::TripletMarginWithDistanceLoss>>;

}  // namespace ikebana::refuse
