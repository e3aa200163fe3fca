#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/curve_metric.hpp>
#include <limits>

namespace ikebana::detail {

IKEBANA_INLINE double mean_of_defined(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (double value : values)
    if (!std::isnan(value)) sum += value, ++count;
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace ikebana::detail
