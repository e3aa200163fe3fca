#pragma once
// Guarantees of fake tensors: whatever operator a computation calls, its kernel and the fake mode
// return the same layouts and allocate the same bytes.
#include <ikebana/fake/shape_rules.hpp>
#include "test.hpp"

#include <functional>
#include <ikebana/fake/fake_ledger.hpp>
#include <ikebana/fake/fake_mode.hpp>
#include <ikebana/fake/scratch_rules.hpp>
#include <set>

namespace test::fake {

using Tensors = std::vector<at::Tensor>;
using ikebana::bridge::OperatorCall;
namespace detail = ikebana::detail;
/// One result.
struct Layout {
  std::vector<std::int64_t> sizes, strides;
  std::string type;
  std::size_t bytes = 0;
  int argument = -1;  // the argument whose memory it is

  bool operator==(const Layout&) const = default;
  std::string text() const {
    return c10::str(type, sizes, "/", strides, ", ", bytes, " bytes, argument ", argument);
  }
};
struct Outcome {
  std::vector<Layout> results;
  std::int64_t net = 0, scratch = 0;
};

inline Tensors tensors_of(c10::ArrayRef<c10::IValue> values) {
  Tensors all;
  for (const c10::IValue& value : values)
    if (value.isNone()) all.emplace_back();
    else if (value.isTensor()) all.push_back(value.toTensor());
    else detail::visit_tensors(value, [&](const at::Tensor& t) { all.push_back(t); });
  return all;
}
/// Strides of dimensions that have no second element mean nothing.
inline Layout layout_of(const at::Tensor& t, const Tensors& arguments) {
  if (!t.defined()) return {};
  Layout layout{t.sizes().vec(), t.strides().vec(), c10::toString(t.scalar_type()),
                t.storage().nbytes()};
  for (std::size_t i = 0; i < layout.sizes.size(); ++i)
    if (layout.sizes[i] == 1 || t.numel() == 0) layout.strides[i] = 1;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].defined() && detail::same_storage(arguments[i], t))
      layout.argument = static_cast<int>(i);
  return layout;
}
/// Runs `f`, which leaves its results on `stack`.
template <class F>
Outcome outcome(const ikebana::bridge::MemoryCounter& memory, const Tensors& arguments,
                std::size_t results, torch::jit::Stack& stack, F&& f) {
  auto counter = memory;
  const std::int64_t before = counter.now();
  counter.reset_peak();
  f();
  Outcome o;
  o.net = counter.now() - before;
  o.scratch = counter.peak() - std::max(before, counter.now());
  for (const at::Tensor& t : tensors_of(c10::ArrayRef(stack).slice(stack.size() - results)))
    o.results.push_back(layout_of(t, arguments));
  return o;
}

/// Computes each operator, and runs it on fake tensors, too. What kernels allocate besides their
/// results is compared if a rule counts it: within half of it and 256 KiB, since scratchpads of
/// oneDNN have a fixed part.
class Comparison : public ikebana::bridge::OperatorMode {
 public:
  std::set<std::string> seen, counted, faults;  // `counted`: whose scratch a rule counts

  void call(OperatorCall& call) override {
    if (inside_) return call.compute();
    seen.insert(c10::toString(call.name()));
    std::string text = c10::toString(call.name()) + " of";
    detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
      text += c10::str(" ", t.scalar_type(), t.sizes(),
                       t.is_contiguous() ? "" : c10::str("/", t.strides()));
    });
    torch::jit::Stack fakes = fakes_of(call.arguments()), results;
    const Tensors given = tensors_of(call.arguments());
    const Outcome real = outcome(real_, given, call.schema().returns().size(), results, [&] {
      call.compute();
      results.assign(call.results().begin(), call.results().end());
    });
    if (const std::string fault = difference(call, real, fakes); !fault.empty())
      faults.insert(text + ": " + fault);
  }

 private:
  std::string difference(const OperatorCall& call, const Outcome& real, torch::jit::Stack& stack) {
    inside_ = true;
    const Tensors given = tensors_of(stack);
    Outcome fake;
    const std::string error = message_of([&] {
      const ikebana::bridge::FakeTensorScope scope(mode_);
      const auto tls = c10::impl::tls_local_dispatch_key_set();
      const c10::DispatchKeySet key(ikebana::bridge::operator_key);
      const c10::impl::ForceDispatchKeyGuard seen_by_mode(tls.included_ | key, tls.excluded_ - key);
      fake = outcome(counter_, given, call.schema().returns().size(), stack,
                     [&] { call.op().callBoxed(stack); });
    });
    inside_ = false;
    const bool reads = call.op().hasTag(at::Tag::data_dependent_output) ||
                       call.op().hasTag(at::Tag::dynamic_output_shape);
    if (reads && ikebana::bridge::shape_rule(c10::toString(call.name())) == nullptr)
      return contains(error, "needs the values of a tensor") ? "" : "is not refused " + error;
    return !error.empty() ? error.substr(0, 200) : difference(call, real, fake);
  }
  std::string difference(const OperatorCall& call, const Outcome& real, const Outcome& fake) {
    if (real.results.size() != fake.results.size()) return "another number of results";
    for (std::size_t i = 0; i < real.results.size(); ++i)
      if (real.results[i] != fake.results[i] && !is_workspace(call, i, real, fake))
        return c10::str("result ", i, " is ", real.results[i].text(), ", fake ",
                        fake.results[i].text());
    if (real.net != fake.net && !is_workspace(call, 3, real, fake))
      return c10::str("allocates ", real.net, ", fake ", fake.net);
    if (fake.scratch > 0) counted.insert(call.name().name);
    if (fake.scratch > 0 && std::abs(real.scratch - fake.scratch) > real.scratch / 2 + (256 << 10))
      return c10::str("needs ", real.scratch, " bytes of scratch, fake ", fake.scratch);
    return "";
  }

  /// The rule for what oneDNN keeps of a recurrent layer was found by measuring: it is exact up to
  /// one page of memory.
  static bool is_workspace(const OperatorCall& call, std::size_t i, const Outcome& real,
                           const Outcome& fake) {
    return i == 3 && call.name().name == "aten::mkldnn_rnn_layer" &&
           std::abs(real.net - fake.net) <= 4096;
  }

  /// Two arguments that share memory have counterparts that do.
  torch::jit::Stack fakes_of(c10::ArrayRef<c10::IValue> arguments) {
    std::map<c10::StorageImpl*, c10::Storage> storages;
    auto fake = [&](const at::Tensor& t) {
      auto& storage = storages[detail::key_of(t)];
      if (!storage)
        storage = mode_.make({static_cast<std::int64_t>(t.storage().nbytes())}, at::kByte, at::kCPU)
                      .storage();
      return detail::tensor_over(storage, t);
    };
    torch::jit::Stack stack;
    for (const c10::IValue& value : arguments) stack.push_back(detail::with_tensors(value, fake));
    return stack;
  }

  using Ledger = ikebana::bridge::FakeLedger;
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  ikebana::bridge::FakeTensorMode mode_{ledger_};
  ikebana::bridge::MemoryCounter real_{at::kCPU}, counter_{ledger_->of(at::kCPU)};
  bool inside_ = false;
};

