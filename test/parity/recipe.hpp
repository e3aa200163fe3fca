#pragma once
// A recipe as JSON: each policy by its name, with the values of its fields. Any aggregate is
// converted, so a new policy needs nothing here.
#include <algorithm>
#include <charconv>
#include <functional>
#include <ikebana.hpp>
#include <ikebana/modules/rotary.hpp>

namespace parity {

inline std::string quoted(const std::string& text) { return ikebana::detail::Json::quoted(text); }
inline std::string json(bool value) { return value ? "true" : "false"; }
inline std::string json(std::int64_t value) { return std::to_string(value); }
inline std::string json(double value) {
  char text[32];  // the shortest that is read back as the same number
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
inline std::string json(c10::Device device) { return quoted(device.str()); }
template <std::size_t n>
std::string json(const std::array<double, n>& all) {
  std::string text;
  for (double value : all) text += (text.empty() ? "[" : ",") + json(value);
  return text + "]";
}
inline std::string json(const std::vector<double>& all) {
  std::string text;
  for (double one : all) text += (text.empty() ? "" : ",") + json(one);
  return "[" + text + "]";
}
inline std::string json(const std::vector<std::int64_t>& all) {
  return json(std::vector<double>(all.begin(), all.end()));
}
template <class Number>
std::string json(const std::optional<Number>& given) {
  return given ? json(*given) : "null";
}
inline std::string json(const std::pair<std::optional<double>, double>& both) {
  return "[" + json(both.first) + "," + json(both.second) + "]";
}
inline std::string json(ikebana::CPUProducts way) {
  constexpr const char* names[] = {"fastest", "native", "fp32"};
  return quoted(names[static_cast<int>(way)]);
}
inline std::string json(ikebana::AdjustLR how) {
  return how == ikebana::AdjustLR::Original ? "\"original\"" : "\"match_rms_adamw\"";
}
inline std::string json(const ikebana::OperatorRule&) { return "null"; }  // changes no bit
/// A weight of classes.
inline std::string json(const at::Tensor& weight) {
  if (!weight.defined()) return "null";
  if (weight.dim() != 1) throw std::runtime_error("parity: of tensors only vectors travel");
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < weight.numel(); ++i) numbers.push_back(weight[i].item<double>());
  return json(numbers);
}
inline std::string json(const std::string& text) { return quoted(text); }
inline std::string json(ikebana::DecayForm form) { return quoted(ikebana::detail::name_of(form)); }
inline std::string json(ikebana::ReduceLROnPlateau::Mode mode) {
  return quoted(mode == ikebana::ReduceLROnPlateau::min ? "min" : "max");
}
inline std::string json(ikebana::ReduceLROnPlateau::ThresholdMode mode) {
  return quoted(mode == ikebana::ReduceLROnPlateau::rel ? "rel" : "abs");
}
inline std::string json(ikebana::OneCycleLR::AnnealStrategy form) {
  return quoted(form == ikebana::OneCycleLR::cos ? "cos" : "linear");
}
inline std::string json(ikebana::CyclicLR::Mode mode) {
  constexpr const char* names[] = {"triangular", "triangular2", "exp_range"};
  return quoted(names[mode]);
}
inline std::string json(ikebana::CyclicLR::ScaleMode mode) {
  return quoted(mode == ikebana::CyclicLR::cycle ? "cycle" : "iterations");
}
/// A function of the step is written as its first values.
inline std::string json(const std::function<double(std::int64_t)>& of_step) {
  std::vector<double> values;
  for (std::int64_t step = 0; step < 32; ++step) values.push_back(of_step(step));
  return json(values);
}
/// A rule is not written: the Python reference knows its meaning from the policy it is in.
inline std::string json(const ikebana::ParameterRule&) { return "null"; }
/// A function is not written, since no row has one.
inline std::string json(const std::function<double(double)>&) { return "null"; }
inline std::string json(const std::function<void()>&) { return "null"; }
/// The parameters of the row's model.
inline torch::OrderedDict<std::string, at::Tensor> row_parameters;
/// The names that the first of the groups with a matching rule is the `g`th for.
inline std::string names_json(const std::vector<ikebana::Group>& groups, std::size_t g) {
  std::string text;
  for (const auto& item : row_parameters) {
    auto matches = [&](const ikebana::Group& group) {
      return group.match(item.key(), item.value());
    };
    if (std::ranges::find_if(groups, matches) == groups.begin() + static_cast<std::ptrdiff_t>(g))
      text += (text.empty() ? "" : ",") + quoted(item.key());
  }
  return "[" + text + "]";
}
/// The schedule of a group as factors of its lr: exact for a LambdaLR.
inline std::string json(const ikebana::GroupSchedule& schedule) {
  return json(std::function([&](std::int64_t step) { return schedule.rate(1, step); }));
}
inline std::string json(const std::vector<ikebana::Group>& groups) {
  std::string text;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const ikebana::Group& group = groups[g];
    text += (g > 0 ? ",{" : "{") + quoted("params") + ":" + names_json(groups, g);
    auto add = [&](const char* name, const auto& value) {
      if (value) text += "," + quoted(name) + ":" + json(*value);
    };
    add("lr", group.lr), add("weight_decay", group.weight_decay), add("betas", group.betas);
    add("eps", group.eps), add("momentum", group.momentum);
    add("schedule", group.schedule ? &group.schedule : nullptr);
    text += "}";
  }
  return "[" + text + "]";
}

