#pragma once
// The result of a check is a type, `refuse::Nothing` or one of the refusals, so that the first
// refusal found hides its consequences.
#include <ikebana/grammar/refuse.hpp>
#include <ikebana/grammar/units.hpp>

namespace torch::nn {
class Module;
}

namespace ikebana::refuse {

template <class Refusal>
using is = std::type_identity<Refusal>;
template <class Refusal>
inline constexpr bool passed = std::is_same_v<Refusal, Nothing>;

/// The first type of the pack that is a refusal, or `Nothing`.
template <class... Refusals>
struct first {
  using type = Nothing;
};
template <class Refusal, class... Rest>
struct first<Refusal, Rest...> : std::conditional_t<passed<Refusal>, first<Rest...>, is<Refusal>> {
};

template <class Type>
concept complete = requires { sizeof(Type); };
template <class Type>
concept module_type =
    std::is_same_v<Type, std::remove_cvref_t<Type>> && complete<detail::impl_of_t<Type>> &&
    std::is_base_of_v<torch::nn::Module, detail::impl_of_t<Type>>;

}  // namespace ikebana::refuse
