#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/matmul_bound.hpp>
#include <ikebana/observe/shortest_call.hpp>
#include <ikebana/observe/time_statistics.hpp>
#include <ikebana/profiling/form_pairs.hpp>
#include <ikebana/profiling/roofline_text.hpp>

namespace ikebana::detail {

/// A pair, with the calls that compute its forms.
struct FormCalls {
  FormPair pair;
  std::function<at::Tensor()> baseline, better;
};

inline FormCalls sizes_of_products(at::ScalarType dtype, c10::Device device) {
  const std::int64_t even = device.is_cpu() ? 512 : 4096, odd = even - 1;
  const at::Tensor a = whole_numbers({odd, odd}, dtype, device), b = a.t().contiguous();
  const at::Tensor padded_a = at::constant_pad_nd(a, {0, 1, 0, 1});
  const at::Tensor padded_b = at::constant_pad_nd(b, {0, 1, 0, 1});
  const std::string n = std::to_string(odd), m = std::to_string(even);
  return {{.name = "sizes of products, " + dtype_text(dtype),
           .baseline = n + " x " + n,
           .better = "padded to " + m + " x " + m,
           .lesson = "make the sizes of layers, and of a vocabulary, multiples of 64"},
          [=] { return a.mm(b); },
          [=] { return padded_a.mm(padded_b).narrow(0, 0, odd).narrow(1, 0, odd); }};
}

inline FormCalls layouts_of_arguments(c10::Device device) {
  const std::int64_t n = device.is_cpu() ? 1024 : 8192;
  const at::Tensor x = whole_numbers({n, n}, at::kFloat, device).t(), y = x.contiguous();
  return {{.name = "layouts of arguments",
           .baseline = "x.t() + y",
           .better = "x.t().contiguous() once, then + y",
           .lesson = "call contiguous() once on a transposed tensor that is used several times"},
          [=] { return x.add(y); },
          [=] { return y.add(y); }};
}

inline FormCalls number_of_products(c10::Device device) {
  constexpr std::int64_t count = 64, rows = 16, width = 64;
  const at::Tensor x = whole_numbers({count * rows, width}, at::kFloat, device);
  const at::Tensor weight = whole_numbers({width, width}, at::kFloat, device);
  const std::vector<at::Tensor> parts = x.chunk(count);
  return {{.name = "number of products",
           .baseline = "64 products of 16 rows",
           .better = "one product of 1024 rows",
           .lesson = "concatenate inputs, or weights, and multiply once"},
          [=] {
            std::vector<at::Tensor> products;
            for (const at::Tensor& part : parts) products.push_back(part.mm(weight));
            return at::cat(products);
          },
          [=] { return x.mm(weight); }};
}

inline FormCalls layout_of_images(c10::Device device) {
  const std::int64_t batch = device.is_cpu() ? 8 : 64;
  const at::Tensor x = whole_numbers({batch, 32, 32, 32}, at::kFloat, device);
  const at::Tensor weight = whole_numbers({32, 32, 3, 3}, at::kFloat, device);
  const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor last_weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
  return {{.name = "layout of images",
           .baseline = "convolution in channels_first",
           .better = "in channels_last",
           .lesson = "give images and the weights of convolutions the format channels_last"},
          [=] { return at::conv2d(x, weight); },
          [=] { return at::conv2d(last, last_weight); }};
}

/// Both update parameters of their own: p -= lr * (buffer = momentum * buffer + gradient).
inline FormCalls update_of_parameters(c10::Device device) {
  constexpr std::size_t count = 64;
  auto copies = [&](double scale) {
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < count; ++i)
      tensors.push_back(whole_numbers({64, 64}, at::kFloat, device).mul(scale));
    return tensors;
  };
  constexpr double rate = 0x1p-10, momentum = 0.5;
  const auto gradients = copies(1), p = copies(2), q = copies(2), u = copies(1), v = copies(1);
  return {{.name = "update of parameters",
           .baseline = "SGD by operators for each of 64",
           .better = "one fused operator",
           .lesson = "use a fused optimizer, as this library's are"},
          [=] {
            for (std::size_t i = 0; i < count; ++i) {
              u[i].mul_(momentum).add_(gradients[i]);
              p[i].sub_(u[i], rate);
            }
            return p[0].clone();
          },
          [=] {
            at::_fused_sgd_(q, gradients, v, 0, momentum, rate, 0, false, false, false);
            return q[0].clone();
          }};
}

