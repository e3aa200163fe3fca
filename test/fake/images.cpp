// Operators on images and volumes, distances, Fourier transforms and linear algebra on fake tensors
// have the layouts and the memory of real ones.
#include <ikebana/fake/shape_rules.hpp>
#include "guarantee.hpp"

namespace test::fake::of_images {
namespace {

namespace rules = ikebana::bridge::detail;

const std::vector<std::int64_t> images = {4, 8, 16, 12}, volume = {2, 4, 8, 8, 6};

const std::vector<Case> of_images_1 = {
    {"adaptive pool",
     [](const Make& t) {
       return std::tuple(at::adaptive_avg_pool2d(t(images), {4, 4}),
                         at::adaptive_avg_pool2d(t(images), {1, 1}),
                         at::adaptive_avg_pool3d(t(volume), {4, 4, 3}),
                         at::adaptive_max_pool2d(t(images), {5, 5}),
                         at::adaptive_max_pool3d(t(volume), {4, 4, 3}),
                         at::adaptive_avg_pool1d(t({8, 16, 20}), 6));
     }},
    {"pool",
     [](const Make& t) {
       return std::tuple(
           at::max_pool2d(t(images), 2), at::avg_pool2d(t(images), 3, 2, 1),
           at::max_pool2d_with_indices(t(images), 3, 2, 1), at::max_pool1d(t({8, 16, 40}), 2),
           at::avg_pool1d(t({8, 16, 40}), 2), at::max_pool3d(t(volume), 2),
           at::max_pool3d_with_indices(t(volume), {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, 1, true));
     }},
    {"average pool of volumes", [](const Make& t) { return at::avg_pool3d(t(volume), 2); },
     Kinds::OnlyFloat},
    {"unpool",
     [](const Make& t) {
       at::Tensor x = t(images), y = t(volume);
       auto [a, i] = at::max_pool2d_with_indices(x, 2);
       auto [b, j] = at::max_pool3d_with_indices(y, 2);
       return std::tuple(at::max_unpool2d(a, i, {16, 12}),
                         at::max_unpool3d(b, j, {8, 8, 6}, {2, 2, 2}, {0, 0, 0}));
     },
     Kinds::OnlyFloat},
    {"fractional pool",
     [](const Make& t) {
       return std::tuple(
           at::fractional_max_pool2d(t(images), {2, 2}, {7, 5}, at::rand({4, 8, 2})),
           at::fractional_max_pool3d(t(volume), {2, 2, 2}, {4, 4, 3}, at::rand({2, 4, 3})));
     },
     Kinds::OnlyFloat},
};
const std::vector<Case> of_images_2 = {
    {"pads",
     [](const Make& t) {
       return std::tuple(at::reflection_pad1d(t({4, 16, 40}), {3, 2}),
                         at::reflection_pad2d(t(images), {1, 2, 3, 1}),
                         at::reflection_pad3d(t(volume), {1, 1, 2, 1, 1, 2}),
                         at::replication_pad1d(t({4, 16, 40}), {3, 2}),
                         at::replication_pad2d(t(images), {1, 2, 3, 1}),
                         at::replication_pad3d(t(volume), {1, 1, 2, 1, 1, 2}),
                         at::constant_pad_nd(t(images), {1, 2, 3, 1}),
                         at::pad(t(images), {1, 1, 1, 1}, "circular"));
     }},
    {"resize",
     [](const Make& t) {
       return std::tuple(at::upsample_nearest2d(t(images), at::IntArrayRef({32, 24})),
                         at::upsample_bilinear2d(t(images), at::IntArrayRef({30, 20}), false),
                         at::upsample_bicubic2d(t(images), at::IntArrayRef({30, 20}), true),
                         at::upsample_nearest1d(t({4, 16, 40}), at::IntArrayRef({70})),
                         at::upsample_linear1d(t({4, 16, 40}), at::IntArrayRef({70}), false),
                         at::upsample_trilinear3d(t(volume), at::IntArrayRef({9, 9, 9}), false),
                         at::upsample_nearest3d(t(volume), at::IntArrayRef({16, 16, 12})));
     }},
    {"grids",
     [](const Make& t) {
       return std::tuple(at::grid_sampler(t(images), t({4, 14, 10, 2}), 0, 0, false),
                         at::grid_sampler(t(volume), t({2, 6, 6, 6, 3}), 0, 0, false),
                         at::affine_grid_generator(t({4, 2, 3}), {4, 8, 20, 20}, false));
     },
     Kinds::OnlyFloat},
    {"columns",
     [](const Make& t) {
       return std::tuple(at::im2col(t(images), {3, 3}, {1, 1}, {1, 1}, {2, 2}),
                         at::col2im(t({4, 72, 48}), {16, 12}, {3, 3}, {1, 1}, {1, 1}, {2, 2}));
     }},
};
const std::vector<Case> of_images_3 = {
    {"shuffles",
     [](const Make& t) {
       return std::tuple(at::pixel_shuffle(t(images), 2), at::pixel_unshuffle(t(images), 2),
                         at::channel_shuffle(t(images), 2),
                         at::native_channel_shuffle(t.data(images), 4));
     }},
};

const std::vector<Case> algebra_1 = {
    {"products of other dtypes",
     [](const Make& t) {
       return std::tuple(
           at::_int_mm(t.indices(9, {32, 64}).to(at::kChar), t.indices(9, {64, 32}).to(at::kChar)),
           at::_scaled_mm(t.data({32, 64}).to(at::kFloat8_e4m3fn).contiguous(),
                          t.data({48, 64}).to(at::kFloat8_e4m3fn).contiguous().t(), at::ones({}),
                          at::ones({}), {}, {}, at::kBFloat16));
     },
     Kinds::OnlyFloat},
    {"sums of products",
     [](const Make& t) {
       return std::tuple(at::addr(t({48, 40}), t({48}), t({40})),
                         at::addbmm(t({32, 16}), t({4, 32, 48}), t({4, 48, 16})));
     }},
    {"distances",
     [](const Make& t) {
       return std::tuple(at::cdist(t({40, 16}), t({30, 16})),
                         at::cdist(t({40, 16}), t({30, 16}), 1),
                         at::cdist(t({3, 40, 16}), t({3, 30, 16}), 2, 2), at::pdist(t({60, 16})),
                         at::pairwise_distance(t({60, 16}), t({60, 16})));
     },
     Kinds::OnlyFloat},
    {"weight norm",
     [](const Make& t) {
       return std::tuple(at::_weight_norm(t({48, 40}), t({48, 1}), 0),
                         at::_weight_norm(t({48, 40}), t({1, 40}), 1));
     },
     Kinds::OnlyFloat},
    {"fft",
     [](const Make& t) {
       return std::tuple(at::fft_rfft(t({48, 40})), at::fft_fft(t({48, 40})),
                         at::fft_irfft(at::fft_rfft(t({48, 40}))), at::fft_fft2(t({4, 20, 20})),
                         at::real(at::fft_ifft(at::fft_fft(t({48, 40})))));
     },
     Kinds::OnlyFloat},
};
const std::vector<Case> algebra_2 = {
    {"linear algebra",
     [](const Make& t) {
       at::Tensor a = t({40, 40});
       at::Tensor spd = at::matmul(a, a.t()) + 40 * at::eye(40);
       return std::tuple(
           at::linalg_solve_triangular(spd.tril(), t({40, 20}), false), at::linalg_cholesky(spd),
           at::cholesky_inverse(at::linalg_cholesky(spd)), at::linalg_inv(spd),
           at::linalg_solve(spd, t({40, 6})), at::linalg_det(spd), at::linalg_qr(t({48, 40})),
           at::linalg_svd(t({48, 40}), false), at::linalg_eigh(spd),
           at::linalg_matrix_exp(spd * 0.01),
           at::cholesky_solve(t({40, 8}), at::linalg_cholesky(spd)),
           at::_cholesky_solve_helper(t.data({40, 8}), at::linalg_cholesky(spd.detach()), false),
           at::linalg_householder_product(t({48, 20}), t({20})));
     },
     Kinds::OnlyFloat},
};

TEST_CASE("fake tensors: operators on images have the layouts and the memory of real ones") {
  CHECK(faults_of(joined({of_images_1, of_images_2, of_images_3}), rules::image_shape_rules) == "");
}
TEST_CASE("fake tensors: linear algebra has the layouts and the memory of real computations") {
  CHECK(faults_of(joined({algebra_1, algebra_2}), rules::algebra_shape_rules) == "");
}

}  // namespace
}  // namespace test::fake::of_images
