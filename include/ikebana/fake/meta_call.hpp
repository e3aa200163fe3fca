#pragma once
// An operator that is called on meta tensors, to see what it returns.
#include <ikebana/bridge/operators.hpp>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// The operator's results on meta tensors that stand for its arguments. Two arguments that share
/// memory have counterparts that do, so that a view among the results is known as one.
struct MetaCall {
  explicit MetaCall(const OperatorCall& call);
  c10::IValue of(const std::string& name, const c10::IValue& value);
  at::Tensor of(const at::Tensor& t);
  c10::Storage storage_of(const at::Tensor& t);
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  std::vector<c10::IValue> results;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/meta_call.ipp>
#endif
