#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/fake_operator.hpp>
#include <ikebana/fake/shape_rules.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE std::optional<c10::OperatorHandle> without_out(const c10::OperatorHandle& op) {
  std::size_t inputs = op.schema().arguments().size();
  while (inputs > 0 && op.schema().arguments()[inputs - 1].is_out()) --inputs;
  if (inputs == op.schema().arguments().size()) return std::nullopt;
  std::string overload = op.operator_name().overload_name;
  const std::size_t end = overload.rfind("_out");
  overload.erase(end == std::string::npos ? 0 : end);
  const auto found = c10::Dispatcher::singleton().findSchema({op.operator_name().name, overload});
  if (!found || found->schema().arguments().size() != inputs) return std::nullopt;
  return shape_rule(c10::toString(found->operator_name())) != nullptr ? found : std::nullopt;
}

IKEBANA_INLINE FakeOperator examined(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  using Key = c10::DispatchKey;
  FakeOperator found;
  found.rule = shape_rule(c10::toString(op.operator_name()));
  found.scratch = scratch_rule(op.operator_name());
  found.has_meta = op.hasKernelForDispatchKey(Key::Meta);
  found.writes = schema.is_mutable();
  found.draws = op.hasTag(at::Tag::nondeterministic_seeded);
  found.reads = op.hasTag(at::Tag::data_dependent_output) ||
                op.hasTag(at::Tag::dynamic_output_shape) ||
                op.operator_name().name == "aten::_local_scalar_dense";
  const std::string& name = op.operator_name().name;
  found.is_composite = (op.hasKernelForDispatchKey(Key::CompositeImplicitAutograd) &&
                        !op.hasKernelForDispatchKey(Key::CPU)) ||
                       name == "aten::_embedding_bag_backward";
  const bool has_own = op.hasKernelForDispatchKey(Key::CPU);
  bool views = !schema.returns().empty();
  for (const auto& result : schema.returns())
    views = views && result.alias_info() != nullptr && !result.alias_info()->isWrite();
  found.is_view = views && !found.is_composite;
  found.is_view |= op.hasTag(at::Tag::inplace_view) && !name.starts_with("aten::resize") &&
                   !name.starts_with("aten::set_");
  if (!found.is_view && !found.is_composite && !has_own)
    found.is_composite = op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd) ||
                         op.hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional);
  if (!found.writes) return found;
  found.without_out = without_out(op);
  for (const auto& result : schema.returns()) {
    int same = -1;
    if (const auto* alias = result.alias_info(); alias && alias->isWrite())
      for (std::size_t i = 0; i < schema.arguments().size(); ++i)
        if (const auto* other = schema.arguments()[i].alias_info();
            other && other->beforeSets() == alias->beforeSets())
          same = static_cast<int>(i);
    found.returned.push_back(same);
  }
  found.in_place = std::count(found.returned.begin(), found.returned.end(), -1) == 0;
  return found;
}

}  // namespace ikebana::bridge