template <class Policy>
std::string fields_json(const Policy& policy);
template <class... Choices>
std::string json(const std::variant<Choices...>& choice) {
  return std::visit(
      [](const auto& one) {
        return "{" + quoted(ikebana::detail::type_name<std::decay_t<decltype(one)>>()) + ":" +
               fields_json(one) + "}";
      },
      choice);
}

std::string json(const ikebana::AdamW& otherwise);
std::string json(const ikebana::modules::RotaryScaling& scaling);
template <class Policy>
std::string fields_json(const Policy& policy) {
  std::string text;
  if constexpr (ikebana::detail::Fields<Policy>) {
    ikebana::detail::with_fields(policy, [&](const auto&... field) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((text += (I > 0 ? "," : "") + quoted(ikebana::detail::field_name<Policy, I>()) + ":" +
                  json(field)),
         ...);
      }(std::make_index_sequence<sizeof...(field)>());
    });
  }
  return "{" + text + "}";
}

inline std::string json(const ikebana::AdamW& otherwise) { return fields_json(otherwise); }
inline std::string json(const ikebana::modules::RotaryScaling& scaling) {
  return fields_json(scaling);
}

/// {"StepLR": {"step_size": 2, ...}}
template <class Policy>
std::string named_json(const Policy& policy) {
  return "{" + quoted(ikebana::detail::type_name<Policy>()) + ":" + fields_json(policy) + "}";
}
template <class... Schedules>
std::string schedules_json(const std::tuple<Schedules...>& all) {
  std::string text;
  auto add = [&](const auto& one) { text += (text.empty() ? "" : ",") + named_json(one); };
  std::apply([&](const auto&... one) { (add(one), ...); }, all);
  return quoted("schedules") + ":[" + text + "]";
}
template <class... Schedules>
std::string fields_json(const ikebana::SequentialLR<Schedules...>& v) {
  return "{" + schedules_json(v.schedules) + ",\"milestones\":" + json(v.milestones) + "}";
}
template <class... Schedules>
std::string fields_json(const ikebana::ChainedScheduler<Schedules...>& v) {
  return "{" + schedules_json(v.schedules) + "}";
}
template <class Schedule>
std::string fields_json(const ikebana::PerEpoch<Schedule>& v) {
  return "{\"schedule\":" + named_json(v.schedule) + "}";
}
/// It has more fields than `with_fields` takes.
inline std::string fields_json(const ikebana::OneCycleLR& v) {
  std::string text;
  auto add = [&](const char* name, const auto& value) {
    text += (text.empty() ? "" : ",") + quoted(name) + ":" + json(value);
  };
  add("max_lr", v.max_lr), add("total_steps", v.total_steps), add("epochs", v.epochs);
  add("steps_per_epoch", v.steps_per_epoch), add("pct_start", v.pct_start);
  add("anneal_strategy", v.anneal_strategy), add("cycle_momentum", v.cycle_momentum);
  add("base_momentum", v.base_momentum), add("max_momentum", v.max_momentum);
  add("div_factor", v.div_factor), add("final_div_factor", v.final_div_factor);
  add("three_phase", v.three_phase), add("warmup_steps", v.warmup_steps);
  return "{" + text + "}";
}

/// {"AdamW": {"lr": 0.001, ...}, "Precision<BF16>": {}}
template <class... Policies>
std::string recipe_json(const Policies&... policies) {
  std::string text;
  ((text += (text.empty() ? "" : ",") + quoted(ikebana::detail::type_name<Policies>()) + ":" +
            fields_json(policies)),
   ...);
  return "{" + text + "}";
}

}  // namespace parity
