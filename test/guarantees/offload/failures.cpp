// A step under Offload that fails, wherever it does, is as if it had not been; and memory that is
// used again has no old values.
#include "offload.hpp"

#include <functional>
#include <ikebana/bridge/operators.hpp>

#include "trainer/failing.hpp"

namespace guarantees::offload::failures {

/// Fails at a call of an operator, counted down; with `copies` at a copy; with 0 never. The
/// update's copies allocate nothing on a CPU, and may not fail; nor may the copies that restore
/// buffers.
struct FailsAt : bridge::OperatorMode {
  std::set<const void*> buffers;
  bool copies = false;
  int left = 0;
  bool has_failed = false;
  void call(bridge::OperatorCall& call) override {
    if (counts(call) && left > 0 && --left == 0) {
      has_failed = true;
      throw std::runtime_error("injected");
    }
    call.compute();
  }
  bool counts(const bridge::OperatorCall& call) const {
    const std::string& name = call.name().name;
    const bool is_copy = name == "aten::copy_";
    if (is_copy && buffers.count(call.arguments()[0].toTensor().const_data_ptr()) > 0) return false;
    return copies ? is_copy : !name.starts_with("aten::_f");
  }
};

/// Calls `f` on a thread of its own, and returns what it throws: an exception in autograd's engine
/// leaves the engine of that thread in the middle of a backward.
template <class F>
std::exception_ptr on_own_thread(const F& f) {
  std::exception_ptr error;
  test::on_own_thread([&] {
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
  });
  return error;
}

/// Throws in backward.
struct Breaks : torch::autograd::Function<Breaks> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("broken");
  }
};
/// A unit with running statistics and random numbers, and one that runs a backward in forward.
struct SmallImpl : torch::nn::Module {
  using units = Units<Block, Force>;
  Block block = register_module("block", Block());
  Force force = register_module("force", Force());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, classes));
  bool breaks_forward = false, breaks_backward = false;
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = run(block, batch.input);
    if (breaks_forward) throw std::runtime_error("broken");
    if (breaks_backward) x = Breaks::apply(x);
    return {at::cross_entropy_loss(head(run(force, x)), batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
};
TORCH_MODULE(Small);
inline Small small() {
  return seeded([] { return Small(); });
}

/// Anything that makes a step as a trainer does.
struct Step {
  const torch::nn::Module& model;
  std::function<void()> make;
};

/// `fail(n, step)` makes a step whose n-th call fails, and returns whether one was reached. Each of
/// two steps is tried until no call fails. The step is undone, or it is made if the call that
/// failed is no part of it, and the next step then gathers the weights.
template <class Fail, class... Policies>
void leaves_no_trace(const Fail& fail, const Policies&... policies) {
  INFO(ikebana::detail::type_name<Choices<Policies...>>());
  Trainer unharmed{small(), AdamW{.lr = 1e-2}, policies...};
  Trainer trainer{small(), AdamW{.lr = 1e-2}, policies...};
  unharmed.restore(trainer.state());
  for (const Rows& batch : class_batches(2, 4, width, classes)) {
    const StateDict before = trainer.state();
    unharmed.restore(before);  // random numbers
    const Numbers moved = numbers(unharmed.step(batch));
    const StateDict after = unharmed.state();
    int undone = 0;
    for (int n = 1;; ++n) {
      Numbers counted = {};
      trainer.restore(before);  // what a failed step has gathered is gathered again
      std::exception_ptr error;
      const bool reached =
          fail(n, {*trainer.model(), [&] { counted = numbers(trainer.step(batch)); }}, error);
      CHECK(same_state(trainer.state(), error ? before : after));
      undone += error != nullptr;
      if (!reached) {
        CHECK(error == nullptr);
        CHECK(c10::str(at::IntArrayRef(counted)) == c10::str(at::IntArrayRef(moved)));
        break;
      }
    }
    CHECK(undone > 5);
  }
}

bool fails_at(bool copies, int n, const Step& step, std::exception_ptr& error) {
  FailsAt mode;
  for (const at::Tensor& t : step.model.buffers()) mode.buffers.insert(t.const_data_ptr());
  mode.copies = copies, mode.left = n;
  error = on_own_thread([&] {
    const bridge::OperatorScope<> scope(mode);
    step.make();
  });
  return mode.has_failed;
}
bool operators(int n, const Step& step, std::exception_ptr& error) {
  return fails_at(/*copies=*/false, n, step, error);
}
bool copies(int n, const Step& step, std::exception_ptr& error) {
  return fails_at(/*copies=*/true, n, step, error);
}
/// Returns the memory of a tensor.
bool allocations(int n, const Step& step, std::exception_ptr& error) {
  const test::FailingAllocator failing;
  bool reached = false;
  error = on_own_thread([&] {
    test::countdown = n;
    struct End {
      bool& was_reached;
      ~End() { was_reached = std::exchange(test::countdown, 0) == 0; }
    } const end{reached};
    step.make();
  });
  return reached;
}

TEST_CASE("offload: a step in which any operator fails leaves no trace") {
  leaves_no_trace(operators, moving<Offload<CPU, Activations, Parameters>>());
  leaves_no_trace(operators, moving<Offload<Disk, Activations, OptimizerState>>(),
                  Checkpoint<Selective>{});
}
TEST_CASE("offload: a step in which any copy fails leaves no trace") {
  leaves_no_trace(copies, moving<Offload<CPU, Activations, Parameters>>());
  leaves_no_trace(copies, moving<Offload<CPU, Activations, OptimizerState>>(),
                  Precision<BF16Weights>{.allow_unused_units = true});
  leaves_no_trace(copies, moving<Offload<Disk, Activations, Parameters>>(), Checkpoint<Full>{},
                  Accumulate<2>{});
}
TEST_CASE("offload: a step in which any allocation fails leaves no trace") {
  leaves_no_trace(allocations, moving<Offload<CPU, Activations, OptimizerState>>(),
                  Checkpoint<Segments<2>>{});
  leaves_no_trace(allocations, moving<Offload<Disk, Activations, Parameters>>());
}

TEST_CASE("offload: an exception of the model in forward or backward leaves no trace") {
  const auto batch = zoo_batches()[0];
  const auto check = [&]<class Policy>(const Policy& policy) {
    INFO(ikebana::detail::type_name<Policy>());
    Trainer trainer{small(), AdamW{}, policy};
    Trainer unharmed{small(), AdamW{}, policy};
    for (const bool forward : {true, false, true, false}) {
      const StateDict before = trainer.state();
      (forward ? trainer.model()->breaks_forward : trainer.model()->breaks_backward) = true;
      CHECK(on_own_thread([&] { trainer.step(batch); }) != nullptr);
      trainer.model()->breaks_forward = trainer.model()->breaks_backward = false;
      CHECK(same_state(trainer.state(), before));
      const Numbers moved = numbers(trainer.step(batch));
      const StateDict after = trainer.state();
      unharmed.restore(before);
      CHECK(moved == numbers(unharmed.step(batch)));
      CHECK(same_state(after, unharmed.state()));
    }
  };
  check(moving<Offload<CPU, Activations, Parameters>>());
  check(moving<Offload<Disk, Activations, OptimizerState>>());
}

/// Offload<CPU, Activations, OptimizerState> in memory that the test can write to.
struct Poisonable {
  using axis = ikebana::axis::offload;
  std::int64_t min_bytes = 0;
  bool allow_unused_units = true;
};
class PoisonedMemory : public ikebana::detail::OffloadMemory {
 public:
  /// Bytes of 0xFF are NaN in each floating type.
  static void poison(const at::Tensor& t) {
    std::memset(t.storage().mutable_data(), 0xFF, t.storage().nbytes());
  }
  static inline std::vector<at::Tensor> buffers = {};
  at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                      at::ScalarType type) override {
    at::Tensor t = at::empty_strided(sizes, strides, type);
    poison(t);
    if (type == at::kByte)
      buffers.push_back(t);  // the bytes of activations, which are free
                             // between steps
    return t;
  }
};
std::shared_ptr<ikebana::detail::OffloadMemory> memory_of(const Poisonable&,
                                                          const bridge::HostCopies&) {
  return std::make_shared<PoisonedMemory>();
}

}  // namespace guarantees::offload::failures

