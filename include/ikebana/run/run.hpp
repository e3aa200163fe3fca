#pragma once
// `run(unit, args...)`: how a model's loss computes one unit, so that every mechanism is around it.
#include <functional>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/checks/policies.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

namespace detail {

/// A unit's own forward, given `run` where it takes one.
template <class Holder, class Run, class... Args>
auto call_forward(Holder& holder, Run& run, Args&&... args) {
  if constexpr (std::is_same_v<Holder, torch::nn::AnyModule>)
    return holder.any_forward(std::as_const(args)...);  // else an AnyValue would wrap itself
  else if constexpr (std::is_base_of_v<torch::nn::Module, Holder>)
    if constexpr (requires { holder.forward(run, args...); }) return holder.forward(run, args...);
    else return holder.forward(std::forward<Args>(args)...);
  else if constexpr (requires { holder->forward(run, args...); })
    return holder->forward(run, args...);
  else return holder->forward(std::forward<Args>(args)...);
}

/// A model that hands `run` on to its units: a Sequential, or one whose forward takes it.
template <class Run, class Model, class... Args>
concept hands_on =
    std::is_same_v<units_of_t<Model>, Children> ||
    requires(Run& run, Model& model, Args&&... args) { model->forward(run, args...); };

/// Through the units of such a model; the children of a Sequential one after the other.
template <class Run, class Model, class... Args>
auto run_units(Run& run, Model& model, Args&&... args) {
  if constexpr (std::is_same_v<units_of_t<Model>, Children>) {
    std::optional<torch::nn::AnyValue> value;
    for (torch::nn::AnyModule& child : *model)
      value = value ? run(child, *value) : run(child, args...);
    return value->template get<at::Tensor>();
  } else {
    return model->forward(run, std::forward<Args>(args)...);
  }
}

/// A holder that owns its module, of whatever was given to `run`.
template <class Holder>
auto owning(Holder& holder) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Holder>)
    return std::static_pointer_cast<Holder>(holder.shared_from_this());
  else return holder;
}

/// What a trainer holds, for a recompute that may come after its end.
template <class Core>
std::shared_ptr<Core> lock_or_throw(const std::weak_ptr<Core>& core) {
  if (auto alive = core.lock()) return alive;
  throw BadRecompute(
      "checkpoint: backward came after the trainer was destroyed, and it needs the trainer to "
      "compute a unit again. Keep the trainer as long as the graph.");
}

/// Why this is not the result of a loss.
template <class Result>
consteval auto loss_refusal() {
  if constexpr (std::is_convertible_v<Result, Loss>) return refuse::is<refuse::Nothing>{};
  else return refuse::is<refuse::NotALoss<std::remove_cvref_t<Result>>>{};
}

/// A model that shows units inside, and is none of them itself.
template <class Model>
inline constexpr bool opens = shows_units<Model> && !listed<Model, units_of_t<Model>>;

template <class Unit, class Model>
inline constexpr bool runnable =
    std::is_same_v<impl_of_t<Unit>, impl_of_t<Model>> ||
    (std::is_same_v<units_of_t<Model>, Children> && std::is_same_v<Unit, torch::nn::AnyModule>) ||
    listed<Unit, units_of_t<Model>>;

}  // namespace detail

/// Given to a model's `loss` and to objectives. `run(unit, args...)` computes
/// `unit->forward(args...)` inside every mechanism that works unit by unit; `run(model, args...)`
/// does so with each unit that the model shows. Arguments and results may be any values; tensors in
/// them are seen. A small value: copy it freely, while the trainer lives.
template <class Core>
class Run {
 public:
  Run(Core& core, bool is_evaluating) : evaluating(is_evaluating), core_(&core) {}

  template <class Holder, class... Args>
  auto operator()(Holder&& holder, Args&&... args) {
    using Module = std::remove_cvref_t<Holder>;
    if constexpr (!detail::runnable<Module, typename Core::Model>) {
      (void)sizeof(refuse::UndeclaredUnit<detail::impl_of_t<Module>,
                                          detail::impl_of_t<typename Core::Model>>);
      if constexpr (refuse::module_type<Module>)
        return detail::call_forward(holder, *this, std::forward<Args>(args)...);
    } else if constexpr (std::is_same_v<detail::impl_of_t<Module>,
                                        detail::impl_of_t<typename Core::Model>> &&
                         detail::opens<typename Core::Model> &&
                         detail::hands_on<Run, Module, Args...>) {
      return detail::run_units(*this, holder, std::forward<Args>(args)...);
    } else {
      const Unit& unit = core_->units.at(detail::module_address(holder));
      return core_->around_unit(unit, body(unit, holder), std::forward<Args>(args)...);
    }
  }

