#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/profiling/profile_answers.hpp>
#include <ikebana/profiling/report_numbers.hpp>
#include <ikebana/profiling/run_profile.hpp>
#include <map>

namespace ikebana::detail {

IKEBANA_INLINE bool is_copy(const std::string& name) {
  static constexpr std::array names{"aten::copy_",      "aten::_to_copy", "aten::clone",
                                    "aten::contiguous", "aten::cat",      "aten::stack"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

IKEBANA_INLINE double own_microseconds(const ProfileRow& row, bool is_cpu) {
  return is_cpu ? row.self_cpu_time_total : row.self_device_time_total;
}

IKEBANA_INLINE bool is_operator(const ProfileRow& row) {
  return !row.is_user_annotation && row.device_type == c10::DeviceType::CPU &&
         row.key.find("::") != std::string::npos && !row.key.starts_with("autograd::") &&
         !row.key.starts_with("torch::autograd::");
}

IKEBANA_INLINE double profiled_microseconds(const KeyAverages& averages) {
  double steps = 0, all = 0;
  for (const ProfileRow& row : averages) {
    if (row.device_type != c10::DeviceType::CPU) continue;
    all += row.self_cpu_time_total;
    if (row.key == "ProfilerStep*") steps += row.cpu_time_total;
  }
  return steps > 0 ? steps : all;
}

IKEBANA_INLINE std::optional<OperatorShares> operator_shares(const KeyAverages& averages,
                                                             bool is_cpu, std::size_t count) {
  const double total = profiled_microseconds(averages);
  if (!(total > 0)) return {};
  OperatorShares shares;
  std::map<std::string, double> by_name;
  for (const ProfileRow& row : averages) {
    if (row.device_type != c10::DeviceType::CPU && !row.is_user_annotation)
      shares.busy += row.self_device_time_total / total;  // a kernel
    if (!is_operator(row)) continue;
    const double part = own_microseconds(row, is_cpu) / total;
    by_name[row.key] += part;
    if (is_cpu) shares.busy += part;
    if (is_copy(row.key)) shares.copies += part;
  }
  shares.busy = std::min(shares.busy, 1.0);  // kernels of two streams overlap
  shares.largest.assign(by_name.begin(), by_name.end());
  std::erase_if(shares.largest, [](const auto& one) { return !(one.second > 0); });
  std::stable_sort(shares.largest.begin(), shares.largest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (shares.largest.empty()) return {};
  shares.largest.resize(std::min(count, shares.largest.size()));
  return shares;
}

IKEBANA_INLINE std::string gain_text(const Advice& advice) {
  std::string text;
  if (advice.expected_gain) text = "expected to save " + percent(*advice.expected_gain);
  if (advice.measured_gain)
    text += (text.empty() ? "" : "; ") +
            (*advice.measured_gain >= 0 ? "saved " + percent(*advice.measured_gain)
                                        : "took " + percent(-*advice.measured_gain) + " more") +
            " when it was tried";
  return text;
}

IKEBANA_INLINE bool on_cpu(const RunProfile& profile) {
  return profile.conditions.device.starts_with("cpu");
}

inline Answer step_answer(const RunProfile& profile) {
  if (profile.step.count == 0) return {"step", "not measured", ""};
  std::string text = "median of " + std::to_string(profile.step.count) + " steps, p95 " +
                     duration_text(profile.step.p95);
  if (profile.items_per_second > 0)
    text += "; " + counted_text(profile.items_per_second, "items/s");
  return {"step", duration_text(profile.step.median), text};
}

inline Answer data_answer(const RunProfile& profile) {
  if (profile.step.count == 0) return {"waits for data", "not measured", ""};
  return {"waits for data", percent(profile.share_of_data()),
          "of the time; " + duration_text(profile.waiting.mean) + " per step"};
}

inline Answer busy_answer(const RunProfile& profile, const std::optional<OperatorShares>& shares) {
  if (!shares) return {"device is busy", "not measured", "no operators were recorded"};
  std::string text = on_cpu(profile) ? "of the time is in operators; the rest is in what calls them"
                                     : "of the time is in kernels";
  double flops = 0, least = 0;
  for (const RooflinePoint& p : profile.roofline.operators) {
    if (p.flops == 0) continue;
    flops += static_cast<double>(p.flops);
    least += static_cast<double>(p.flops) / profile.roofline.bounds.flops_per_second(p.dtype);
  }
  if (flops > 0 && profile.step.mean > 0 && std::isfinite(least))
    text += "; " + short_number(flops / profile.step.mean) + "FLOP/s, " +
            percent(least / profile.step.mean) + " of the matmul bound";
  return {"device is busy", percent(shares->busy), text};
}

inline Answer largest_answer(const std::optional<OperatorShares>& shares) {
  if (!shares) return {"most time", "not measured", ""};
  std::string text;
  double all = 0;
  for (const auto& [name, share] : shares->largest) {
    text += (text.empty() ? "" : ", ") + name + " " + percent(share);
    all += share;
  }
  return {"most time", percent(all), "in " + text};
}

IKEBANA_INLINE std::vector<Answer> answers(const RunProfile& profile) {
  const auto shares = operator_shares(profile.operators, on_cpu(profile), 3);
  const Answer copies = shares ? Answer{"copies", percent(shares->copies),
                                        "of the time copies tensors, changes their dtype or layout"}
                               : Answer{"copies", "not measured", ""};
  return {step_answer(profile), data_answer(profile), busy_answer(profile, shares), copies,
          largest_answer(shares)};
}

}  // namespace ikebana::detail
