// Losses, reductions and look-ups on fake tensors have the layouts and the memory of real ones.
#include <ikebana/fake/shape_rules.hpp>

#include "guarantee.hpp"

namespace test::fake::of_reductions {
namespace {

const std::vector<std::int64_t> plane = {48, 40};

const std::vector<Case> reductions_1 = {
    {"mse",
     [](const Make& t) {
       return std::tuple(at::mse_loss(t(plane), t(plane)),
                         at::mse_loss(t(plane), t(plane), at::Reduction::None));
     }},
    {"huber",
     [](const Make& t) {
       return std::tuple(at::huber_loss(t(plane), t(plane)),
                         at::huber_loss(t(plane), t(plane), at::Reduction::None));
     }},
    {"smooth l1",
     [](const Make& t) {
       return std::tuple(at::smooth_l1_loss(t(plane), t(plane)),
                         at::smooth_l1_loss(t(plane), t(plane), at::Reduction::None),
                         at::l1_loss(t(plane), t(plane)),
                         at::soft_margin_loss(t(plane), t.data(plane)));
     }},
    {"bce",
     [](const Make& t) {
       return std::tuple(
           at::binary_cross_entropy(t(plane), t.data(plane)),
           at::binary_cross_entropy(t(plane), t.data(plane), t.data(plane), at::Reduction::None),
           at::binary_cross_entropy_with_logits(t(plane), t.data(plane)));
     }},
    {"nll",
     [](const Make& t) {
       return std::tuple(
           at::nll_loss(t(plane), t.indices(40, {48})),
           at::nll_loss(t(plane), t.indices(40, {48}), t.data({40}), at::Reduction::None));
     }},
    {"nll2d",
     [](const Make& t) {
       return std::tuple(at::nll_loss2d(t({2, 5, 16, 8}).contiguous(), t.indices(5, {2, 16, 8})),
                         at::nll_loss2d(t({2, 5, 64, 16}).contiguous(), t.indices(5, {2, 64, 16}),
                                        {}, at::Reduction::None));
     }},
};
const std::vector<Case> reductions_2 = {
    {"cross entropy",
     [](const Make& t) {
       return std::tuple(at::cross_entropy_loss(t(plane), t.indices(40, {48})),
                         at::cross_entropy_loss(t(plane), t.indices(40, {48}), t.data({40}),
                                                at::Reduction::Sum, 3, 0.1));
     }},
    {"multi margin",
     [](const Make& t) {
       return std::tuple(at::multi_margin_loss(t(plane), t.indices(40, {48})),
                         at::multi_margin_loss(t({2000, 3}), t.indices(3, {2000}), 1, 1, {},
                                               at::Reduction::None));
     },
     Kinds::OnlyFloat},
    {"multilabel margin",
     [](const Make& t) {
       return std::tuple(
           at::multilabel_margin_loss(t(plane), t.indices(40, plane)),
           at::multilabel_margin_loss(t(plane), t.indices(40, plane), at::Reduction::None));
     },
     Kinds::OnlyFloat},
    {"more losses",
     [](const Make& t) {
       return std::tuple(at::kl_div(t(plane), t(plane)),
                         at::poisson_nll_loss(t(plane), t(plane), true, false, 1e-8, 1),
                         at::margin_ranking_loss(t(plane), t(plane), t.data(plane)),
                         at::hinge_embedding_loss(t(plane), t.data(plane)),
                         at::cosine_embedding_loss(t(plane), t(plane), t.data({48})),
                         at::triplet_margin_loss(t(plane), t(plane), t(plane)));
     }},
};
const std::vector<Case> reductions_3 = {
    {"ctc",
     [](const Make& t) {
       return std::tuple(
           at::ctc_loss(at::log_softmax(t({50, 4, 20}), 2), t.indices(19, {4, 10}) + 1,
                        at::IntArrayRef({50, 50, 40, 50}), at::IntArrayRef({10, 9, 8, 10})),
           at::ctc_loss(at::log_softmax(t({50, 4, 20}), 2), t.indices(19, {4, 10}) + 1,
                        torch::tensor({50, 50, 40, 50}), torch::tensor({10, 9, 8, 10})));
     },
     Kinds::OnlyFloat},
    {"index_select",
     [](const Make& t) {
       return std::tuple(at::index_select(t(plane), 1, t.indices(40, {70})),
                         at::index_select(t(plane), 0, t.indices(48, {70})));
     }},
    {"sums",
     [](const Make& t) {
       return std::tuple(t(plane).sum(), t(plane).sum(1), t(plane).mean(0, true),
                         at::sum(t(plane), at::OptionalIntArrayRef({0, 1}), true), t(plane).mean(),
                         at::logsumexp(t(plane), 1), at::norm(t(plane), 2), at::amax(t(plane), 1),
                         at::nansum(t(plane)), at::nansum(t(plane), 1, true),
                         at::linalg_vector_norm(t(plane), 1));
     }},
    {"moments",
     [](const Make& t) {
       return std::tuple(at::std(t(plane)), at::std(t(plane), 1), at::var(t(plane), 0, true, true),
                         at::var(t(plane), at::OptionalIntArrayRef({0, 1}), 0),
                         at::std_mean(t(plane), 1), at::var_mean(t(plane)),
                         at::var_mean(t(plane), 0, true, true));
     }},
    {"prod",
     [](const Make& t) {
       return std::tuple(at::prod(t(plane)), at::prod(t(plane), 1), at::prod(t(plane), 0, true),
                         at::prod(t.indices(3, {900})), at::prod(t.mask({8, 900}), 0));
     }},
};
const std::vector<Case> reductions_4 = {
    {"extremes",
     [](const Make& t) {
       return std::tuple(at::max(t(plane)), at::min(t(plane)), at::max(t(plane), 1),
                         at::min(t(plane), 0, true), at::argmax(t(plane), 1),
                         at::aminmax(t.data(plane)), at::aminmax(t.data(plane), 1, true),
                         at::topk(t(plane), 30), at::sort(t(plane)), at::cummax(t(plane), 1));
     }},
    {"medians",
     [](const Make& t) {
       return std::tuple(at::median(t(plane)), at::median(t(plane), 1), at::nanmedian(t(plane)),
                         at::nanmedian(t(plane), 0, true), at::mode(t(plane), 1),
                         at::mode(t(plane), 0, true), at::kthvalue(t(plane), 4, 1));
     }},
    {"counts",
     [](const Make& t) {
       return std::tuple(at::count_nonzero(t.data(plane)),
                         at::count_nonzero(t.data(plane), at::IntArrayRef({1})),
                         at::all(t.mask(plane)), at::any(t.mask(plane), 1));
     }},
    {"cumulative",
     [](const Make& t) {
       return std::tuple(at::cumsum(t(plane), 1), at::cumprod(t(plane), 0),
                         at::logcumsumexp(t(plane), 1), at::_logcumsumexp(t.data(plane), 1));
     }},
    {"dot",
     [](const Make& t) {
       return std::tuple(at::dot(t({1500}), t({1500})), at::vdot(t({1500}), t({1500})));
     }},
    {"trace", [](const Make& t) { return at::trace(t({50, 50})); }, Kinds::OnlyFloat},
    {"softmax",
     [](const Make& t) {
       return std::tuple(at::softmax(t(plane), 1), at::log_softmax(t(plane), 0),
                         at::softmax(t.data(plane), 1, at::kDouble));
     }},
};
const std::vector<Case> reductions_5 = {
    {"masked softmax",
     [](const Make& t) {
       return at::_masked_softmax(t({4, 2, 20, 20}), t.mask({4, 2, 20, 20}), 3, 2);
     },
     Kinds::OnlyFloat},
    {"index pairs",
     [](const Make&) {
       return std::tuple(at::tril_indices(64, 64), at::triu_indices(48, 70, 1),
                         at::tril_indices(10, 70, -3));
     }},
    {"gathers",
     [](const Make& t) {
       return std::tuple(at::gather(t(plane), 1, t.indices(40, {48, 50})),
                         at::take(t(plane), t.indices(1000, {30, 50})),
                         t(plane).index({t.indices(48, {70})}),
                         at::scatter_add(t(plane), 1, t.indices(40, plane), t(plane)),
                         at::scatter(t(plane), 1, t.indices(40, plane), t(plane)),
                         at::index_add(t(plane), 0, t.indices(48, {60}), t({60, 40})),
                         at::index_copy(t(plane), 0, at::arange(20), t({20, 40})),
                         at::index_fill(t(plane), 0, at::arange(20), 1));
     }},
    {"joins",
     [](const Make& t) {
       return std::tuple(at::cat({t(plane), t(plane)}, 1), at::stack({t(plane), t(plane)}),
                         at::repeat_interleave(t(plane), 3, 1), t(plane).repeat({2, 3}),
                         at::tile(t(plane), {2}), t(plane).unfold(1, 8, 4).contiguous(),
                         at::narrow_copy(t.data(plane), 1, 2, 30));
     }},
    {"views",
     [](const Make& t) {
       return std::tuple(t(plane).select(0, 1), t(plane).slice(1, 0, 20, 2), t(plane).t(),
                         t(plane).view({48, 40}), t(plane).expand({3, 48, 40}),
                         t(plane).unsqueeze(0).permute({2, 0, 1}), t(plane).diagonal(),
                         at::split(t(plane), 16), at::chunk(t(plane), 4, 1), at::unbind(t(plane)),
                         t(plane).reshape({-1}));
     }},
};

TEST_CASE("fake tensors: losses and reductions have the layouts and the memory of real ones") {
  CHECK(faults_of(joined({reductions_1, reductions_2, reductions_3, reductions_4, reductions_5}),
                  ikebana::bridge::detail::loss_shape_rules,
                  ikebana::bridge::detail::reduction_shape_rules) == "");
}

}  // namespace
}  // namespace test::fake::of_reductions