  /// True in `Trainer::evaluate`.
  bool evaluating;

 private:
  friend class Runner;

  template <class Holder>
  struct Body {
    Core* core;
    const Unit* unit;
    Holder* holder;
    bool evaluating;

    template <class... Args>
    auto operator()(Args&&... args) const {
      auto forward = [this](auto&&... inner) {
        Run run(*core, evaluating);
        return detail::call_forward(*holder, run, std::forward<decltype(inner)>(inner)...);
      };
      return core->around_inner(*unit, forward, std::forward<Args>(args)...);
    }
    /// A copy that may outlive this call, the model's variables, and even the trainer.
    auto owned() const {
      return [weak = core->weak_from_this(), which = unit, held = detail::owning(*holder),
              evaluates = evaluating](auto&&... args) mutable {
        auto alive = detail::lock_or_throw(weak);
        using Held = std::remove_reference_t<decltype(held)>;
        return typename Run::template Body<Held>{alive.get(), which, &held,
                                                 evaluates}(std::forward<decltype(args)>(args)...);
      };
    }
  };
  template <class Holder>
  auto body(const Unit& unit, Holder& holder) {
    return Body<std::remove_reference_t<Holder>>{core_, &unit, &holder, evaluating};
  }

  Core* core_;
};

/// `Run` with its type erased, for a `loss` that lives in a .cpp: `Loss loss(Runner& run, const
/// Batch&)`. Costs a few allocations a unit. Units are checked when they are run, not when
/// compiled.
class Runner {
 public:
  template <class Core>
  explicit Runner(Run<Core>& run)
      : evaluating(run.evaluating),
        opens_(detail::opens<typename Core::Model> ? run.core_->units.units()[0].module.get()
                                                   : nullptr),
        around_(
            [run](std::shared_ptr<torch::nn::Module> module, Erased body, Tensors inputs) mutable {
              const Unit& unit = run.core_->units.at(module.get());
              return run.core_->around_unit(
                  unit, ErasedBody<Run<Core>>{&run, &unit, std::move(body)}, std::move(inputs));
            }) {}

  template <class Holder, class... Args>
  auto operator()(Holder& holder, Args&&... args) {
    if constexpr (detail::hands_on<Runner, Holder, Args...>)
      if (detail::module_address(holder) == opens_)
        return detail::run_units(*this, holder, std::forward<Args>(args)...);
    std::tuple<std::decay_t<Args>...> kept(detail::copied(std::forward<Args>(args))...);
    using Result = decltype(detail::call_forward(holder, *this, args...));
    auto other = std::make_shared<std::optional<Result>>();  // what of the result is no tensor
    Tensors inputs = detail::take_tensors(kept);
    Erased body = [kept, other, holder = detail::owning(holder), run = *this](Tensors in) mutable {
      auto mine = std::as_const(kept);
      detail::put_tensors(mine, in);
      Result result =
          std::apply([&](auto&... arg) { return detail::call_forward(holder, run, arg...); }, mine);
      Tensors out = detail::take_tensors(result);
      *other = std::move(result);
      return out;
    };
    Tensors outputs = around_(detail::module_of(holder), std::move(body), std::move(inputs));
    Result result = std::move(**other);
    detail::put_tensors(result, outputs);
    return result;
  }

  /// True in `Trainer::evaluate`.
  bool evaluating;

 private:
  using Erased = std::function<Tensors(Tensors)>;

  template <class Run>
  struct ErasedBody {
    Run* run;
    const Unit* unit;
    Erased body;
    auto operator()(Tensors inputs) const {
      return run->core_->around_inner(*unit, body, std::move(inputs));
    }
    auto owned() const {
      return [weak = run->core_->weak_from_this(), which = unit, inner = body](Tensors inputs) {
        return detail::lock_or_throw(weak)->around_inner(*which, inner, std::move(inputs));
      };
    }
  };

  const torch::nn::Module* opens_;  // the model, where it does
  std::function<Tensors(std::shared_ptr<torch::nn::Module>, Erased, Tensors)> around_;
};

/// Runs a unit and wraps nothing: for a model used by hand, outside any trainer. Throws where a
/// trainer has taken the unit's parameters away.
struct Plain {
  bool evaluating = true;
  template <class Holder, class... Args>
  auto operator()(Holder& holder, Args&&... args) const {
    for (const auto& p : detail::module_of(holder)->parameters())
      if (p.dim() == 1 && p.numel() == 0)  // what a released parameter looks like
        throw BadModel("plain: the parameters of this " + detail::module_of(holder)->name() +
                       " rest elsewhere. Use Trainer::with_full_weights.");
    return detail::call_forward(holder, *this, std::forward<Args>(args)...);
  }
};
inline constexpr Plain plain;

}  // namespace ikebana
