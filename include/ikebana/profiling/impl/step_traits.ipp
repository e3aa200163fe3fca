#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/profiling/step_traits.hpp>
#include <limits>

namespace ikebana::detail {

/// Counts the traits of each operator that it sees.
class TraitCounter : bridge::OperatorMode {
 public:
  StepTraits count(c10::function_ref<void()> step) {
    {
      const bridge::OperatorScope<> scope(*this);
      step();
    }
    for (const auto& [key, product] : products_) traits_.products.push_back(product);
    return std::move(traits_);
  }

 private:
  IKEBANA_INLINE void call(bridge::OperatorCall& call) override {
    const std::string& name = call.name().name;
    if (name == "aten::_local_scalar_dense" || name == "aten::nonzero") ++traits_.host_reads;
    add_product(name, call.arguments());
    call.compute();
    if (bridge::only_allocates(call.name())) return;
    bool computes = false;
    for (std::size_t i = 0; i < call.results().size(); ++i) {
      const auto* alias = call.schema().returns()[i].alias_info();
      if (alias != nullptr && !alias->isWrite()) continue;  // a view
      visit_tensors(call.results()[i], [&](const at::Tensor& t) {
        computes = true;
        add_numbers(t);
      });
    }
    traits_.operators += computes ? 1 : 0;
  }

  void add_numbers(const at::Tensor& t) {
    if (!may_be_denormal(t)) return;
    const std::int64_t count = denormals_of(t);
    traits_.numbers += t.numel(), traits_.denormals += count;
    traits_.denormal_operations += static_cast<double>(count);
  }
  static bool may_be_denormal(const at::Tensor& t) {
    const auto dtype = t.defined() ? t.scalar_type() : at::kLong;
    return (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16) && t.is_cpu() &&
           t.layout() == at::kStrided;
  }
  static std::int64_t denormals_of(const at::Tensor& t) {
    const double least = t.scalar_type() == at::kDouble ? std::numeric_limits<double>::min()
                                                        : double{std::numeric_limits<float>::min()};
    return t.abs().lt(least).logical_and_(t.ne(0)).sum().item<std::int64_t>();
  }

  void add_product(const std::string& name, c10::ArrayRef<c10::IValue> arguments) {
    std::size_t first = 0;
    if (name == "aten::addmm" || name == "aten::baddbmm") first = 1;
    else if (name != "aten::mm" && name != "aten::bmm") return;
    const at::Tensor a = arguments[first].toTensor(), b = arguments[first + 1].toTensor();
    const auto d = a.dim();
    ProductShape shape{.batch = d == 3 ? a.size(0) : 1,
                       .m = a.size(d - 2),
                       .k = a.size(d - 1),
                       .n = b.size(d - 1),
                       .dtype = a.scalar_type()};
    ++products_.try_emplace({shape.batch, shape.m, shape.k, shape.n, shape.dtype}, shape)
          .first->second.calls;
    if (may_be_denormal(a) && may_be_denormal(b))
      traits_.denormal_operations +=
          static_cast<double>(denormals_of(a)) * static_cast<double>(shape.n) +
          static_cast<double>(denormals_of(b)) * static_cast<double>(shape.m);
  }

  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, at::ScalarType>;
  StepTraits traits_;
  std::map<Key, ProductShape> products_;
};

IKEBANA_INLINE StepTraits traits_of(c10::function_ref<void()> step) {
  return TraitCounter().count(step);
}

}  // namespace ikebana::detail
