#pragma once
// The numbers that a step reads from tensors and the host changes between steps, such as the
// learning rate: what records a step lists them, and sets them before each replay.
#include <ikebana/detail/recording.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

/// Members that a mechanism may have besides its hooks. `each_number(visit)` calls `visit(tensor)`
/// for every tensor that a step reads and that is neither a master weight, nor a buffer of the
/// model, nor listed by `state`. `set_numbers(rate)` is called before a step that is replayed, and
/// sets the numbers that the host changes from step to step. `end_replay()` does everything else
/// that the host does in a step, unless a check of that step raised. An optimizer without
/// `each_number` cannot be recorded.
struct NumberVisitor {
  void operator()(const at::Tensor&) const {}
};
template <class Mechanism>
concept lists_numbers = requires(Mechanism m) { m.each_number(NumberVisitor()); };

template <class Mechanism, class Visit>
void each_number(Mechanism& m, const Visit& visit) {
  if constexpr (lists_numbers<Mechanism>) m.each_number(visit);
}
template <class Mechanism, class Rate>
void set_numbers(Mechanism& m, const Rate& rate) {
  if constexpr (requires { m.set_numbers(rate); }) m.set_numbers(rate);
}
template <class Mechanism>
void end_replay(Mechanism& m) noexcept {
  if constexpr (requires { m.end_replay(); }) m.end_replay();
}

/// Throws BadValue if a step is recorded whose optimizer works on the host.
template <class Optimizer>
void check_recordable(const Optimizer& optimizer) {
  if constexpr (!lists_numbers<Optimizer>)
    if (recording())
      throw BadValue("`" + type_name<std::decay_t<decltype(optimizer.values)>>() +
                     "`: a step with it cannot be recorded, because its update reads numbers or "
                     "computes on the host, which a replay would not do again. Write one of the "
                     "library's optimizers other than SparseAdam and InBackward.");
}

}  // namespace ikebana::detail
