// Defines a plugin. This source is linked into several libraries with hidden symbols, so that each
// has its own copy of every static.
#include "plugin.hpp"

#include <ikebana/bridge/gradients.hpp>
#include <ikebana/bridge/linear_hook.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/memory/pool.hpp>
#include <ikebana/modules/attention.hpp>
#include <memory>

using namespace ikebana;

namespace {

struct Counting : bridge::SavedTensorHooks {
  struct Hook : torch::autograd::SavedVariableHooks {
    void call_pack_hook(const at::Tensor& tensor) override { kept = tensor.detach(); }
    at::Tensor call_unpack_hook() override { return kept; }
    at::Tensor kept;
  };
  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    ++packed;
    return std::make_unique<Hook>();
  }
  int packed = 0;
};

struct Scope {
  Counting hooks;
  bridge::SavedTensorScope scope{&hooks};
};

bool available() { return bridge::saved_tensor_hooks_available(); }
const void* engine() { return &torch::autograd::Engine::get_default_engine(); }
void* open_saved() { return new Scope; }

int close_saved(void* scope) {
  const std::unique_ptr<Scope> owned(static_cast<Scope*>(scope));
  return owned->hooks.packed;
}

struct Products : bridge::OperatorMode {
  void call(bridge::OperatorCall& call) override {
    const auto& name = call.name().name;
    if (name == "aten::mul" || name == "ikebana::composed_attention") ++count;
    call.compute();
  }
  int count = 0;
};
struct OperatorsScope {
  Products products;
  bridge::OperatorScope<> scope{products};
};
void* open_operators() { return new OperatorsScope; }
int close_operators(void* scope) {
  const std::unique_ptr<OperatorsScope> owned(static_cast<OperatorsScope*>(scope));
  return owned->products.count;
}

struct CountsAll : bridge::OperatorMode {
  void call(bridge::OperatorCall& call) override { ++count, call.compute(); }
  int count = 0;
};
struct RandomScope {
  bool available = bridge::operator_modes_available<bridge::RandomOperators>();
  CountsAll all;
  bridge::OperatorScope<bridge::RandomOperators> scope{all};
};
void* open_random() { return new RandomScope; }
int close_random(void* scope) {
  const std::unique_ptr<RandomScope> owned(static_cast<RandomScope*>(scope));
  return owned->available ? owned->all.count : -1;
}
void drop() { at::dropout(at::ones({4}).sin(), 0.5, /*train=*/true).mul(2); }

bool train() {
  auto x = at::full({4}, 3.0).requires_grad_();
  (x * x).sum().backward();  // a product saves two tensors
  return at::equal(x.grad(), at::full({4}, 6.0));
}

const at::Tensor& tensor_at(const void* tensor) { return *static_cast<const at::Tensor*>(tensor); }

void* leaf() { return new at::Tensor(at::ones({2}).requires_grad_()); }
void* hook(const void* leaf, int& calls) {
  return new bridge::PostAccumulateHook(tensor_at(leaf), [&calls](const at::Tensor&) { ++calls; });
}
void unhook(void* hook) { delete static_cast<bridge::PostAccumulateHook*>(hook); }
void backward(const void* leaf) { (tensor_at(leaf) * 2).sum().backward(); }

std::int64_t bytes() { return bridge::MemoryCounter(c10::kCPU).now(); }
void* allocate(std::int64_t count) { return new at::Tensor(at::empty({count}, at::kByte)); }
void free_tensor(void* tensor) { delete static_cast<at::Tensor*>(tensor); }
bool counted(const void* tensor) { return bridge::counted(tensor_at(tensor)); }

struct ReturnsSeven : bridge::LinearHookV1 {
  int calls = 0;
  std::optional<at::Tensor> linear(const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&) override {
    ++calls;
    return at::full({1}, 7);
  }
};
struct LinearScope {
  std::shared_ptr<ReturnsSeven> hook = std::make_shared<ReturnsSeven>();
  bridge::LinearScope scope{hook};
};
void* open_linear_scope() { return new LinearScope; }
int close_linear_scope(void* scope) {
  const std::unique_ptr<LinearScope> owned(static_cast<LinearScope*>(scope));
  return owned->hook->calls;
}
bool linear(bool intercepted) {
  auto y = at::linear(at::ones({1, 2}), at::ones({1, 2}));
  return y.item<float>() == (intercepted ? 7 : 2);
}

bool attend() {
  auto q = at::ones({1, 1, 2, 3}), v = at::full({1, 1, 2, 3}, 5.0);
  auto y = modules::attention(q, q, v, {.form = modules::AttentionForm::Composed});
  return at::allclose(y, v);
}

struct PoolScope {
  MemPool pool;
  UseMemPool scope{pool};
};
void* open_pool() { return new PoolScope; }
int close_pool(void* scope) {
  const std::unique_ptr<PoolScope> owned(static_cast<PoolScope*>(scope));
  return static_cast<int>(owned->pool.hits() + owned->pool.misses());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Plugin* ikebana_test_plugin() {
  static const Plugin plugin{available,
                             engine,
                             open_saved,
                             close_saved,
                             open_operators,
                             close_operators,
                             open_random,
                             close_random,
                             drop,
                             train,
                             leaf,
                             hook,
                             unhook,
                             backward,
                             bytes,
                             allocate,
                             free_tensor,
                             counted,
                             open_linear_scope,
                             close_linear_scope,
                             linear,
                             attend,
                             open_pool,
                             close_pool};
  return &plugin;
}
