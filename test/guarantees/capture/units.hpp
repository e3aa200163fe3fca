#pragma once
// Defines nets for Capture<EachUnit>: one whose way the host decides, and one whose unit and whose
// use of it the test supplies.
#include "captured.hpp"

namespace guarantees::units {

/// The host decides in each step which blocks are run, and how often. What a block is given is used
/// by other code as well.
struct DecidingImpl : RecordedNetImpl {
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor begin = batch_norm(in(batch.input));
    const auto way = static_cast<int>(begin[0][0].template item<float>() * 10) % 3;
    at::Tensor x = run(first, begin);
    if (way != 0) x = run(second, x) + begin;
    if (way == 1) x = run(first, x * 0.5);
    const at::Tensor logits = head(x + begin);
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            (batch.target != -100).sum(), logits};
  }
};
TORCH_MODULE(Deciding);

template <class Net, class... Policies>
auto compared(const Policies&... policies) {
  return ComparedWith<EachUnit, Net, Policies...>(policies...);
}

/// A net of one unit, whose body and use the test supplies.
struct UsedImpl : BodyNetImpl {
  using Use = std::function<at::Tensor(const std::function<at::Tensor(at::Tensor)>& unit,
                                       const at::Tensor& x, int step)>;
  static inline BodyImpl::Function made_body = usual_body;
  static inline Use use;
  static inline int step_now = 0;
  UsedImpl() : BodyNetImpl(made_body, usual_ending) {}
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const std::function<at::Tensor(at::Tensor)> unit = [&](at::Tensor t) { return run(body, t); };
    const at::Tensor y = use(unit, in(batch.input), step_now);
    return {.sum = (y * y).sum(), .count = batch.input.size(0), .outputs = y};
  }
};
TORCH_MODULE(Used);

struct Figures {
  std::int64_t replays, recordings, usual;
  std::string error;
};
/// Steps a net whose unit is `body`, used by `use`, and returns what Capture did.
template <class... Policies>
Figures used(const BodyImpl::Function& body, const UsedImpl::Use& use,
             const Capture<EachUnit>& capture = {}, const Policies&... policies) {
  UsedImpl::made_body = body, UsedImpl::use = use;
  Trainer eager{seeded([] { return Used(); }), SGD{.lr = 0.01, .momentum = 0.9}, policies...};
  Trainer captured{seeded([] { return Used(); }), SGD{.lr = 0.01, .momentum = 0.9}, policies...,
                   capture};
  Figures all{};
  for (int i = 0; i < 12; ++i) {
    UsedImpl::step_now = i;
    const Outcome a = outcome_of(captured, body_batch(i), i);
    if (a.error != "") all.error = a.error;
    if (test::contains(a.error, "Capture<EachUnit>")) break;
    const std::string text = difference(a, outcome_of(eager, body_batch(i), i));
    CHECK(text == "");
    if (text != "") break;
  }
  const auto& c = captured.template mechanism<Capture<EachUnit>>();
  all.replays = c.replays(), all.recordings = c.recordings(), all.usual = c.usual_calls();
  return all;
}
inline const UsedImpl::Use once = [](const auto& unit, const at::Tensor& x, int) {
  return unit(x);
};

}  // namespace guarantees::units
