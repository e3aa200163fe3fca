#pragma once
// Defines units that write into the output of a product, which Checkpoint<Selective> keeps, and
// units with every operator whose output it keeps.
#include <ikebana/modules/attention.hpp>

#include "guarantees/work.hpp"

namespace guarantees::selective {

using Body = WorkImpl::Body;
inline at::Tensor square(const WorkImpl& w) { return w.weight.unsqueeze(0) * at::eye(4) + 0.25; }

inline at::Tensor kept_aside;  // a tensor that a unit exposes besides its result

struct Writing {
  std::string name;
  Body body;
  BenchImpl::After after = no_after;
};
// Each writes into the output of a product, which is kept.
inline const Writing writings[] = {
    {"before anyone reads it",
     [](auto& w, auto x) { return at::tanh(at::mm(x, square(w)).add_(w.weight).relu_()); }},
    {"after it was read, and its reader kept nothing of it",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w)), z = at::exp(y * 0.1);
       y.add_(1);
       return at::tanh(y) + z;
     }},
    {"once before it is read and once after",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w)).add_(w.weight);
       auto z = at::exp(y * 0.1);
       y.mul_(2).add_(1);
       return at::tanh(y) + z;
     }},
    {"through a view",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w));
       y.narrow(0, 0, 2).mul_(3);
       return at::tanh(y);
     }},
    {"through a view that was read",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w)), z = at::exp(y.narrow(0, 1, 2) * 0.1);
       y.narrow(0, 1, 2).mul_(3);
       return at::tanh(y) + z.sum();
     }},
    {"as torch::nn::Linear does in three dimensions",
     [](auto& w, auto x) {
       auto y = at::matmul(x.unsqueeze(0), square(w).t());
       return at::tanh(y.add_(w.weight)).squeeze(0);
     }},
};
// These write into it together with other tensors, or after the unit has finished.
inline const Writing writings_with_others[] = {
    {"with random numbers",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w));
       return at::dropout_(y, 0.3, true).tanh();
     }},
    {"together with what is not kept",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w)), z = x * 2;
       at::_foreach_add_({y, z}, 1);
       return at::tanh(y) * at::tanh(z);
     }},
    {"from another product",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w)), z = at::mm(y * 1, square(w));
       y.add_(z);
       return at::tanh(y) + at::exp(z * 0.1);
     }},
    {"after the unit, in its result",
     [](auto& w, auto x) {
       auto y = at::mm(x, square(w)), z = at::exp(y * 0.1);
       kept_aside = y;
       return at::tanh(z);
     },
     [](auto&, auto&, auto&) {
       torch::NoGradGuard no_grad;
       kept_aside.fill_(1e6);
     }},
    {"after the unit, in a reshaped result",
     [](auto& w, auto x) {
       auto y = at::matmul(x.unsqueeze(0), square(w)), z = at::exp(y.squeeze(0) * 0.1);
       kept_aside = y;
       return at::tanh(z);
     },
     [](auto&, auto&, auto&) {
       torch::NoGradGuard no_grad;
       kept_aside.fill_(1e6);
     }},
};

/// These are attention, a convolution and a recurrent layer, in LibTorch's forms and in ikebana's.
inline const Writing heavy[] = {
    {"attention",
     [](auto& w, auto x) {
       auto q = (x * w.weight).view({1, 1, 5, 4});
       return modules::attention(q, q.sin(), q.cos(), {.is_causal = true}).view({5, 4}).tanh();
     }},
    {"composed attention with dropout",
     [](auto& w, auto x) {
       auto q = (x * w.weight).view({1, 1, 5, 4});
       modules::AttentionOptions options{.dropout_p = 0.2};
       return modules::attention(q, q.sin(), q.cos(), options).view({5, 4}).tanh();
     }},
    {"composed attention in half precision, with a mask",
     [](auto& w, auto x) {
       auto q = (x * w.weight).view({1, 1, 5, 4}).to(at::kBFloat16);
       modules::AttentionOptions options{.attn_mask = at::ones({5, 5}, at::kBool).tril(),
                                         .form = modules::AttentionForm::Composed};
       return modules::attention(q, q.sin(), q.cos(), options).view({5, 4}).to(at::kFloat).tanh();
     }},
    {"chunked attention with dropout",
     [](auto& w, auto x) {
       auto q = (x * w.weight).view({1, 1, 5, 4});
       modules::AttentionOptions options{
           .dropout_p = 0.2, .is_causal = true, .form = modules::AttentionForm::Chunked};
       return modules::attention(q, q.sin(), q.cos(), options).view({5, 4}).tanh();
     }},
    {"convolution",
     [](auto& w, auto x) {
       auto kernel = w.weight.narrow(0, 0, 3).view({1, 1, 3}) * 0.5;
       return at::conv1d(x.unsqueeze(1), kernel, {}, 1, "same").squeeze(1).tanh() + x;
     }},
};

/// These draw random numbers.
inline const Writing drawing[] = {
    {"random numbers from an operator that writes into nothing",
     [](auto& w, auto x) {
       auto y = std::get<0>(at::native_dropout(at::tanh(x * w.weight), 0.4, true));
       return at::dropout(at::sin(y) + at::bernoulli(at::sigmoid(x)), 0.4, true);
     }},
    {"random numbers that autograd saves before they are drawn, at the end",
     [](auto& w, auto x) { return at::rrelu(at::mm(x, square(w)), 0.1, 0.3, true); }},
    {"random numbers that autograd saves before they are drawn, and others after them",
     [](auto& w, auto x) {
       auto y = at::rrelu(at::tanh(x * w.weight), 0.1, 0.3, true);
       auto z = y * 2;
       return at::dropout(at::rrelu_(z, 0.1, 0.3, true), 0.4, true).sin();
     }},
    {"a product and dropout after it",
     [](auto& w, auto x) { return at::dropout(at::mm(x, square(w)).tanh(), 0.4, true); }},
};

}  // namespace guarantees::selective
