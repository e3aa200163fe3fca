#pragma once
// Writes a recipe as JSON: each policy by its name, with the values of its fields. Any aggregate is
// converted, so a new policy needs nothing here.
#include <algorithm>
#include <functional>
#include <ikebana.hpp>
#include <ikebana/modules/rotary.hpp>
#include <ikebana/state/files/json_writer.hpp>

namespace parity {

using ikebana::detail::JsonWriter;

inline void write(JsonWriter& out, bool value) { out.boolean(value); }
inline void write(JsonWriter& out, std::int64_t value) { out.integer(value); }
inline void write(JsonWriter& out, double value) { out.number(value); }
inline void write(JsonWriter& out, const std::string& text) { out.string(text); }
inline void write(JsonWriter& out, c10::Device device) { out.string(device.str()); }
template <std::size_t n>
void write(JsonWriter& out, const std::array<double, n>& all) {
  out.value(all);
}
inline void write(JsonWriter& out, const std::vector<double>& all) { out.value(all); }
inline void write(JsonWriter& out, const std::vector<std::int64_t>& all) { out.value(all); }
template <class Number>
void write(JsonWriter& out, const std::optional<Number>& given) {
  given ? write(out, *given) : out.null();
}
inline void write(JsonWriter& out, const std::pair<std::optional<double>, double>& both) {
  out.array([&] { write(out, both.first), write(out, both.second); });
}
inline void write(JsonWriter& out, ikebana::CPUProducts way) {
  constexpr const char* names[] = {"fastest", "native", "fp32"};
  out.string(names[static_cast<int>(way)]);
}
inline void write(JsonWriter& out, ikebana::AdjustLR how) {
  out.string(how == ikebana::AdjustLR::Original ? "original" : "match_rms_adamw");
}
inline void write(JsonWriter& out, const ikebana::OperatorRule&) { out.null(); }  // changes no bit
/// Writes a weight of classes.
inline void write(JsonWriter& out, const at::Tensor& weight) {
  if (!weight.defined()) return out.null();
  if (weight.dim() != 1) throw std::runtime_error("parity: of tensors only vectors travel");
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < weight.numel(); ++i) numbers.push_back(weight[i].item<double>());
  out.value(numbers);
}
inline void write(JsonWriter& out, ikebana::DecayForm form) {
  out.string(ikebana::detail::name_of(form));
}
inline void write(JsonWriter& out, ikebana::ReduceLROnPlateau::Mode mode) {
  out.string(mode == ikebana::ReduceLROnPlateau::min ? "min" : "max");
}
inline void write(JsonWriter& out, ikebana::ReduceLROnPlateau::ThresholdMode mode) {
  out.string(mode == ikebana::ReduceLROnPlateau::rel ? "rel" : "abs");
}
inline void write(JsonWriter& out, ikebana::OneCycleLR::AnnealStrategy form) {
  out.string(form == ikebana::OneCycleLR::cos ? "cos" : "linear");
}
inline void write(JsonWriter& out, ikebana::CyclicLR::Mode mode) {
  constexpr const char* names[] = {"triangular", "triangular2", "exp_range"};
  out.string(names[mode]);
}
inline void write(JsonWriter& out, ikebana::CyclicLR::ScaleMode mode) {
  out.string(mode == ikebana::CyclicLR::cycle ? "cycle" : "iterations");
}
/// A function of the step is written as its first values.
inline void write(JsonWriter& out, const std::function<double(std::int64_t)>& of_step) {
  out.array([&] {
    for (std::int64_t step = 0; step < 32; ++step) out.number(of_step(step));
  });
}
/// A rule is not written: the Python reference knows its meaning from the policy it is in.
inline void write(JsonWriter& out, const ikebana::ParameterRule&) { out.null(); }
/// A function is not written, since no row has one.
inline void write(JsonWriter& out, const std::function<double(double)>&) { out.null(); }
inline void write(JsonWriter& out, const std::function<void()>&) { out.null(); }
/// The parameters of the row's model.
inline torch::OrderedDict<std::string, at::Tensor> row_parameters;
/// Writes the names that the first of the groups with a matching rule is the `g`th for.
inline void write_names(JsonWriter& out, const std::vector<ikebana::Group>& groups, std::size_t g) {
  out.array("params", [&] {
    for (const auto& item : row_parameters) {
      auto matches = [&](const ikebana::Group& group) {
        return group.match(item.key(), item.value());
      };
      if (std::ranges::find_if(groups, matches) == groups.begin() + static_cast<std::ptrdiff_t>(g))
        out.string(item.key());
    }
  });
}
/// Writes the schedule of a group as factors of its lr, which is exact for a LambdaLR.
inline void write(JsonWriter& out, const ikebana::GroupSchedule& schedule) {
  write(out, std::function([&](std::int64_t step) { return schedule.rate(1, step); }));
}
inline void write(JsonWriter& out, const std::vector<ikebana::Group>& groups) {
  const auto write_group = [&](std::size_t g) {
    const ikebana::Group& group = groups[g];
    write_names(out, groups, g);
    auto add = [&](const char* name, const auto& value) {
      if (value) out.key(name), write(out, *value);
    };
    add("lr", group.lr), add("weight_decay", group.weight_decay), add("betas", group.betas);
    add("eps", group.eps), add("momentum", group.momentum);
    add("schedule", group.schedule ? &group.schedule : nullptr);
  };
  out.array([&] {
    for (std::size_t g = 0; g < groups.size(); ++g) out.object([&] { write_group(g); });
  });
}

