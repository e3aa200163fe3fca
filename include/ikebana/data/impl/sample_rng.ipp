#pragma once
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana {

IKEBANA_INLINE at::Generator& SampleRng::generator() {
  if (!generator_)
    generator_ = at::detail::createCPUGenerator(detail::key(key_, detail::RngStream::Generator));
  return *generator_;
}

IKEBANA_INLINE std::int64_t SampleRng::randint(std::int64_t high) {
  if (high < 1)
    throw BadValue("SampleRng: randint(" + std::to_string(high) +
                   ") has nothing to choose from. Give it 1 or more.");
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high));
}

}  // namespace ikebana
