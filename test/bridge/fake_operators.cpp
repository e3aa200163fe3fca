// Element-wise operators and reductions on fake tensors have the layouts and the memory of real
// ones.
#include "fake_law.hpp"

namespace test::fake {
namespace {

const std::vector<std::int64_t> plane = {48, 40};

const std::vector<Case> elementwise = {
    {"abs", [](const Make& t) { return at::abs(t(plane)); }},
    {"relu", [](const Make& t) { return at::relu(t(plane)); }},
    {"hardtanh", [](const Make& t) { return at::hardtanh(t(plane)); }},
    {"hardswish", [](const Make& t) { return at::hardswish(t(plane)); }},
    {"log_sigmoid", [](const Make& t) { return at::log_sigmoid(t(plane)); }},
    {"glu", [](const Make& t) { return at::glu(t(plane)); }},
    {"prelu", [](const Make& t) { return at::prelu(t(plane), t({40})); }},
    {"prelu of one", [](const Make& t) { return at::prelu(t(plane), t({1})); }},
    {"isnan", [](const Make& t) { return at::isnan(t(plane)); }},
    {"logical_not", [](const Make& t) { return at::logical_not(t(plane)); }},
    {"angle", [](const Make& t) { return at::angle(t(plane)); }},
    {"logit", [](const Make& t) { return at::logit(t(plane), 0.01); }},
    {"flip", [](const Make& t) { return at::flip(t(plane), {1}); }},
    {"roll", [](const Make& t) { return at::roll(t(plane), 3, 1); }},
    {"rsub", [](const Make& t) { return std::tuple(at::rsub(t(plane), t({40})), at::rsub(t(plane), 2)); }},
    {"floor_divide", [](const Make& t) { return std::tuple(at::floor_divide(t.data(plane), t.data({40}) + 1), at::floor_divide(t.data(plane), 3)); }},
    {"where", [](const Make& t) { return at::where(t.mask(plane), t(plane), t({40})); }},
    {"where number", [](const Make& t) { return at::where(t.mask(plane), t(plane), 0.0); }},
    {"dropout", [](const Make& t) { return at::native_dropout(t(plane), 0.5, true); }},
    {"dropout off", [](const Make& t) { return at::native_dropout(t(plane), 0.5, false); }},
    {"dropout composite", [](const Make& t) { return at::dropout(t(plane), 0.5, true); }},
    {"sigmoid tanh", [](const Make& t) { return t(plane).sigmoid().tanh(); }},
    {"gelu", [](const Make& t) { return at::gelu(t(plane)); }},
    {"gelu tanh", [](const Make& t) { return at::gelu(t(plane), "tanh"); }},
    {"silu mish", [](const Make& t) { return at::mish(at::silu(t(plane))); }},
    {"elu", [](const Make& t) { return std::tuple(at::elu(t(plane)), at::selu(t(plane)), at::celu(t(plane))); }},
    {"softplus", [](const Make& t) { return std::tuple(at::softplus(t(plane)), at::softshrink(t(plane)), at::hardshrink(t(plane)), at::hardsigmoid(t(plane)), at::leaky_relu(t(plane)), at::threshold(t(plane), 0.5, 0)); }},
    {"rrelu", [](const Make& t) { return at::rrelu(t(plane), 0.1, 0.3, true); }, Kinds::OnlyFloat},
    {"arithmetic", [](const Make& t) { return (t(plane) + t({40}) - 2) * t({48, 1}) / 3; }},
    {"powers", [](const Make& t) { return std::tuple(t(plane).pow(2), t(plane).sqrt(), at::rsqrt(t(plane)), t(plane).exp(), at::log(t(plane) + 1), at::log1p(t(plane)), at::sin(t(plane)), at::cos(t(plane)), at::erf(t(plane)), t(plane).reciprocal(), t(plane).square()); }},
    {"two", [](const Make& t) { return std::tuple(at::atan2(t(plane), t(plane)), at::maximum(t(plane), t({40})), at::minimum(t(plane), t(plane)), at::fmod(t(plane), 0.3), at::remainder(t(plane), t({40})), at::pow(t(plane), t(plane)), at::lerp(t(plane), t(plane), 0.3), at::addcmul(t(plane), t(plane), t(plane)), at::addcdiv(t(plane), t(plane), t(plane) + 1), at::hypot(t(plane), t(plane))); }},
    {"clamp", [](const Make& t) { return std::tuple(at::clamp(t(plane), 0.1, 0.8), at::clamp_min(t(plane), 0.2), at::clamp(t(plane), t({40}), t({40}))); }},
    {"compare", [](const Make& t) { return std::tuple(t(plane) > 0.5, t(plane).eq(t({40})), at::logical_and(t(plane), t(plane)), at::isfinite(t(plane)), at::sign(t(plane)), at::round(t(plane)), at::floor(t(plane)), ~t.mask(plane), t.mask(plane) & t.mask(plane)); }},
    {"masked", [](const Make& t) { return std::tuple(t(plane).masked_fill(t.mask(plane), 2), t(plane).masked_fill(t.mask({40}), at::ones({}, t.type))); }},
    {"in place", [](const Make& t) { at::Tensor x = t.data(plane); x.add_(1).mul_(t.data({40})).relu_().masked_fill_(t.mask(plane), 0); x.clamp_(0, 1).zero_(); return x.copy_(t.data(plane)); }},
    {"triangles", [](const Make& t) { return std::tuple(at::tril(t(plane)), at::triu(t(plane), 1)); }},
    {"remainder of numbers", [](const Make& t) { return at::remainder(at::Scalar(3), t.data(plane) + 1); }},
    {"shifts", [](const Make& t) { at::Tensor x = t.indices(9, {800}); return std::tuple(at::bitwise_left_shift(x, 2), at::__lshift__(x, 2), at::__lshift__(x, x), at::__rshift__(x, 2), at::__rshift__(x, x), at::bitwise_right_shift(x, x)); }, Kinds::OnlyFloat},
    {"dtypes", [](const Make& t) { return std::tuple(t(plane).to(at::kDouble), t(plane).to(at::kBFloat16), t(plane) * t.data(plane).to(at::kDouble), t(plane).clone(), t(plane).contiguous()); }},
    {"logic", [](const Make& t) { at::Tensor x = t.data(plane), y = t.data(plane), out = at::empty({0}, t.type), b = at::empty({0}, at::kBool); at::abs_out(out, x); at::logical_not_out(b, y); return std::tuple(at::logical_or(x, y), at::logical_xor(x, y), at::nan_to_num(t(plane)), out, b); }},
    {"complex", [](const Make& t) { return std::tuple(at::real(at::complex(t(plane), t(plane))), at::polar(t.data(plane), t.data(plane))); }, Kinds::OnlyFloat},
    {"search", [](const Make& t) { at::Tensor sorted = at::linspace(0, 1, 1200); return std::tuple(at::bucketize(t.data(plane).to(at::kFloat), sorted), at::searchsorted(sorted, t.data(plane).to(at::kFloat), true), at::bucketize(0.3, sorted), at::searchsorted(sorted, 0.3)); }},
    {"asserts", [](const Make&) { at::_assert_async(at::ones({})); at::_assert_async(at::ones({}), "text"); return at::Tensor(); }},
    {"random", [](const Make& t) { at::Tensor x = t.data(plane); return std::tuple(at::bernoulli(x), at::rand_like(x), at::randn_like(x), at::poisson(x), at::multinomial(x, 30, true), at::randperm(900), at::binomial(at::ones_like(x) * 4, x * 0.5), at::_standard_gamma(x)); }, Kinds::OnlyFloat},
    {"random in place", [](const Make& t) { at::Tensor x = t.data(plane); return x.normal_().uniform_().exponential_().bernoulli_(0.5); }},
    {"factories", [](const Make& t) { return std::tuple(at::arange(2000), at::linspace(0, 1, 1500), at::eye(40), at::zeros(plane), at::full(plane, 3), at::ones_like(t(plane)), at::empty_like(t(plane)).fill_(1), at::zeros_like(t(plane))); }},
};

const std::vector<Case> reductions = {
    {"mse", [](const Make& t) { return std::tuple(at::mse_loss(t(plane), t(plane)), at::mse_loss(t(plane), t(plane), at::Reduction::None)); }},
    {"huber", [](const Make& t) { return std::tuple(at::huber_loss(t(plane), t(plane)), at::huber_loss(t(plane), t(plane), at::Reduction::None)); }},
    {"smooth l1", [](const Make& t) { return std::tuple(at::smooth_l1_loss(t(plane), t(plane)), at::smooth_l1_loss(t(plane), t(plane), at::Reduction::None), at::l1_loss(t(plane), t(plane)), at::soft_margin_loss(t(plane), t.data(plane))); }},
    {"bce", [](const Make& t) { return std::tuple(at::binary_cross_entropy(t(plane), t.data(plane)), at::binary_cross_entropy(t(plane), t.data(plane), t.data(plane), at::Reduction::None), at::binary_cross_entropy_with_logits(t(plane), t.data(plane))); }},
    {"nll", [](const Make& t) { return std::tuple(at::nll_loss(t(plane), t.indices(40, {48})), at::nll_loss(t(plane), t.indices(40, {48}), t.data({40}), at::Reduction::None)); }},
    {"nll2d", [](const Make& t) { return std::tuple(at::nll_loss2d(t({2, 5, 16, 8}).contiguous(), t.indices(5, {2, 16, 8})), at::nll_loss2d(t({2, 5, 64, 16}).contiguous(), t.indices(5, {2, 64, 16}), {}, at::Reduction::None)); }},
    {"cross entropy", [](const Make& t) { return std::tuple(at::cross_entropy_loss(t(plane), t.indices(40, {48})), at::cross_entropy_loss(t(plane), t.indices(40, {48}), t.data({40}), at::Reduction::Sum, 3, 0.1)); }},
    {"multi margin", [](const Make& t) { return std::tuple(at::multi_margin_loss(t(plane), t.indices(40, {48})), at::multi_margin_loss(t({2000, 3}), t.indices(3, {2000}), 1, 1, {}, at::Reduction::None)); }, Kinds::OnlyFloat},
    {"multilabel margin", [](const Make& t) { return std::tuple(at::multilabel_margin_loss(t(plane), t.indices(40, plane)), at::multilabel_margin_loss(t(plane), t.indices(40, plane), at::Reduction::None)); }, Kinds::OnlyFloat},
    {"more losses", [](const Make& t) { return std::tuple(at::kl_div(t(plane), t(plane)), at::poisson_nll_loss(t(plane), t(plane), true, false, 1e-8, 1), at::margin_ranking_loss(t(plane), t(plane), t.data(plane)), at::hinge_embedding_loss(t(plane), t.data(plane)), at::cosine_embedding_loss(t(plane), t(plane), t.data({48})), at::triplet_margin_loss(t(plane), t(plane), t(plane))); }},
    {"ctc", [](const Make& t) { return std::tuple(at::ctc_loss(at::log_softmax(t({50, 4, 20}), 2), t.indices(19, {4, 10}) + 1, at::IntArrayRef({50, 50, 40, 50}), at::IntArrayRef({10, 9, 8, 10})), at::ctc_loss(at::log_softmax(t({50, 4, 20}), 2), t.indices(19, {4, 10}) + 1, torch::tensor({50, 50, 40, 50}), torch::tensor({10, 9, 8, 10}))); }, Kinds::OnlyFloat},
    {"index_select", [](const Make& t) { return std::tuple(at::index_select(t(plane), 1, t.indices(40, {70})), at::index_select(t(plane), 0, t.indices(48, {70}))); }},
    {"sums", [](const Make& t) { return std::tuple(t(plane).sum(), t(plane).sum(1), t(plane).mean(0, true), at::sum(t(plane), at::OptionalIntArrayRef({0, 1}), true), t(plane).mean(), at::logsumexp(t(plane), 1), at::norm(t(plane), 2), at::amax(t(plane), 1), at::nansum(t(plane)), at::nansum(t(plane), 1, true), at::linalg_vector_norm(t(plane), 1)); }},
    {"moments", [](const Make& t) { return std::tuple(at::std(t(plane)), at::std(t(plane), 1), at::var(t(plane), 0, true, true), at::var(t(plane), at::OptionalIntArrayRef({0, 1}), 0), at::std_mean(t(plane), 1), at::var_mean(t(plane)), at::var_mean(t(plane), 0, true, true)); }},
    {"prod", [](const Make& t) { return std::tuple(at::prod(t(plane)), at::prod(t(plane), 1), at::prod(t(plane), 0, true), at::prod(t.indices(3, {900})), at::prod(t.mask({8, 900}), 0)); }},
    {"extremes", [](const Make& t) { return std::tuple(at::max(t(plane)), at::min(t(plane)), at::max(t(plane), 1), at::min(t(plane), 0, true), at::argmax(t(plane), 1), at::aminmax(t.data(plane)), at::aminmax(t.data(plane), 1, true), at::topk(t(plane), 30), at::sort(t(plane)), at::cummax(t(plane), 1)); }},
    {"medians", [](const Make& t) { return std::tuple(at::median(t(plane)), at::median(t(plane), 1), at::nanmedian(t(plane)), at::nanmedian(t(plane), 0, true), at::mode(t(plane), 1), at::mode(t(plane), 0, true), at::kthvalue(t(plane), 4, 1)); }},
    {"counts", [](const Make& t) { return std::tuple(at::count_nonzero(t.data(plane)), at::count_nonzero(t.data(plane), at::IntArrayRef({1})), at::all(t.mask(plane)), at::any(t.mask(plane), 1)); }},
    {"cumulative", [](const Make& t) { return std::tuple(at::cumsum(t(plane), 1), at::cumprod(t(plane), 0), at::logcumsumexp(t(plane), 1), at::_logcumsumexp(t.data(plane), 1)); }},
    {"dot", [](const Make& t) { return std::tuple(at::dot(t({1500}), t({1500})), at::vdot(t({1500}), t({1500}))); }},
    {"trace", [](const Make& t) { return at::trace(t({50, 50})); }, Kinds::OnlyFloat},
    {"softmax", [](const Make& t) { return std::tuple(at::softmax(t(plane), 1), at::log_softmax(t(plane), 0), at::softmax(t.data(plane), 1, at::kDouble)); }},
    {"masked softmax", [](const Make& t) { return at::_masked_softmax(t({4, 2, 20, 20}), t.mask({4, 2, 20, 20}), 3, 2); }, Kinds::OnlyFloat},
    {"index pairs", [](const Make&) { return std::tuple(at::tril_indices(64, 64), at::triu_indices(48, 70, 1), at::tril_indices(10, 70, -3)); }},
    {"gathers", [](const Make& t) { return std::tuple(at::gather(t(plane), 1, t.indices(40, {48, 50})), at::take(t(plane), t.indices(1000, {30, 50})), t(plane).index({t.indices(48, {70})}), at::scatter_add(t(plane), 1, t.indices(40, plane), t(plane)), at::scatter(t(plane), 1, t.indices(40, plane), t(plane)), at::index_add(t(plane), 0, t.indices(48, {60}), t({60, 40})), at::index_copy(t(plane), 0, at::arange(20), t({20, 40})), at::index_fill(t(plane), 0, at::arange(20), 1)); }},
    {"joins", [](const Make& t) { return std::tuple(at::cat({t(plane), t(plane)}, 1), at::stack({t(plane), t(plane)}), at::repeat_interleave(t(plane), 3, 1), t(plane).repeat({2, 3}), at::tile(t(plane), {2}), t(plane).unfold(1, 8, 4).contiguous(), at::narrow_copy(t.data(plane), 1, 2, 30)); }},
    {"views", [](const Make& t) { return std::tuple(t(plane).select(0, 1), t(plane).slice(1, 0, 20, 2), t(plane).t(), t(plane).view({48, 40}), t(plane).expand({3, 48, 40}), t(plane).unsqueeze(0).permute({2, 0, 1}), t(plane).diagonal(), at::split(t(plane), 16), at::chunk(t(plane), 4, 1), at::unbind(t(plane)), t(plane).reshape({-1})); }},
};

TEST_CASE("fake tensors: element-wise operators have the layouts and the memory of real ones") {
  CHECK(faults_of(elementwise, ikebana::bridge::detail::shape_rules) == "");
}
TEST_CASE("fake tensors: losses and reductions have the layouts and the memory of real ones") {
  CHECK(faults_of(reductions, ikebana::bridge::detail::reduction_shape_rules) == "");
}

}  // namespace
}  // namespace test::fake
