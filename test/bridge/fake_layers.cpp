// Operators of layers on fake tensors have the layouts and the memory of real ones.
#include "fake_law.hpp"

namespace test::fake {
namespace {

namespace rules = ikebana::bridge::detail;

const std::vector<std::int64_t> images = {4, 8, 16, 12}, volume = {2, 4, 8, 8, 6};

at::Tensor conv(const Make& t, std::vector<std::int64_t> input, std::vector<std::int64_t> weight,
                std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t groups = 1,
                bool transposed = false) {
  const std::size_t d = input.size() - 2;
  const std::vector<std::int64_t> strides(d, stride), paddings(d, padding), ones(d, 1),
      more(d, transposed && stride > 1 ? 1 : 0);
  const at::Tensor w = t(weight), bias = t({transposed ? weight[1] * groups : weight[0]});
  return at::convolution(t(input), w, bias, strides, paddings, ones, transposed, more, groups);
}
std::tuple<at::Tensor, at::Tensor> bag(const Make& t, std::int64_t mode, bool sparse = false, std::int64_t padding = -1, bool last = false, bool weighted = false) {
  auto [a, b, c, d] = at::embedding_bag(t({90, 40}), t.indices(90, {200}), torch::arange(0, 200, 5), false, mode, sparse, weighted ? std::optional(t({200})) : std::nullopt, last, padding >= 0 ? std::optional(padding) : std::nullopt);
  return {a, at::Tensor()};
}

const std::vector<Case> layers = {
    {"layer norm", [](const Make& t) { return std::tuple(at::layer_norm(t({32, 48}), {48}, t({48}), t({48})), at::layer_norm(t({16, 8, 48}), {8, 48})); }},
    {"layer norm mixed", [](const Make& t) { return at::layer_norm(t({32, 48}), {48}, at::ones({48}).requires_grad_(), at::ones({48}).requires_grad_()); }},
    {"batch norm", [](const Make& t) { return at::batch_norm(t(images), t({8}), t({8}), t.data({8}), t.data({8}), true, 0.1, 1e-5, false); }},
    {"batch norm eval", [](const Make& t) { return at::batch_norm(t(images), t({8}), t({8}), t.data({8}), t.data({8}), false, 0.1, 1e-5, false); }},
    {"batch norm plain", [](const Make& t) { return std::tuple(at::batch_norm(t(images), {}, {}, {}, {}, true, 0.1, 1e-5, false), at::instance_norm(t(images), {}, {}, {}, {}, true, 0.1, 1e-5, false)); }},
    {"batch norm mixed", [](const Make& t) { at::Tensor f = at::ones({8}); return at::batch_norm(t(images), at::ones({8}).requires_grad_(), at::ones({8}).requires_grad_(), f, f.clone(), true, 0.1, 1e-5, false); }},
    {"batch norm of rows", [](const Make& t) { return at::batch_norm(t({64, 40}), t({40}), t({40}), t.data({40}), t.data({40}), true, 0.1, 1e-5, false); }},
    {"batch norm by name", [](const Make& t) { at::Tensor mean = t.data({8}), var = t.data({8}); return std::tuple(at::_native_batch_norm_legit(t.data(images), t.data({8}), t.data({8}), mean, var, true, 0.1, 1e-5), at::_native_batch_norm_legit(t.data(images), t.data({8}), t.data({8}), true, 0.1, 1e-5)); }},
    {"group norm", [](const Make& t) { return std::tuple(at::group_norm(t(images), 4, t({8}), t({8})), at::group_norm(t(images), 2)); }},
    {"rms norm", [](const Make& t) { return at::rms_norm(t({32, 48}), {48}, t({48})); }},
    {"conv", [](const Make& t) { return std::tuple(conv(t, images, {16, 8, 3, 3}, 1, 1), conv(t, images, {16, 8, 3, 3}, 2, 1), conv(t, images, {16, 2, 1, 1}, 1, 0, 4), conv(t, images, {8, 1, 3, 3}, 1, 1, 8)); }},
    {"conv of few channels", [](const Make& t) { return std::tuple(conv(t, {4, 3, 20, 20}, {16, 3, 5, 5}), conv(t, {4, 1, 40, 40}, {8, 1, 3, 3}, 2)); }},
    {"conv 1d 3d", [](const Make& t) { return std::tuple(conv(t, {4, 16, 40}, {24, 16, 3}, 2, 1), conv(t, {2, 8, 8, 8, 8}, {8, 8, 3, 3, 3}, 1, 1)); }},
    {"conv with channels last", [](const Make& t) { at::Tensor x = t(images).contiguous(at::MemoryFormat::ChannelsLast); return at::convolution(x, t({16, 8, 3, 3}), {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1); }},
    {"conv transposed", [](const Make& t) { return std::tuple(conv(t, images, {8, 16, 3, 3}, 2, 1, 1, true), conv(t, images, {8, 4, 2, 2}, 1, 0, 2, true)); }},
    {"linear", [](const Make& t) { return std::tuple(at::linear(t({32, 48}), t({24, 48}), t({24})), at::linear(t({4, 32, 48}), t({24, 48}), t({24})), at::matmul(t({4, 32, 48}), t({4, 48, 16})), at::baddbmm(t({4, 32, 16}), t({4, 32, 48}), t({4, 48, 16})), at::mv(t({48, 40}), t({40})), at::outer(t({48}), t({40})), at::bilinear(t({32, 12}), t({32, 16}), t({10, 12, 16})), at::addr(t({48, 40}), t({48}), t({40})), at::addbmm(t({32, 16}), t({4, 32, 48}), t({4, 48, 16})), at::einsum("bik,bjk->bij", {t({4, 32, 20}), t({4, 24, 20})})); }},
    {"products of other dtypes", [](const Make& t) { return std::tuple(at::_int_mm(t.indices(9, {32, 64}).to(at::kChar), t.indices(9, {64, 32}).to(at::kChar)), at::_scaled_mm(t.data({32, 64}).to(at::kFloat8_e4m3fn).contiguous(), t.data({48, 64}).to(at::kFloat8_e4m3fn).contiguous().t(), at::ones({}), at::ones({}), {}, {}, at::kBFloat16)); }, Kinds::OnlyFloat},
    {"attention", [](const Make& t) { return std::tuple(at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 40, 16}), t({2, 4, 40, 16}), {}, 0, true), at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 24, 16}), t({2, 4, 24, 16}), t.mask({40, 24}))); }},
    {"attention of other lengths", [](const Make& t) { return std::tuple(at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 24, 16}), t({2, 4, 24, 16})), at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 40, 16}), t({2, 4, 40, 16}), t.mask({40, 40})), at::scaled_dot_product_attention(t({2, 40, 4, 16}).transpose(1, 2), t({2, 40, 4, 16}).transpose(1, 2), t({2, 40, 4, 16}).transpose(1, 2), t.mask({40, 40}))); }},
    {"embedding", [](const Make& t) { return std::tuple(at::embedding(t({90, 40}), t.indices(90, {8, 30})), at::embedding(t({90, 40}), t.indices(90, {60}), 3)); }},
    {"embedding bag", [](const Make& t) { return std::tuple(bag(t, 0), bag(t, 1), bag(t, 2), bag(t, 0, false, 2), bag(t, 0, false, -1, true)); }},
    {"embedding bag without gradients", [](const Make& t) { return std::tuple(at::embedding_bag(t.data({90, 40}), t.indices(90, {200}), at::arange(0, 200, 5)), at::_embedding_bag_dense_backward(t.data({40, 40}), t.indices(90, {200}), at::arange(200) / 5, at::full({40}, 5, at::kLong), {}, 90, false, 0, {})); }},
    {"embedding bag weighted", [](const Make& t) { return bag(t, 0, false, -1, false, true); }},
    {"adaptive pool", [](const Make& t) { return std::tuple(at::adaptive_avg_pool2d(t(images), {4, 4}), at::adaptive_avg_pool2d(t(images), {1, 1}), at::adaptive_avg_pool3d(t(volume), {4, 4, 3}), at::adaptive_max_pool2d(t(images), {5, 5}), at::adaptive_max_pool3d(t(volume), {4, 4, 3}), at::adaptive_avg_pool1d(t({8, 16, 20}), 6)); }},
    {"pool", [](const Make& t) { return std::tuple(at::max_pool2d(t(images), 2), at::avg_pool2d(t(images), 3, 2, 1), at::max_pool2d_with_indices(t(images), 3, 2, 1), at::max_pool1d(t({8, 16, 40}), 2), at::avg_pool1d(t({8, 16, 40}), 2), at::max_pool3d(t(volume), 2), at::max_pool3d_with_indices(t(volume), {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, 1, true)); }},
    {"average pool of volumes", [](const Make& t) { return at::avg_pool3d(t(volume), 2); }, Kinds::OnlyFloat},
    {"unpool", [](const Make& t) { at::Tensor x = t(images), y = t(volume); auto [a, i] = at::max_pool2d_with_indices(x, 2); auto [b, j] = at::max_pool3d_with_indices(y, 2); return std::tuple(at::max_unpool2d(a, i, {16, 12}), at::max_unpool3d(b, j, {8, 8, 6}, {2, 2, 2}, {0, 0, 0})); }, Kinds::OnlyFloat},
    {"fractional pool", [](const Make& t) { return std::tuple(at::fractional_max_pool2d(t(images), {2, 2}, {7, 5}, at::rand({4, 8, 2})), at::fractional_max_pool3d(t(volume), {2, 2, 2}, {4, 4, 3}, at::rand({2, 4, 3}))); }, Kinds::OnlyFloat},
    {"pads", [](const Make& t) { return std::tuple(at::reflection_pad1d(t({4, 16, 40}), {3, 2}), at::reflection_pad2d(t(images), {1, 2, 3, 1}), at::reflection_pad3d(t(volume), {1, 1, 2, 1, 1, 2}), at::replication_pad1d(t({4, 16, 40}), {3, 2}), at::replication_pad2d(t(images), {1, 2, 3, 1}), at::replication_pad3d(t(volume), {1, 1, 2, 1, 1, 2}), at::constant_pad_nd(t(images), {1, 2, 3, 1}), at::pad(t(images), {1, 1, 1, 1}, "circular")); }},
    {"resize", [](const Make& t) { return std::tuple(at::upsample_nearest2d(t(images), at::IntArrayRef({32, 24})), at::upsample_bilinear2d(t(images), at::IntArrayRef({30, 20}), false), at::upsample_bicubic2d(t(images), at::IntArrayRef({30, 20}), true), at::upsample_nearest1d(t({4, 16, 40}), at::IntArrayRef({70})), at::upsample_linear1d(t({4, 16, 40}), at::IntArrayRef({70}), false), at::upsample_trilinear3d(t(volume), at::IntArrayRef({9, 9, 9}), false), at::upsample_nearest3d(t(volume), at::IntArrayRef({16, 16, 12}))); }},
    {"grids", [](const Make& t) { return std::tuple(at::grid_sampler(t(images), t({4, 14, 10, 2}), 0, 0, false), at::grid_sampler(t(volume), t({2, 6, 6, 6, 3}), 0, 0, false), at::affine_grid_generator(t({4, 2, 3}), {4, 8, 20, 20}, false)); }, Kinds::OnlyFloat},
    {"columns", [](const Make& t) { return std::tuple(at::im2col(t(images), {3, 3}, {1, 1}, {1, 1}, {2, 2}), at::col2im(t({4, 72, 48}), {16, 12}, {3, 3}, {1, 1}, {1, 1}, {2, 2})); }},
    {"shuffles", [](const Make& t) { return std::tuple(at::pixel_shuffle(t(images), 2), at::pixel_unshuffle(t(images), 2), at::channel_shuffle(t(images), 2), at::native_channel_shuffle(t.data(images), 4)); }},
    {"distances", [](const Make& t) { return std::tuple(at::cdist(t({40, 16}), t({30, 16})), at::cdist(t({40, 16}), t({30, 16}), 1), at::cdist(t({3, 40, 16}), t({3, 30, 16}), 2, 2), at::pdist(t({60, 16})), at::pairwise_distance(t({60, 16}), t({60, 16}))); }, Kinds::OnlyFloat},
    {"weight norm", [](const Make& t) { return std::tuple(at::_weight_norm(t({48, 40}), t({48, 1}), 0), at::_weight_norm(t({48, 40}), t({1, 40}), 1)); }, Kinds::OnlyFloat},
    {"lstm", [](const Make& t) { return at::lstm(t({20, 6, 24}), {at::zeros({2, 6, 40}, t.type), at::zeros({2, 6, 40}, t.type)}, {t({160, 24}), t({160, 40}), t({160}), t({160}), t({160, 40}), t({160, 40}), t({160}), t({160})}, true, 2, 0.0, true, false, false); }},
    {"gru rnn", [](const Make& t) { return std::tuple(at::gru(t({20, 6, 24}), at::zeros({1, 6, 40}, t.type), {t({120, 24}), t({120, 40}), t({120}), t({120})}, true, 1, 0.0, true, false, false), at::rnn_tanh(t({20, 6, 24}), at::zeros({1, 6, 40}, t.type), {t({40, 24}), t({40, 40}), t({40}), t({40})}, true, 1, 0.0, true, false, false)); }},
    {"fft", [](const Make& t) { return std::tuple(at::fft_rfft(t({48, 40})), at::fft_fft(t({48, 40})), at::fft_irfft(at::fft_rfft(t({48, 40}))), at::fft_fft2(t({4, 20, 20})), at::real(at::fft_ifft(at::fft_fft(t({48, 40}))))); }, Kinds::OnlyFloat},
    {"linear algebra", [](const Make& t) { at::Tensor a = t({40, 40}); at::Tensor spd = at::matmul(a, a.t()) + 40 * at::eye(40); return std::tuple(at::linalg_solve_triangular(spd.tril(), t({40, 20}), false), at::linalg_cholesky(spd), at::cholesky_inverse(at::linalg_cholesky(spd)), at::linalg_inv(spd), at::linalg_solve(spd, t({40, 6})), at::linalg_det(spd), at::linalg_qr(t({48, 40})), at::linalg_svd(t({48, 40}), false), at::linalg_eigh(spd), at::linalg_matrix_exp(spd * 0.01), at::cholesky_solve(t({40, 8}), at::linalg_cholesky(spd)), at::_cholesky_solve_helper(t.data({40, 8}), at::linalg_cholesky(spd.detach()), false), at::linalg_householder_product(t({48, 20}), t({20}))); }, Kinds::OnlyFloat},
};

TEST_CASE("fake tensors: operators of layers have the layouts and the memory of real ones") {
  CHECK(faults_of(layers, rules::image_shape_rules, rules::algebra_shape_rules, rules::layer_shape_rules) == "");
}

}  // namespace
}  // namespace test::fake
