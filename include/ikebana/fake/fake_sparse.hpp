#pragma once
// Sparse tensors whose indices and values are fake: gradients of embeddings.
#include <ikebana/fake/fake_operator.hpp>
#include <ikebana/fake/make_fake.hpp>

namespace ikebana::bridge {

namespace detail {

bool returns_tensors(const OperatorCall& call);
/// A sparse tensor as `like`, with so many rows of values.
at::Tensor fake_sparse(FakeTensors& tensors, const at::Tensor& like, std::int64_t rows,
                       bool is_coalesced);

}  // namespace detail

/// Calls an operator that makes or takes a sparse tensor: what makes one, reads its parts or
/// numbers, coalesces or copies it, or adds two of them. False for any other operator. How many
/// rows remain where equal ones are added up depends on values: as many as there are at most.
bool call_on_sparse(OperatorCall& call, const FakeOperator& op, FakeTensors& tensors);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/fake_sparse.ipp>
#endif