template <class Policy>
void write_fields(JsonWriter& out, const Policy& policy);
template <class... Schedules>
void write_fields(JsonWriter& out, const ikebana::SequentialLR<Schedules...>& v);
template <class... Schedules>
void write_fields(JsonWriter& out, const ikebana::ChainedScheduler<Schedules...>& v);
template <class Schedule>
void write_fields(JsonWriter& out, const ikebana::PerEpoch<Schedule>& v);
void write_fields(JsonWriter& out, const ikebana::OneCycleLR& v);
/// Writes a member: {"StepLR": {"step_size": 2, ...}}
template <class Policy>
void write_named(JsonWriter& out, const Policy& policy) {
  out.key(ikebana::detail::type_name<Policy>());
  write_fields(out, policy);
}
template <class... Choices>
void write(JsonWriter& out, const std::variant<Choices...>& choice) {
  out.object([&] { std::visit([&](const auto& one) { write_named(out, one); }, choice); });
}

void write(JsonWriter& out, const ikebana::AdamW& otherwise);
void write(JsonWriter& out, const ikebana::modules::RotaryScaling& scaling);
template <class Policy>
void write_fields(JsonWriter& out, const Policy& policy) {
  out.object([&] {
    if constexpr (ikebana::detail::Fields<Policy>) {
      ikebana::detail::with_fields(policy, [&](const auto&... field) {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
          ((out.key(ikebana::detail::field_name<Policy, I>()), write(out, field)), ...);
        }(std::make_index_sequence<sizeof...(field)>());
      });
    }
  });
}

inline void write(JsonWriter& out, const ikebana::AdamW& otherwise) {
  write_fields(out, otherwise);
}
inline void write(JsonWriter& out, const ikebana::modules::RotaryScaling& scaling) {
  write_fields(out, scaling);
}

template <class... Schedules>
void write_schedules(JsonWriter& out, const std::tuple<Schedules...>& all) {
  auto add = [&](const auto& one) { out.object([&] { write_named(out, one); }); };
  out.array("schedules", [&] { std::apply([&](const auto&... one) { (add(one), ...); }, all); });
}
template <class... Schedules>
void write_fields(JsonWriter& out, const ikebana::SequentialLR<Schedules...>& v) {
  out.object([&] {
    write_schedules(out, v.schedules);
    out.member("milestones", v.milestones);
  });
}
template <class... Schedules>
void write_fields(JsonWriter& out, const ikebana::ChainedScheduler<Schedules...>& v) {
  out.object([&] { write_schedules(out, v.schedules); });
}
template <class Schedule>
void write_fields(JsonWriter& out, const ikebana::PerEpoch<Schedule>& v) {
  out.object([&] { out.object("schedule", [&] { write_named(out, v.schedule); }); });
}
/// It has more fields than `with_fields` takes.
inline void write_fields(JsonWriter& out, const ikebana::OneCycleLR& v) {
  auto add = [&](const char* name, const auto& value) { out.key(name), write(out, value); };
  out.object([&] {
    add("max_lr", v.max_lr), add("total_steps", v.total_steps), add("epochs", v.epochs);
    add("steps_per_epoch", v.steps_per_epoch), add("pct_start", v.pct_start);
    add("anneal_strategy", v.anneal_strategy), add("cycle_momentum", v.cycle_momentum);
    add("base_momentum", v.base_momentum), add("max_momentum", v.max_momentum);
    add("div_factor", v.div_factor), add("final_div_factor", v.final_div_factor);
    add("three_phase", v.three_phase), add("warmup_steps", v.warmup_steps);
  });
}

/// Returns the text of an object whose members `write_members(out)` writes.
template <class Write>
std::string object_json(Write&& write_members) {
  JsonWriter out;
  out.object([&] { write_members(out); });
  return std::move(out).text();
}
/// Returns {"AdamW": {"lr": 0.001, ...}, "Precision<BF16>": {}}.
template <class... Policies>
std::string recipe_json(const Policies&... policies) {
  return object_json([&](JsonWriter& out) { (write_named(out, policies), ...); });
}
/// Returns {"GPT": {"layers": 2, ...}}.
template <class Config>
std::string net_json(const std::string& name, const Config& config) {
  return object_json([&](JsonWriter& out) { out.key(name), write_fields(out, config); });
}
inline std::string json(double value) {
  JsonWriter out;
  out.number(value);
  return std::move(out).text();
}

}  // namespace parity