/// Makes the inputs of a case, of one dtype and in one layout.
struct Make {
  at::ScalarType type = at::kFloat;
  bool is_transposed = false;

  at::Tensor operator()(std::vector<std::int64_t> sizes) const {
    return data(sizes).requires_grad_();
  }
  at::Tensor data(std::vector<std::int64_t> sizes) const {
    const bool swap = is_transposed && sizes.size() > 1;
    if (swap) std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
    at::Tensor t = at::rand(sizes, at::kFloat).to(type);
    return swap ? t.transpose(-1, -2) : t;
  }
  at::Tensor indices(std::int64_t below, at::IntArrayRef sizes) const {
    return at::randint(below, sizes, at::kLong);
  }
  at::Tensor mask(at::IntArrayRef sizes) const { return at::rand(sizes) < 0.5; }
};

inline void flatten(const at::Tensor& t, Tensors& all) { all.push_back(t); }
inline void flatten(const Tensors& list, Tensors& all) {
  all.insert(all.end(), list.begin(), list.end());
}
template <class... T>
void flatten(const std::tuple<T...>& tuple, Tensors& all) {
  std::apply([&](const auto&... t) { (flatten(t, all), ...); }, tuple);
}

enum class Kinds { All, OnlyFloat };
struct Case {
  const char* name;
  std::function<Tensors(const Make&)> compute;
  Kinds kinds = Kinds::All;

  template <class F>
  Case(const char* n, F f, Kinds k = Kinds::All)
      : name(n),
        compute([f](const Make& make) {
          Tensors all;
          flatten(f(make), all);
          return all;
        }),
        kinds(k) {}
};

inline std::vector<Case> joined(const std::vector<std::vector<Case>>& lists) {
  std::vector<Case> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}
/// Calls forward, and backward if there is one.
inline void run(const Case& one, const Make& make) {
  const Tensors results = one.compute(make);
  Tensors roots, ones;
  for (const at::Tensor& t : results)
    if (t.defined() && t.requires_grad()) roots.push_back(t), ones.push_back(at::ones_like(t));
  if (!roots.empty()) torch::autograd::backward(roots, ones);
}
inline Comparison compared(const std::vector<Case>& cases) {
  Comparison comparison;
  for (const Case& one : cases)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      for (const bool transposed : {false, true}) {
        if (type == at::kBFloat16 && one.kinds == Kinds::OnlyFloat) continue;
        const Make make{type, transposed};
        const std::string error = message_of([&] {
          run(one, make);
          const ikebana::bridge::OperatorScope<> scope(comparison);
          run(one, make);
        });
        if (!error.empty())
          comparison.faults.insert(c10::str(one.name, " ", type, transposed ? " transposed " : " ",
                                            error.substr(0, 200)));
      }
  return comparison;
}
/// Returns the faults, and the operators of tables of rules that no case called.
template <class... Tables>
std::string faults_of(const std::vector<Case>& cases, const Tables&... tables) {
  Comparison comparison = compared(cases);
  auto check = [&](const auto& table) {
    constexpr bool is_scratch =
        std::is_same_v<decltype(std::begin(table)->second), const ikebana::bridge::ScratchRule>;
    for (const auto& [name, rule] : table)
      if ((is_scratch ? comparison.counted : comparison.seen).count(std::string(name)) == 0)
        comparison.faults.insert(std::string(name) + " has a rule and no case");
  };
  (check(tables), ...);
  return c10::Join("\n", comparison.faults);
}

}  // namespace test::fake
