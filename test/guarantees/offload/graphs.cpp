// Tests what a model may do with the graph of its loss under Offload: operators in place, functions
// of its own, views of every kind, several backwards, and graphs that outlive the trainer.
#include "offload.hpp"

#include <thread>

namespace guarantees::offload::graphs {

/// A function of the user's that saves its input, its result and a view. In backward it adds up in
/// how far the memory of what comes back is aligned otherwise than that of what was saved.
struct Swish : torch::autograd::Function<Swish> {
  static inline std::int64_t misaligned = 0, backwards = 0;
  static std::int64_t alignment(const at::Tensor& t) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(t.const_data_ptr()) % 64);
  }
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::Tensor gate = at::sigmoid(x);
    const at::Tensor part = gate.flatten().narrow(0, 5, 4);  // less than a quarter of its memory
    context->save_for_backward({x, gate, part});
    context->saved_data["alignment"] = alignment(part);
    return x * gate + part.sum();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& outer) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gate = saved[1], &part = saved[2];
    CHECK(test::same_bits(part, gate.flatten().narrow(0, 5, 4)));
    misaligned += std::abs(alignment(part) - context->saved_data["alignment"].toInt());
    ++backwards;
    at::Tensor inner = outer[0] * gate * (1 + x * (1 - gate));
    inner.flatten().narrow(0, 5, 4) += outer[0].sum() * part * (1 - part);
    return {inner};
  }
};

/// The losses of the tests: each is a use of the graph.
enum class Use { Function, InPlace, Views, Complex, Retained, count };
std::string name_of(Use use) {
  static const char* const names[] = {"function", "in place", "views", "complex", "retained"};
  return names[static_cast<int>(use)];
}

struct UsesImpl : torch::nn::Module {
  Use use;
  torch::nn::Linear in{8, 16}, out{16, 4};
  explicit UsesImpl(Use u) : use(u) { register_module("in", in), register_module("out", out); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor y = in(batch.input);
    const at::Tensor loss = (out(of(y)) - batch.target).square().sum();
    return {use == Use::Retained ? loss * slope(loss, y) : loss, batch.target.size(0)};
  }

 private:
  at::Tensor of(const at::Tensor& y) const {
    switch (use) {
      case Use::Function:
        return Swish::apply(at::tanh(y));
      case Use::InPlace:
        return (y + 1).mul_(0.5).tanh_() * (y * 2).relu_() + y.sin().mul_(3);
      case Use::Views:
        return y.t().sin().t() * y.flip(1).unfold(1, 4, 4).exp().transpose(1, 2).flatten(1) +
               y.narrow(1, 3, 2).cos().prod(1, true) *
                   y.select(1, 1).exp().unsqueeze(1).expand({-1, 16});
      case Use::Complex: {
        const at::Tensor z = at::complex(y.sin(), y.cos());
        const at::Tensor negative = at::imag(z.conj());  // a bit says so, and no memory
        return at::real(z * z.exp().conj()) + negative * negative.exp();
      }
      default:
        return at::tanh(y).sin();
    }
  }
  /// Runs two backwards within the loss, which keep the graph.
  static at::Tensor slope(const at::Tensor& loss, const at::Tensor& y) {
    const at::Tensor once = torch::autograd::grad({loss}, {y}, {}, /*retain_graph=*/true)[0];
    const at::Tensor twice = torch::autograd::grad({loss}, {y}, {}, /*retain_graph=*/true)[0];
    CHECK(test::same_bits(once, twice));
    return once.norm().detach();
  }
};
TORCH_MODULE(Uses);

const std::vector<Rows>& rows() {
  static const auto all = [] {
    torch::manual_seed(5);
    std::vector<Rows> batches;
    for (int i = 0; i < 3; ++i) batches.push_back({torch::randn({10, 8}), torch::randn({10, 4})});
    return batches;
  }();
  return all;
}
template <class... Policies>
Moved steps(Use use, const Policies&... policies) {
  return steps_of(seeded([&] { return Uses(use); }), rows(), policies...);
}

