#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/bf16.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Precision<BF16>>::attach(c10::Device where, const UnitTable&) {
  Autocast<at::kBFloat16>::attach("Precision<BF16>", where, values.cpu_products);
}

IKEBANA_INLINE std::string Mechanism<Precision<BF16>>::describe() const {
  return with_products("autocast to BFloat16 over Float32 weights");
}

}  // namespace ikebana