template <>
struct ikebana::Mechanism<guarantees::offload::failures::Poisonable>
    : ikebana::detail::OffloadsActivations<
          guarantees::offload::failures::Poisonable,
          ikebana::detail::OffloadsState<guarantees::offload::failures::Poisonable>> {
  using OffloadsActivations::OffloadsActivations;
};

namespace guarantees::offload::failures {

TEST_CASE("offload reads no memory that it has not written in the step") {
  each_kind([](Kind kind) {
    const auto batches = zoo_batches();
    PoisonedMemory::buffers.clear();
    Trainer trainer{zoo(kind), AdamW{.lr = 1e-2}, Poisonable{}};
    torch::manual_seed(11);
    Trace trace;
    std::size_t after_first = 0;
    for (const Rows& batch : batches) {
      trace.push_back(trainer.step(batch).mean());
      for (const at::Tensor& t : PoisonedMemory::buffers) PoisonedMemory::poison(t);
      if (after_first == 0) after_first = PoisonedMemory::buffers.size();
      CHECK(PoisonedMemory::buffers.size() == after_first);  // the memory is used again
    }
    CHECK(after_first > 0);
    add_end(trainer, trace);
    CHECK(test::same_bits(trace, zoo_steps(kind).trace));
    PoisonedMemory::buffers.clear();
  });
}

}  // namespace guarantees::offload::failures
