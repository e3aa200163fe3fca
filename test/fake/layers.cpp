// Operators of layers on fake tensors have the layouts and the memory of real ones.
#include <ikebana/fake/shape_rules.hpp>
#include "guarantee.hpp"

namespace test::fake::of_layers {
namespace {

const std::vector<std::int64_t> images = {4, 8, 16, 12};

at::Tensor conv(const Make& t, std::vector<std::int64_t> input, std::vector<std::int64_t> weight,
                std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t groups = 1,
                bool transposed = false) {
  const std::size_t d = input.size() - 2;
  const std::vector<std::int64_t> strides(d, stride), paddings(d, padding), ones(d, 1),
      more(d, transposed && stride > 1 ? 1 : 0);
  const at::Tensor w = t(weight), bias = t({transposed ? weight[1] * groups : weight[0]});
  return at::convolution(t(input), w, bias, strides, paddings, ones, transposed, more, groups);
}
auto large_convolutions(const Make& t) {
  return std::tuple(conv(t, {16, 32, 32, 32}, {48, 32, 3, 3}, 1, 1),
                    conv(t, {16, 32, 32, 32}, {32, 32, 3, 3}, 2, 1),
                    conv(t, {16, 32, 32, 32}, {64, 32, 1, 1}),
                    conv(t, {16, 32, 32, 32}, {32, 8, 3, 3}, 1, 1, 4),
                    conv(t, {16, 32, 32, 32}, {32, 16, 2, 2}, 2, 0, 1, true),
                    conv(t, {16, 64, 256}, {64, 64, 3}, 1, 1),
                    conv(t, {4, 16, 16, 16, 16}, {16, 16, 3, 3, 3}, 1, 1));
}
std::tuple<at::Tensor, at::Tensor> bag(const Make& t, std::int64_t mode, bool sparse = false,
                                       std::int64_t padding = -1, bool last = false,
                                       bool weighted = false) {
  auto [a, b, c, d] =
      at::embedding_bag(t({90, 40}), t.indices(90, {200}), torch::arange(0, 200, 5), false, mode,
                        sparse, weighted ? std::optional(t({200})) : std::nullopt, last,
                        padding >= 0 ? std::optional(padding) : std::nullopt);
  return {a, at::Tensor()};
}

const std::vector<Case> layers_1 = {
    {"layer norm",
     [](const Make& t) {
       return std::tuple(at::layer_norm(t({32, 48}), {48}, t({48}), t({48})),
                         at::layer_norm(t({16, 8, 48}), {8, 48}));
     }},
    {"layer norm mixed",
     [](const Make& t) {
       return at::layer_norm(t({32, 48}), {48}, at::ones({48}).requires_grad_(),
                             at::ones({48}).requires_grad_());
     }},
    {"batch norm",
     [](const Make& t) {
       return at::batch_norm(t(images), t({8}), t({8}), t.data({8}), t.data({8}), true, 0.1, 1e-5,
                             false);
     }},
    {"batch norm eval",
     [](const Make& t) {
       return at::batch_norm(t(images), t({8}), t({8}), t.data({8}), t.data({8}), false, 0.1, 1e-5,
                             false);
     }},
    {"batch norm plain",
     [](const Make& t) {
       return std::tuple(at::batch_norm(t(images), {}, {}, {}, {}, true, 0.1, 1e-5, false),
                         at::instance_norm(t(images), {}, {}, {}, {}, true, 0.1, 1e-5, false));
     }},
    {"batch norm mixed",
     [](const Make& t) {
       at::Tensor f = at::ones({8});
       return at::batch_norm(t(images), at::ones({8}).requires_grad_(),
                             at::ones({8}).requires_grad_(), f, f.clone(), true, 0.1, 1e-5, false);
     }},
    {"batch norm of rows",
     [](const Make& t) {
       return at::batch_norm(t({64, 40}), t({40}), t({40}), t.data({40}), t.data({40}), true, 0.1,
                             1e-5, false);
     }},
};
const std::vector<Case> layers_2 = {
    {"batch norm by name",
     [](const Make& t) {
       at::Tensor mean = t.data({8}), var = t.data({8});
       return std::tuple(
           at::_native_batch_norm_legit(t.data(images), t.data({8}), t.data({8}), mean, var, true,
                                        0.1, 1e-5),
           at::_native_batch_norm_legit(t.data(images), t.data({8}), t.data({8}), true, 0.1, 1e-5));
     }},
    {"group norm",
     [](const Make& t) {
       return std::tuple(at::group_norm(t(images), 4, t({8}), t({8})),
                         at::group_norm(t(images), 2));
     }},
    {"rms norm", [](const Make& t) { return at::rms_norm(t({32, 48}), {48}, t({48})); }},
    {"conv",
     [](const Make& t) {
       return std::tuple(conv(t, images, {16, 8, 3, 3}, 1, 1), conv(t, images, {16, 8, 3, 3}, 2, 1),
                         conv(t, images, {16, 2, 1, 1}, 1, 0, 4),
                         conv(t, images, {8, 1, 3, 3}, 1, 1, 8));
     }},
    {"conv of few channels",
     [](const Make& t) {
       return std::tuple(conv(t, {4, 3, 20, 20}, {16, 3, 5, 5}),
                         conv(t, {4, 1, 40, 40}, {8, 1, 3, 3}, 2));
     }},
    {"conv 1d 3d",
     [](const Make& t) {
       return std::tuple(conv(t, {4, 16, 40}, {24, 16, 3}, 2, 1),
                         conv(t, {2, 8, 8, 8, 8}, {8, 8, 3, 3, 3}, 1, 1));
     }},
    {"conv with channels last",
     [](const Make& t) {
       at::Tensor x = t(images).contiguous(at::MemoryFormat::ChannelsLast);
       return at::convolution(x, t({16, 8, 3, 3}), {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
     }},
};
const std::vector<Case> layers_3 = {
    {"conv transposed",
     [](const Make& t) {
       return std::tuple(conv(t, images, {8, 16, 3, 3}, 2, 1, 1, true),
                         conv(t, images, {8, 4, 2, 2}, 1, 0, 2, true));
     }},
    {"linear",
     [](const Make& t) {
       return std::tuple(at::linear(t({32, 48}), t({24, 48}), t({24})),
                         at::linear(t({4, 32, 48}), t({24, 48}), t({24})),
                         at::matmul(t({4, 32, 48}), t({4, 48, 16})),
                         at::baddbmm(t({4, 32, 16}), t({4, 32, 48}), t({4, 48, 16})),
                         at::mv(t({48, 40}), t({40})), at::outer(t({48}), t({40})),
                         at::bilinear(t({32, 12}), t({32, 16}), t({10, 12, 16})),
                         at::addr(t({48, 40}), t({48}), t({40})),
                         at::addbmm(t({32, 16}), t({4, 32, 48}), t({4, 48, 16})),
                         at::einsum("bik,bjk->bij", {t({4, 32, 20}), t({4, 24, 20})}));
     }},
    {"attention",
     [](const Make& t) {
       return std::tuple(at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 40, 16}),
                                                          t({2, 4, 40, 16}), {}, 0, true),
                         at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 24, 16}),
                                                          t({2, 4, 24, 16}), t.mask({40, 24})));
     }},
    {"attention of other lengths",
     [](const Make& t) {
       return std::tuple(at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 24, 16}),
                                                          t({2, 4, 24, 16})),
                         at::scaled_dot_product_attention(t({2, 4, 40, 16}), t({2, 4, 40, 16}),
                                                          t({2, 4, 40, 16}), t.mask({40, 40})),
                         at::scaled_dot_product_attention(
                             t({2, 40, 4, 16}).transpose(1, 2), t({2, 40, 4, 16}).transpose(1, 2),
                             t({2, 40, 4, 16}).transpose(1, 2), t.mask({40, 40})));
     }},
};
const std::vector<Case> layers_4 = {
    {"embedding",
     [](const Make& t) {
       return std::tuple(at::embedding(t({90, 40}), t.indices(90, {8, 30})),
                         at::embedding(t({90, 40}), t.indices(90, {60}), 3));
     }},
    {"embedding bag",
     [](const Make& t) {
       return std::tuple(bag(t, 0), bag(t, 1), bag(t, 2), bag(t, 0, false, 2),
                         bag(t, 0, false, -1, true));
     }},
    {"embedding bag without gradients",
     [](const Make& t) {
       return std::tuple(
           at::_embedding_bag_forward_only(t.data({90, 40}), t.indices(90, {200}),
                                           at::arange(0, 200, 5)),
           at::_embedding_bag_dense_backward(
               t.data({40, 40}), t.indices(90, {200}), at::arange(200).floor_divide(5),
               at::full({40}, 5, at::kLong), at::empty({0}, at::kLong), 90, false, 0, {}));
     }},
    {"embedding bag weighted", [](const Make& t) { return bag(t, 0, false, -1, false, true); }},
    {"large convolutions",
     [](const Make& t) {
       return std::tuple(conv(t, {16, 32, 32, 32}, {48, 32, 3, 3}, 1, 1),
                         conv(t, {16, 32, 32, 32}, {32, 32, 3, 3}, 2, 1));
     },
     Kinds::OnlyFloat},
    {"lstm",
     [](const Make& t) {
       return at::lstm(t({20, 6, 24}),
                       {at::zeros({2, 6, 40}, t.type), at::zeros({2, 6, 40}, t.type)},
                       {t({160, 24}), t({160, 40}), t({160}), t({160}), t({160, 40}), t({160, 40}),
                        t({160}), t({160})},
                       true, 2, 0.0, true, false, false);
     }},
};
const std::vector<Case> layers_5 = {
    {"large convolutions in Double and FP16",
     [](const Make& t) {
       return std::tuple(large_convolutions({at::kDouble, t.is_transposed}),
                         large_convolutions({at::kHalf, t.is_transposed}));
     },
     Kinds::OnlyFloat},
    {"gru rnn",
     [](const Make& t) {
       return std::tuple(at::gru(t({20, 6, 24}), at::zeros({1, 6, 40}, t.type),
                                 {t({120, 24}), t({120, 40}), t({120}), t({120})}, true, 1, 0.0,
                                 true, false, false),
                         at::rnn_tanh(t({20, 6, 24}), at::zeros({1, 6, 40}, t.type),
                                      {t({40, 24}), t({40, 40}), t({40}), t({40})}, true, 1, 0.0,
                                      true, false, false));
     }},
};

TEST_CASE("fake tensors: operators of layers have the layouts and the memory of real ones") {
  CHECK(faults_of(joined({layers_1, layers_2, layers_3, layers_4, layers_5}),
                  ikebana::bridge::detail::layer_shape_rules,
                  ikebana::bridge::detail::scratch_rules) == "");
}

}  // namespace
}  // namespace test::fake::of_layers
