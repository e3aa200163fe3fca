#pragma once
// What a trainer holds, in one heap block that hooks and graphs hold weakly.
#include <atomic>
#include <ikebana/core/guard.hpp>
#include <ikebana/core/claim.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/core/mechanisms.hpp>
#include <ikebana/parameters/parameters.hpp>
#include <ikebana/run/run.hpp>

namespace ikebana {

/// The model, its units, the mechanisms of its recipe, and where its parameters rest.
template <class ModelT, class RecipeT>
class Core : public std::enable_shared_from_this<Core<ModelT, RecipeT>> {
 public:
  using Model = ModelT;

  template <class Values>
  Core(detail::handle_of_t<Model> m, Values values)
      : model(std::move(m)),
        mechanisms(std::move(values)),
        units(placed()),
        device(units.units()[0].module->parameters()[0].device()),
        claim_((mechanisms.freeze.freeze(units), trained())),
        parameters((attach(), mechanisms), units) {
    mechanisms.each([&](auto& mechanism) { mechanism.begin(parameters.masters()); });
  }

  /// The onion around one unit, outermost first; `body` is what recompute does again. A frame over
  /// several units is around what gathers each of them.
  template <class Body, class... Args>
  auto around_unit(const Unit& unit, const Body& body, Args&&... args) {
    auto& m = mechanisms;
    unit_was_run = true;
    auto framed = [&](auto&&... a) {
      return m.checkpoint.around_gathered_unit(unit, Gathered<Body>{this, &unit, &body},
                                               std::forward<decltype(a)>(a)...);
    };
    return m.observe.around_unit(unit, framed, std::forward<Args>(args)...);
  }
  /// The part of it that gathers the unit's parameters.
  template <class Body, class... Args>
  auto around_gathered(const Unit& unit, Body& body, Args&&... args) {
    auto& m = mechanisms;
    auto checkpointed = [&](auto&&... a) {
      return m.checkpoint.around_unit(unit, body, std::forward<decltype(a)>(a)...);
    };
    auto offloaded = [&](auto&&... a) {
      return m.offload.around_unit(unit, checkpointed, std::forward<decltype(a)>(a)...);
    };
    auto sharded = [&](auto&&... a) {
      return m.shard.around_unit(unit, offloaded, std::forward<decltype(a)>(a)...);
    };
    return parameters.around_unit(unit, sharded, std::forward<Args>(args)...);
  }
  /// The part of the onion that recompute does again.
  template <class Forward, class... Args>
  auto around_inner(const Unit& unit, const Forward& forward, Args&&... args) {
    auto& m = mechanisms;
    auto quantized = [&](auto&&... a) {
      return m.quantize.around_unit(unit, forward, std::forward<decltype(a)>(a)...);
    };
    return m.precision.around_unit(unit, quantized, std::forward<Args>(args)...);
  }

  void backward() {
    for (at::Tensor& seed : roots.seeds) seed = mechanisms.precision.scale(seed);  // 7
    parameters.backward(roots);                                                    // 8
    roots.clear();
  }
  void collect_gradients() {
    gradients.indices.clear(), gradients.values.clear();
    gradients.divisor.reset(), gradients.norm.reset(), gradients.found_inf.reset();
    gradients.loss_is_scaled = false;
    const Tensors& masters = parameters.masters().values;
    for (std::size_t i = 0; i < masters.size(); ++i) {
      const at::Tensor& gradient = masters[i].grad();
      if (!gradient.defined()) continue;
      gradients.indices.push_back(i);
      gradients.values.push_back(gradient.is_sparse() ? gradient.coalesce() : gradient);
    }
    if (gradients.indices.empty() && !mechanisms.optimizer.has_updated())
      throw BadModel(
          "loss: no parameter that is trained got a gradient from it. Compute it from the model's "
          "output.");
  }
  /// Freed, not zeroed.
  void forget_gradients() noexcept {
    gradients.values.clear();
    for (const auto& master : parameters.masters().values) master.mutable_grad().reset();
  }
  void abort() noexcept {
    roots.clear();
    forget_gradients();
    parameters.abort();
    mechanisms.each([](auto& mechanism) { mechanism.abort(); });
  }
  void state(Archive& archive) {
    generators(archive);
    parameters.state(archive);
    archive.model();
    for (auto& item : units.units()[0].module->named_buffers())
      archive.tensor(item.key(), item.value());
    archive.under("trainer");
    archive.number("step", attempts);
    mechanisms.each([&](auto& mechanism) {
      archive.under(detail::type_name<std::decay_t<decltype(mechanism.values)>>());
      mechanism.state(archive, parameters.masters());
    });
  }

  detail::handle_of_t<Model> model;
  Mechanisms<RecipeT> mechanisms;
  UnitTable units;
  c10::Device device;

 private:
  detail::ParameterClaim claim_;  // before parameters are taken from the model

 public:
  ParametersOf<Mechanisms<RecipeT>> parameters;
  Roots roots;              // of the present microbatch; kept, as the next, to keep its memory
  StepGradients gradients;  // of the present step
  detail::DeferredCheck deferred;
  std::int64_t attempts = 0;                     // steps begun and not undone
  std::size_t microbatch = 0, microbatches = 0;  // where the present step is
  bool unit_was_run = false;
  std::atomic<bool> busy = false;

 private:
  /// `around_gathered` as checkpoint is given it.
  template <class Body>
  struct Gathered {
    Core* core;
    const Unit* unit;
    const Body* body;

    template <class... Args>
    auto operator()(Args&&... args) const {
      return core->around_gathered(*unit, *body, std::forward<Args>(args)...);
    }
    /// A copy that may outlive this call.
    auto owned() const {
      return [weak = core->weak_from_this(), indices = unit,
              again = body->owned()](auto&&... args) mutable {
        return detail::lock_or_throw(weak)->around_gathered(*indices, again,
                                                          std::forward<decltype(args)>(args)...);
      };
    }
  };

  UnitTable placed() {
    auto module = detail::module_of(model);
    if (!module) throw BadModel("trainer: the model is empty. Make it first: Net net(...).");
    if constexpr (requires { mechanisms.device.values.device; })
      detail::move(*module, mechanisms.device.values.device);
    detail::check_trainable(*module);
    return UnitTable::of(model);
  }
  Tensors trained() const {
    Tensors all;
    for (const Unit& unit : units.units())
      for (const auto& p : unit.parameters)
        if (p.requires_grad()) all.push_back(p);
    return all;
  }
  void attach() {
    mechanisms.each([&](auto& mechanism) { mechanism.attach(device, units); });
  }
  /// Random numbers go on where they were: the CPU's generator and the device's.
  void generators(Archive& archive) {
    archive.under("trainer");
    generator(archive, "cpu_generator", at::kCPU);
    if (!device.is_cpu()) generator(archive, "device_generator", device);
  }
  static void generator(Archive& archive, const char* name, c10::Device d) {
    auto generator = at::globalContext().defaultGenerator(d);
    std::lock_guard lock(generator.mutex());
    at::Tensor state = generator.get_state();
    archive.tensor(name, state);
    if (archive.loading()) return generator.set_state(state);
    const at::Tensor* given = archive.given(name, state);
    if (!archive.checking() || !given) return;
    try {
      generator.clone().set_state(given->cpu());
    } catch (const c10::Error& error) {
      archive.does_not_fit(name, "holds no generator's state (" + detail::message_of(error) + ")");
    }
  }
};

}  // namespace ikebana
