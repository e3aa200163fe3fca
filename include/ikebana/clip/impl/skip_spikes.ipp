#pragma once
#include <ikebana/clip/skip_spikes.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<SkipSpikes>::begin(const Masters& masters) {
  TotalNorm::begin(masters);
  window_.begin(values.window, masters.values.at(0).device());
}

IKEBANA_INLINE std::vector<Spike> Mechanism<SkipSpikes>::skips() const {
  std::vector<Spike> all;
  const auto [numbers, places] = window_.rows();
  const auto* x = numbers.const_data_ptr<double>();
  const auto* at = places.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < numbers.size(0); ++i, x += 4, at += 3) {
    all.push_back({at[0], x[0], x[1], x[2], x[3], {}});
    if (at[1] >= 0) all.back().position = BatchPosition{at[1], at[2]};
  }
  return all;
}

IKEBANA_INLINE std::string Mechanism<SkipSpikes>::describe() const {
  return "window=" + std::to_string(values.window) + ", zscore=" + c10::str(values.zscore) +
         ", max_skips=" + std::to_string(values.max_skips) +
         (values.error_if_nonfinite ? "" : ", skips a norm that is not finite");
}

IKEBANA_INLINE void Mechanism<SkipSpikes>::check() const {
  if (values.window < 2 || !(values.zscore > 0) || values.max_skips < 0)
    throw BadValue("SkipSpikes: window is " + std::to_string(values.window) + ", zscore " +
                   c10::str(values.zscore) + ", max_skips " + std::to_string(values.max_skips) +
                   "; window must be 2 or more, zscore positive, and max_skips not negative.");
  detail::check_unchanged(values.window == window_size_, "SkipSpikes: window");
}

}  // namespace ikebana