TEST_CASE("offload changes no bit, whatever a loss does with its graph") {
  for (int k = 0; k < static_cast<int>(Use::count); ++k) {
    const Use use = static_cast<Use>(k);
    INFO(name_of(use));
    const Trace without = steps(use).trace;
    CHECK(moved(without, 3));
    const Moved there = steps(use, moving<Activations_>());
    CHECK(test::same_bits(there.trace, without));
    CHECK(there.last().copies_out > 0);
    CHECK(there.last().copies_back >= there.last().copies_out);
    CHECK(test::same_bits(steps(use, moving<Offload<Disk, Activations>>()).trace, without));
    const Moved few = steps(use, moving<Activations_>(/*min_bytes=*/1 << 20));  // all stays
    CHECK(test::same_bits(few.trace, without));
    CHECK(few.last().copies_out == 0);
  }
}
TEST_CASE("offload gives a view the alignment that it had, by which kernels choose their order") {
  Swish::misaligned = Swish::backwards = 0;
  steps(Use::Function, moving<Activations_>());
  CHECK(Swish::backwards == 3);
  CHECK(Swish::misaligned == 0);
}

/// Writes to a tensor that autograd has saved: one that is moved, one that stays since it is small,
/// one of the batch.
enum class Written { Moved, Small, Batch };
struct WritesImpl : torch::nn::Module {
  std::optional<Written> writes;
  torch::nn::Linear in{8, 64};
  WritesImpl() { register_module("in", in); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor y = in(batch.input), large = y.exp(), small = y.sum(1).exp();
    const at::Tensor loss = large.sum() + small.sum();
    const at::NoGradGuard no_grad;
    if (writes == Written::Moved) large.add_(1);
    if (writes == Written::Small) small.add_(1);
    if (writes == Written::Batch) at::Tensor(batch.input).add_(0);
    return {loss, batch.target.size(0)};
  }
};
TORCH_MODULE(Writes);

TEST_CASE("offload: a saved tensor that was written to since is an error, moved or not") {
  rows();  // draws random numbers
  Trainer trainer{seeded([] { return Writes(); }), AdamW{}, moving<Activations_>(1000)};
  Trainer unharmed{seeded([] { return Writes(); }), AdamW{}, moving<Activations_>(1000)};
  for (const Written what : {Written::Moved, Written::Small, Written::Batch}) {
    CAPTURE(static_cast<int>(what));
    trainer.model()->writes = what;
    const StateDict before = trainer.state();
    std::string error;  // on another thread, whose engine keeps what it has not come to
    std::thread([&] {
      error = test::message_of<BadModel>([&] { trainer.step(rows()[0]); });
    }).join();
    CHECK(test::contains(error, "modified by an in-place operation"));
    CHECK(same_state(trainer.state(), before));
    trainer.model()->writes = {};
    const Report report = trainer.step(rows()[1]), other = unharmed.step(rows()[1]);
    CHECK(report.loss() == other.loss());
    CHECK(numbers(report) == numbers(other));
    CHECK(report.offloaded->copies_out == 1);
    CHECK(same_state(trainer.state(), unharmed.state()));
  }
}

/// Keeps graphs of its loss: one of the batch alone, and one of a unit.
struct StashesImpl : torch::nn::Module {
  using units = Units<Block>;
  Block block;
  torch::nn::Linear head{width, classes};
  at::Tensor leaf, of_leaf, of_unit;
  StashesImpl() { register_module("block", block), register_module("head", head); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    leaf = batch.input.clone().requires_grad_();
    of_leaf = leaf.exp().sin();
    of_unit = run(block, batch.input).exp();
    return {
        at::cross_entropy_loss(head(run(block, batch.input)), batch.target, {}, at::Reduction::Sum),
        batch.target.numel()};
  }
};
TORCH_MODULE(Stashes);

template <class Policy>
Stashes stashed() {
  const Stashes model = seeded([] { return Stashes(); });
  Trainer trainer{model, AdamW{}, moving<Policy>()};
  trainer.step(zoo_batches()[0]);
  return model;
}
TEST_CASE("offload: a graph may outlive its trainer, if that stores none of its parameters") {
  const Stashes model = stashed<Activations_>();
  model->of_leaf.sum().backward();
  CHECK(test::same_bits(model->leaf.grad(), model->leaf.exp().cos() * model->leaf.exp()));
  const Stashes gathered = stashed<Offload<CPU, Activations, Parameters>>();
  gathered->of_leaf.sum().backward();
  CHECK(test::same_bits(gathered->leaf.grad(), model->leaf.grad()));
  CHECK(test::contains(test::message_of<BadModel>([&] { gathered->of_unit.sum().backward(); }),
                       "after the trainer was destroyed"));
  CHECK(gathered->block->in->weight.sum().isfinite().item<bool>());  // it is the model's again
}

}  // namespace guarantees::offload::graphs
