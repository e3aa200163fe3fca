#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/triplet_margin.hpp>

namespace ikebana {

IKEBANA_INLINE std::string Mechanism<TripletMarginLoss>::describe() const {
  return "margin=" + c10::str(values.margin) + ", p=" + c10::str(values.p) +
         (values.swap ? ", swap" : "");
}

IKEBANA_INLINE void Mechanism<TripletMarginLoss>::check() const {
  if (values.margin > 0 && std::isfinite(values.margin) && values.p > 0 && values.eps >= 0) return;
  throw BadValue("TripletMarginLoss: margin is " + c10::str(values.margin) + ", p " +
                 c10::str(values.p) + ", eps " + c10::str(values.eps) +
                 "; margin and p must be above 0, eps 0 or more.");
}

}  // namespace ikebana
