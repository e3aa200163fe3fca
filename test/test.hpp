#pragma once
// doctest and helpers for tests. LibTorch defines CHECK as well, and the header that comes last
// wins silently, so LibTorch's is included first and its CHECK removed.
#include <torch/torch.h>
#undef CHECK
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace test {

/// Returns whether every part of the tests is to be run. `make test` takes a sample where many
/// parts are alike and each of them takes its time; `scripts/long thorough` takes all.
inline bool is_thorough() {
  static const bool is = std::getenv("IKEBANA_TEST_THOROUGH") != nullptr;
  return is;
}

/// Returns true if both hold the same bits: same shape, dtype and contents, NaN equal to NaN.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  auto x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

inline bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return true;
}

/// Compares named tensors, such as a state.
inline bool same_state(const std::map<std::string, at::Tensor>& a,
                       const std::map<std::string, at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_bits(x.second, y.second);
  });
}

/// Returns the largest |a - b| over all elements, relative to the largest |b|, in double precision.
inline double worst_relative(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, scale = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto x = a[i].detach().to(at::kDouble), y = b[i].detach().to(at::kDouble);
    if (x.numel() == 0 && y.numel() == 0) continue;
    difference = std::max(difference, (x - y).abs().max().item<double>());
    scale = std::max(scale, y.abs().max().item<double>());
  }
  return scale == 0 ? difference : difference / scale;
}

/// Returns the message of the exception of type E that `f` throws; an empty string if it throws
/// none.
template <class E = std::exception, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace test
