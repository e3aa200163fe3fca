#pragma once
// Defines dummies: microbatches of weight zero, which a rank computes if others have more
// microbatches than it has, because a forward may be a call of all ranks. Only recipes for several
// ranks compile them.
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/run/run.hpp>
#include <set>

namespace ikebana::detail {

[[noreturn]] void refuse_no_microbatch();

/// Makes the sums and counts of a dummy's loss zero, whatever they are, and drops its outputs. With
/// `may_be_constant` the loss may have no backward, since no other rank waits for it.
void weigh_nothing(Loss& loss, bool may_be_constant);

/// Returns a range with a batch without rows, in the shapes of `like`. A rank steps with it if it
/// has no batch any more.
template <class Like>
auto without_batch(const Like& like) {
  if constexpr (Batches<const Like>) {
    Microbatches<std::ranges::range_value_t<const Like>> none;
    if (!std::ranges::empty(like)) none.push_back(without_rows(*std::ranges::begin(like)));
    return none;
  } else {
    Microbatches<Like> none;
    none.push_back(without_rows(like));
    return none;
  }
}
/// Returns true if a batch may have no rows, since other ranks may have some.
template <class Core>
bool may_have_no_rows(Core& core) {
  if constexpr (Core::one_rank) return false;
  else return core.ranks().data().size() > 1;
}

/// RAII, around forward and backward of a microbatch. A dummy computes in evaluation mode, and
/// leaves buffers and random generators as they are. Modules that compute with all ranks stay in
/// training mode, and their buffers get the values of the other ranks.
template <class Core, bool = Core::one_rank>
class DummyScope {
 public:
  DummyScope(Core& core, Run<Core>& run, bool is_dummy) : core_(core), run_(run) {
    if (is_dummy) begin();
  }
  ~DummyScope() {
    if (!mode_) return;
    core_.step.is_dummy = false;
    run_.evaluating = was_evaluating_;
    try {
      put_back();
    } catch (const std::exception&) {  // the error of a device that cannot be used any more
    }
  }
  DummyScope(const DummyScope&) = delete;
  DummyScope& operator=(const DummyScope&) = delete;

 private:
  struct Buffer {
    at::Tensor buffer, copy;
    Version version;
    explicit Buffer(const at::Tensor& b) : buffer(b), copy(b.detach().clone()), version(b) {}
  };

  void begin() {
    torch::nn::Module& root = *core_.units.units()[0].module;
    std::set<const c10::TensorImpl*> kept;  // buffers of modules that compute with all ranks
    std::vector<torch::nn::Module*> in_training;
    core_.rank_calls->each([&](torch::nn::Module& module) {
      for (const at::Tensor& buffer : module.buffers()) kept.insert(buffer.unsafeGetTensorImpl());
      if (module.is_training()) in_training.push_back(&module);
    });
    for (const at::Tensor& buffer : each_once(root.buffers()))
      if (buffer.defined() && kept.count(buffer.unsafeGetTensorImpl()) == 0)
        buffers_.emplace_back(buffer);
    generators_.emplace_back(c10::Device(c10::kCPU));
    if (at::isAccelerator(core_.device.type())) generators_.emplace_back(core_.device);
    mode_.emplace(root);
    for (torch::nn::Module* module : in_training) module->train();
    core_.step.is_dummy = true;
    was_evaluating_ = std::exchange(run_.evaluating, true);
  }
  /// Restores only what has changed, since another thread may draw numbers meanwhile.
  void put_back() {
    const at::NoGradGuard no_grad;
    for (Buffer& one : buffers_)
      if (one.version.changed()) one.buffer.variable_data().copy_(one.copy);
    for (const bridge::GeneratorState& generator : generators_)
      if (generator.position_now() != generator.position()) generator.restore();
  }

  Core& core_;
  Run<Core>& run_;
  std::optional<EvaluationMode> mode_;
  std::vector<Buffer> buffers_;
  std::deque<bridge::GeneratorState> generators_;
  bool was_evaluating_ = false;
};
template <class Core>
class [[maybe_unused]] DummyScope<Core, true> {
 public:
  DummyScope(Core&, Run<Core>&, bool) {}
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/dummy.ipp>
#endif
