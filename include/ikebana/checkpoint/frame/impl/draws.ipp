#pragma once
#include <ikebana/checkpoint/frame/draws.hpp>
#include <ikebana/detail/flag_scope.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RandomCall computed_draw(bridge::OperatorCall& call,
                                        const bridge::RngAutocastState& state) {
  const bool may_draw = call.may_draw();
  std::lock_guard others(bridge::generators_mutex());  // again for each outer frame
  RandomCall draw{{false, false}, {false, false}, state.positions_now(), {}};
  call.compute();
  draw.after = state.positions_now();
  if (may_draw)
    for (const c10::IValue& value : call.results())
      if (value.isTensor() && value.toTensor().defined())
        (value.toTensor().is_cpu() ? draw.may_draw_from.cpu : draw.may_draw_from.device) = true;
  draw.from = draw.may_draw_from & draw.before.differ(draw.after);
  return draw;
}

IKEBANA_INLINE void CompareDraws::begin_unit(const bridge::RngAutocastState& state,
                                             const std::vector<RandomCall>& draws,
                                             const std::string& unit) {
  state_ = &state, draws_ = &draws, unit_ = &unit;
  next_ = 0;
}

IKEBANA_INLINE RandomCall CompareDraws::computed(bridge::OperatorCall& call) {
  const FlagScope drawing(is_drawing_);
  return computed_draw(call, *state_);
}

IKEBANA_INLINE void CompareDraws::call(bridge::OperatorCall& call) {
  kept_ = false;
  const RandomCall now = computed(call);
  const bool is_new = next_ == draws_->size();
  const RandomCall& forward = is_new ? now : (*draws_)[next_++];
  const bridge::RngSet differ = now.before.differ(forward.before) | now.after.differ(forward.after);
  const bool is_same = kept_ || !forward.from.any() || (!is_new && !(forward.from & differ).any());
  if (is_same) {
    if (ends_) throw AllSaved();
    return;
  }
  if (!is_last_) throw Again();
  if (is_new) refuse_new_draw(call);
  refuse((forward.from & differ).cpu ? "CPU" : "device");
}

IKEBANA_INLINE void CompareDraws::refuse(const char* device) const {
  throw BadRecompute(
      "checkpoint: `" + *unit_ +
      "` draws random numbers, and another thread drew from the same generator, LibTorch's "
      "default one of the " +
      device +
      ", in between, so a recompute gets other numbers than forward. Let only one thread of the "
      "process draw from it: give other threads an at::Generator of their own, and run a second "
      "trainer after this one or in another process.");
}

IKEBANA_INLINE void CompareDraws::refuse_new_draw(const bridge::OperatorCall& call) const {
  throw BadRecompute("checkpoint: recompute of `" + *unit_ + "` draws random numbers by " +
                     call.name().name +
                     " where forward drew none. The unit's forward must do the same each time.");
}

}  // namespace ikebana::detail