inline double mean_seconds(const std::function<at::Tensor()>& call, int calls, c10::Device device) {
  using Clock = std::chrono::steady_clock;
  bridge::synchronize(device);
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  bridge::synchronize(device);
  return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
}

inline void check_same(const FormPair& pair, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const double difference = x.sub(y).abs().max().item<double>();
  const double most = a.scalar_type() == at::kFloat ? 1e-5 : 1e-2;
  if (!(difference <= most * y.abs().max().item<double>()))
    throw Error("measure_forms: the two forms of `" + pair.name + "` differ by " +
                rounded(difference) + ". Check this machine, and its version of LibTorch.");
}

/// Measures both forms in turns, each for a millisecond or more.
inline FormPair measured(FormCalls forms, c10::Device device) {
  check_same(forms.pair, forms.baseline(), forms.better());
  const double once = std::max(mean_seconds(forms.baseline, 1, device), 1e-7);
  const int calls = static_cast<int>(std::clamp(1e-3 / once, 1.0, 1000.0));
  std::vector<double> baseline, better;
  for (int turn = 0; turn < 15; ++turn) {
    baseline.push_back(mean_seconds(forms.baseline, calls, device));
    better.push_back(mean_seconds(forms.better, calls, device));
  }
  forms.pair.baseline_seconds = time_statistics(baseline).median;
  forms.pair.better_seconds = time_statistics(better).median;
  return forms.pair;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE FormPairs measure_forms(c10::Device device) {
  device = bridge::with_index(device);
  std::vector<at::ScalarType> dtypes{at::kFloat};
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    if (!device.is_cpu() || matmul_bound(dtype, device) > matmul_bound(at::kFloat, device))
      dtypes.push_back(dtype);
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const c10::impl::ExcludeDispatchKeyGuard unseen(bridge::AllOperators::key);  // by scopes around
  FormPairs found{.device = device.str()};
  for (const at::ScalarType dtype : dtypes)
    found.pairs.push_back(detail::measured(detail::sizes_of_products(dtype, device), device));
  for (const auto make : {&detail::layouts_of_arguments, &detail::number_of_products,
                          &detail::layout_of_images, &detail::update_of_parameters})
    found.pairs.push_back(detail::measured(make(device), device));
  return found;
}

IKEBANA_INLINE std::string FormPairs::table() const {
  using detail::fixed, detail::left, detail::right;
  std::string text = "two forms of one computation on " + device + ", ms per call\n  " +
                     left("", 30) + left("baseline", 34) + left("better", 36) +
                     right("baseline", 10) + right("better", 10) + right("gain", 8) + "\n";
  for (const FormPair& pair : pairs)
    text += "  " + left(pair.name, 30) + left(pair.baseline, 34) + left(pair.better, 36) +
            right(fixed(pair.baseline_seconds * 1e3, 4), 10) +
            right(fixed(pair.better_seconds * 1e3, 4), 10) + right(fixed(pair.gain(), 2), 8) +
            "\n    " + pair.lesson + "\n";
  return text;
}

IKEBANA_INLINE std::string FormPairs::csv() const {
  std::string text = "device,name,baseline,better,baseline_seconds,better_seconds,gain,lesson\n";
  for (const FormPair& pair : pairs)
    text += detail::csv_field(device) + "," + detail::csv_field(pair.name) + "," +
            detail::csv_field(pair.baseline) + "," + detail::csv_field(pair.better) + "," +
            detail::exact_text(pair.baseline_seconds) + "," +
            detail::exact_text(pair.better_seconds) + "," + detail::exact_text(pair.gain()) + "," +
            detail::csv_field(pair.lesson) + "\n";
  return text;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const FormPairs& pairs) {
  return out << pairs.table();
}

}  // namespace ikebana
