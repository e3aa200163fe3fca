// Element-wise operators on fake tensors have the layouts and the memory of real ones.
#include "guarantee.hpp"

namespace test::fake::of_operators {
namespace {

const std::vector<std::int64_t> plane = {48, 40};

const std::vector<Case> elementwise_1 = {
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
    {"rsub",
     [](const Make& t) { return std::tuple(at::rsub(t(plane), t({40})), at::rsub(t(plane), 2)); }},
    {"floor_divide",
     [](const Make& t) {
       return std::tuple(at::floor_divide(t.data(plane), t.data({40}) + 1),
                         at::floor_divide(t.data(plane), 3));
     }},
    {"where", [](const Make& t) { return at::where(t.mask(plane), t(plane), t({40})); }},
    {"where number", [](const Make& t) { return at::where(t.mask(plane), t(plane), 0.0); }},
    {"dropout", [](const Make& t) { return at::native_dropout(t(plane), 0.5, true); }},
    {"dropout off", [](const Make& t) { return at::native_dropout(t(plane), 0.5, false); }},
    {"dropout composite", [](const Make& t) { return at::dropout(t(plane), 0.5, true); }},
    {"sigmoid tanh", [](const Make& t) { return t(plane).sigmoid().tanh(); }},
    {"gelu", [](const Make& t) { return at::gelu(t(plane)); }},
    {"gelu tanh", [](const Make& t) { return at::gelu(t(plane), "tanh"); }},
    {"silu mish", [](const Make& t) { return at::mish(at::silu(t(plane))); }},
    {"elu",
     [](const Make& t) {
       return std::tuple(at::elu(t(plane)), at::selu(t(plane)), at::celu(t(plane)));
     }},
};
const std::vector<Case> elementwise_2 = {
    {"softplus",
     [](const Make& t) {
       return std::tuple(at::softplus(t(plane)), at::softshrink(t(plane)), at::hardshrink(t(plane)),
                         at::hardsigmoid(t(plane)), at::leaky_relu(t(plane)),
                         at::threshold(t(plane), 0.5, 0));
     }},
    {"rrelu", [](const Make& t) { return at::rrelu(t(plane), 0.1, 0.3, true); }, Kinds::OnlyFloat},
    {"arithmetic", [](const Make& t) { return (t(plane) + t({40}) - 2) * t({48, 1}) / 3; }},
    {"powers",
     [](const Make& t) {
       return std::tuple(t(plane).pow(2), t(plane).sqrt(), at::rsqrt(t(plane)), t(plane).exp(),
                         at::log(t(plane) + 1), at::log1p(t(plane)), at::sin(t(plane)),
                         at::cos(t(plane)), at::erf(t(plane)), t(plane).reciprocal(),
                         t(plane).square());
     }},
    {"two",
     [](const Make& t) {
       return std::tuple(
           at::atan2(t(plane), t(plane)), at::maximum(t(plane), t({40})),
           at::minimum(t(plane), t(plane)), at::fmod(t(plane), 0.3),
           at::remainder(t(plane), t({40})), at::pow(t(plane), t(plane)),
           at::lerp(t(plane), t(plane), 0.3), at::addcmul(t(plane), t(plane), t(plane)),
           at::addcdiv(t(plane), t(plane), t(plane) + 1), at::hypot(t(plane), t(plane)));
     }},
    {"clamp",
     [](const Make& t) {
       return std::tuple(at::clamp(t(plane), 0.1, 0.8), at::clamp_min(t(plane), 0.2),
                         at::clamp(t(plane), t({40}), t({40})));
     }},
    {"compare",
     [](const Make& t) {
       return std::tuple(t(plane) > 0.5, t(plane).eq(t({40})), at::logical_and(t(plane), t(plane)),
                         at::isfinite(t(plane)), at::sign(t(plane)), at::round(t(plane)),
                         at::floor(t(plane)), ~t.mask(plane), t.mask(plane) & t.mask(plane));
     }},
};
const std::vector<Case> elementwise_3 = {
    {"masked",
     [](const Make& t) {
       return std::tuple(t(plane).masked_fill(t.mask(plane), 2),
                         t(plane).masked_fill(t.mask({40}), at::ones({}, t.type)));
     }},
    {"in place",
     [](const Make& t) {
       at::Tensor x = t.data(plane);
       x.add_(1).mul_(t.data({40})).relu_().masked_fill_(t.mask(plane), 0);
       x.clamp_(0, 1).zero_();
       return x.copy_(t.data(plane));
     }},
    {"triangles",
     [](const Make& t) { return std::tuple(at::tril(t(plane)), at::triu(t(plane), 1)); }},
    {"remainder of numbers",
     [](const Make& t) { return at::remainder(at::Scalar(3), t.data(plane) + 1); }},
    {"shifts",
     [](const Make& t) {
       at::Tensor x = t.indices(9, {800});
       return std::tuple(at::bitwise_left_shift(x, 2), at::__lshift__(x, 2), at::__lshift__(x, x),
                         at::__rshift__(x, 2), at::__rshift__(x, x), at::bitwise_right_shift(x, x));
     },
     Kinds::OnlyFloat},
    {"dtypes",
     [](const Make& t) {
       return std::tuple(t(plane).to(at::kDouble), t(plane).to(at::kBFloat16),
                         t(plane) * t.data(plane).to(at::kDouble), t(plane).clone(),
                         t(plane).contiguous());
     }},
};
const std::vector<Case> elementwise_4 = {
    {"logic",
     [](const Make& t) {
       at::Tensor x = t.data(plane), y = t.data(plane), out = at::empty({0}, t.type),
                  b = at::empty({0}, at::kBool);
       at::abs_out(out, x);
       at::logical_not_out(b, y);
       return std::tuple(at::logical_or(x, y), at::logical_xor(x, y), at::nan_to_num(t(plane)), out,
                         b);
     }},
    {"complex",
     [](const Make& t) {
       return std::tuple(at::real(at::complex(t(plane), t(plane))),
                         at::polar(t.data(plane), t.data(plane)));
     },
     Kinds::OnlyFloat},
    {"search",
     [](const Make& t) {
       at::Tensor sorted = at::linspace(0, 1, 1200);
       return std::tuple(at::bucketize(t.data(plane).to(at::kFloat), sorted),
                         at::searchsorted(sorted, t.data(plane).to(at::kFloat), true),
                         at::bucketize(0.3, sorted), at::searchsorted(sorted, 0.3));
     }},
    {"asserts",
     [](const Make&) {
       at::_assert_async(at::ones({}));
       at::_assert_async(at::ones({}), "text");
       return at::Tensor();
     }},
    {"random",
     [](const Make& t) {
       at::Tensor x = t.data(plane);
       return std::tuple(at::bernoulli(x), at::rand_like(x), at::randn_like(x), at::poisson(x),
                         at::multinomial(x, 30, true), at::randperm(900),
                         at::binomial(at::ones_like(x) * 4, x * 0.5), at::_standard_gamma(x));
     },
     Kinds::OnlyFloat},
};
const std::vector<Case> elementwise_5 = {
    {"random in place",
     [](const Make& t) {
       at::Tensor x = t.data(plane);
       return x.normal_().uniform_().exponential_().bernoulli_(0.5);
     }},
    {"factories",
     [](const Make& t) {
       return std::tuple(at::arange(2000), at::linspace(0, 1, 1500), at::eye(40), at::zeros(plane),
                         at::full(plane, 3), at::ones_like(t(plane)),
                         at::empty_like(t(plane)).fill_(1), at::zeros_like(t(plane)));
     }},
};

TEST_CASE("fake tensors: element-wise operators have the layouts and the memory of real ones") {
  CHECK(
      faults_of(joined({elementwise_1, elementwise_2, elementwise_3, elementwise_4, elementwise_5}),
                ikebana::bridge::detail::elementwise_shape_rules,
                ikebana::bridge::detail::other_shape_rules) == "");
}
}  // namespace
}  // namespace test::fake::of_operators
