// Defines autocast on the simulated accelerator, with LibTorch's lists of operators and boxed
// kernels.
#include "simulated_state.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace simulated {

namespace {

constexpr auto autocast_device = c10::kPrivateUse1;

using Arguments = c10::ArrayRef<c10::IValue>;

at::Tensor cast(const at::Tensor& t, at::ScalarType type) {
  return at::autocast::cached_cast(type, t, autocast_device);
}

c10::IValue cast(const c10::IValue& value, at::ScalarType type) {
  if (value.isTensor()) return cast(value.toTensor(), type);
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& t : value.toTensorVector()) list.push_back(cast(t, type));
  return list;
}

/// Calls the operator below autocast, its tensors cast to the type that `choose` gives.
template <class Choose>
void call_cast(const c10::OperatorHandle& op, torch::jit::Stack* stack, Choose&& choose) {
  const auto count = op.schema().arguments().size();
  const auto type = choose(Arguments(torch::jit::last(*stack, count)));
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  for (auto i = stack->size() - count; i < stack->size(); ++i)
    (*stack)[i] = cast((*stack)[i], type);
  op.callBoxed(stack);
}

at::ScalarType lower_type() { return at::autocast::get_autocast_dtype(autocast_device); }

void lower(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  call_cast(op, stack, [](Arguments) { return lower_type(); });
}

void to_float(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  call_cast(op, stack, [](Arguments) { return at::kFloat; });
}

at::ScalarType widest(Arguments arguments) {
  auto type = lower_type();
  for (const auto& value : arguments) {
    if (value.isTensor()) type = at::autocast::prioritize(type, value.toTensor(), autocast_device);
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorVector())
        type = at::autocast::prioritize(type, t, autocast_device);
  }
  return type;
}

void promote(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  call_cast(op, stack, widest);
}

/// Calls operators whose argument `dtype` is set instead of a cast.
void float_result(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto first = stack->size() - arguments.size();
  const auto& self = (*stack)[first];
  const bool casts = self.isTensor() && at::autocast::is_eligible(self.toTensor(), autocast_device);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (casts && arguments[i].name() == "dtype" && (*stack)[first + i].isNone())
      (*stack)[first + i] = at::kFloat;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  op.callBoxed(stack);
}

void refuse(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK(false,
              "binary_cross_entropy is unsafe to autocast; use "
              "binary_cross_entropy_with_logits");
}

/// "pow, Scalar" of LibTorch's lists is the operator pow.Scalar.
std::string operator_name(std::string entry) {
  const auto comma = entry.find(", ");
  if (comma != std::string::npos) entry.replace(comma, 2, ".");
  return entry;
}

#define SIMULATED_ENTRY(...) #__VA_ARGS__,
constexpr const char* lower_list[] = {AT_FORALL_LOWER_PRECISION_FP(SIMULATED_ENTRY)};
constexpr const char* float_list[] = {AT_FORALL_FP32(SIMULATED_ENTRY) "norm.Scalar",
                                      "norm.ScalarOpt_dim"};
constexpr const char* float_result_list[] = {AT_FORALL_FP32_SET_OPT_DTYPE(SIMULATED_ENTRY)};
constexpr const char* promote_list[] = {AT_FORALL_PROMOTE(SIMULATED_ENTRY) "cat", "stack"};
#undef SIMULATED_ENTRY

}  // namespace

void register_autocast() {
  using torch::CppFunction;
  constexpr auto key = c10::DispatchKey::AutocastPrivateUse1;
  static torch::Library all(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  all.fallback(CppFunction::makeFallthrough());
  static torch::Library m(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  auto add = [&](auto& list, auto function) {
    for (const char* entry : list) m.impl(operator_name(entry).c_str(), CppFunction(function()));
  };
  add(lower_list, [] { return CppFunction::makeFromBoxedFunction<&lower>(); });
  add(float_list, [] { return CppFunction::makeFromBoxedFunction<&to_float>(); });
  add(float_result_list, [] { return CppFunction::makeFromBoxedFunction<&float_result>(); });
  add(promote_list, [] { return CppFunction::makeFromBoxedFunction<&promote>(); });
  m.impl("binary_cross_entropy", CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace simulated
