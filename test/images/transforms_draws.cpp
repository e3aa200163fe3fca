// Tests the parameters that transforms draw: their ranges, and torchvision's distributions.
#include "transforms.hpp"

using namespace ikebana;
using namespace ikebana::images;

namespace test::images {

namespace draws_parts {

constexpr ImageShape shape = {3, 40, 60};

/// Calls `f` with the parameters that a transform draws for each of `n` keys.
template <class T, class F>
void each_draw(const T& transform, int n, F f, ImageShape of = shape) {
  for (int i = 0; i < n; ++i) {
    SampleRng rng(static_cast<std::uint64_t>(i));
    f(transform.draw(of, rng));
  }
}

/// The mean and the variance of numbers, and their ends.
struct Statistics {
  double count = 0, sum = 0, squares = 0, least = 1e300, most = -1e300;
  void add(double x) {
    count += 1, sum += x, squares += x * x;
    least = std::min(least, x), most = std::max(most, x);
  }
  double mean() const { return sum / count; }
  double variance() const { return squares / count - mean() * mean(); }
};

/// Checks that numbers are uniform in [low, high].
void check_uniform(const Statistics& s, double low, double high) {
  const double width = high - low;
  CHECK(s.least >= low);
  CHECK(s.most <= high);
  CHECK(std::abs(s.mean() - (low + high) / 2) < 0.02 * width);
  CHECK(s.variance() == doctest::Approx(width * width / 12).epsilon(0.06));
}

}  // namespace draws_parts
using namespace draws_parts;

TEST_CASE("draws: crops are uniform over all places") {
  std::map<std::int64_t, int> tops, lefts;
  each_draw(RandomCrop{.size = {40, 57}, .padding = {1, 2, 0, 0}}, 4000, [&](const Rectangle& r) {
    ++tops[r.top], ++lefts[r.left];
    CHECK((r.height == 40 && r.width == 57));
  });
  CHECK(tops.size() == 3);   // from -2 to 0
  CHECK(lefts.size() == 5);  // from -1 to 3
  CHECK((tops.begin()->first == -2 && lefts.begin()->first == -1));
  for (auto [top, count] : tops) CHECK(std::abs(count - 4000 / 3) < 150);
  for (auto [left, count] : lefts) CHECK(std::abs(count - 800) < 120);
}

TEST_CASE("draws: resized crops have uniform areas and log-uniform ratios, inside of the image") {
  Statistics areas, ratios, places;
  const RandomResizedCrop crop{.size = 1, .scale = {0.1, 0.4}, .ratio = {0.5, 2.0}};
  each_draw(
      crop, 4000,
      [&](const Rectangle& r) {
        areas.add(double(r.height * r.width) / 160000);
        ratios.add(std::log(double(r.width) / double(r.height)));
        places.add(double(r.top) / double(400 - r.height));
        CHECK((r.top >= 0 && r.left >= 0 && r.top + r.height <= 400 && r.left + r.width <= 400));
      },
      {3, 400, 400});
  check_uniform(areas, 0.099, 0.401);
  check_uniform(ratios, -0.7, 0.7);
  check_uniform(places, 0, 1);
}

TEST_CASE("draws: a resized crop that never fits is the largest one in the middle") {
  const RandomResizedCrop crop{.size = 1, .scale = {1.0, 1.0}};
  each_draw(crop, 3, [](const Rectangle& r) { CHECK(r == Rectangle{0, 23, 40, 53}); },
            {3, 40, 100});
  each_draw(crop, 3, [](const Rectangle& r) { CHECK(r == Rectangle{23, 0, 53, 40}); },
            {3, 100, 40});
}

TEST_CASE("draws: events happen with their probability") {
  for (double p : {0.0, 0.3, 1.0}) {
    int flips = 0, greys = 0, erased = 0, applied = 0;
    each_draw(RandomHorizontalFlip{p}, 2000, [&](Happens h) { flips += h.happens; });
    each_draw(RandomGrayscale{p}, 2000, [&](Happens h) { greys += h.happens; });
    each_draw(RandomErasing{.p = p}, 2000, [&](auto e) { erased += e.rectangle.has_value(); });
    each_draw(RandomApply{RandomRotation{9}, p}, 2000, [&](auto a) { applied += a.has_value(); });
    for (int count : {flips, greys, erased, applied})
      CHECK(std::abs(count - 2000 * p) <= (p < 1 ? 90 * p : 0));
  }
}

TEST_CASE("draws: colours change by uniform factors, in each of the 24 orders") {
  const ColorJitter jitter{
      .brightness = 0.4, .contrast = 1.5, .saturation = {0.2, 0.9}, .hue = 0.2};
  std::array<Statistics, 4> factors;
  std::map<std::array<int, 4>, int> orders;
  each_draw(jitter, 4800, [&](const ColorJitter::Parameters& p) {
    ++orders[p.order];
    for (std::size_t i = 0; i < 4; ++i) factors[i].add(p.factors[i].value());
  });
  check_uniform(factors[0], 0.6, 1.4);
  check_uniform(factors[1], 0, 2.5);
  check_uniform(factors[2], 0.2, 0.9);
  check_uniform(factors[3], -0.2, 0.2);
  CHECK(orders.size() == 24);
  for (const auto& [order, count] : orders) CHECK(std::abs(count - 200) < 65);
  each_draw(ColorJitter{.brightness = {1, 1}, .hue = {0, 0}}, 1, [](const auto& p) {
    for (const auto& factor : p.factors) CHECK_FALSE(factor.has_value());
  });
}

TEST_CASE("draws: angles and widths of blurs are uniform") {
  Statistics angles, given, sigmas;
  each_draw(RandomRotation{30}, 3000, [&](auto p) { angles.add(p.angle); });
  each_draw(RandomRotation{{10, 20}}, 3000, [&](auto p) { given.add(p.angle); });
  each_draw(GaussianBlur{3}, 3000, [&](auto p) { sigmas.add(p.sigma); });
  check_uniform(angles, -30, 30);
  check_uniform(given, 10, 20);
  check_uniform(sigmas, 0.1, 2.0);
  each_draw(GaussianBlur{3, 0.7}, 1, [&](auto p) { CHECK(p.sigma == 0.7); });
}

TEST_CASE("draws: erased rectangles have uniform areas, below the image's sides") {
  Statistics areas;
  each_draw(RandomErasing{.p = 1, .scale = {0.1, 0.2}, .ratio = {0.5, 2.0}}, 3000, [&](auto e) {
    const Rectangle& r = e.rectangle.value();
    areas.add(double(r.height * r.width) / 2400);
    CHECK((r.top + r.height <= 40 && r.left + r.width <= 60 && r.height < 40 && r.width < 60));
  });
  CHECK(areas.mean() == doctest::Approx(0.15).epsilon(0.02));
  each_draw(RandomErasing{.p = 1, .scale = {1, 1}, .ratio = {1, 1}}, 1,
            [&](auto e) { CHECK_FALSE(e.rectangle.has_value()); });
  each_draw(RandomErasing{.p = 1, .random_value = true}, 1, [&](auto e) {
    CHECK(e.value.sizes() == at::IntArrayRef({3, e.rectangle->height, e.rectangle->width}));
  });
}

TEST_CASE("draws: RandAugment draws each of 14 operations, with torchvision's magnitudes") {
  std::map<AugmentOperation, std::map<double, int>> drawn;
  each_draw(RandAugment{}, 3000, [&](const std::vector<AugmentStep>& steps) {
    CHECK(steps.size() == 2);
    for (const AugmentStep& step : steps) ++drawn[step.operation][step.magnitude];
  });
  using enum AugmentOperation;
  CHECK(drawn.size() == 14);
  for (const auto& [operation, magnitudes] : drawn) {
    int all = 0;
    for (auto [magnitude, count] : magnitudes) all += count;
    CHECK(std::abs(all - 6000 / 14) < 80);
    CHECK(magnitudes.size() == (ikebana::images::detail::has_sign(operation) ? 2 : 1));
  }
  // torch.linspace(0.0, 0.3, 31)[9], and so on
  CHECK(drawn[ShearX].rbegin()->first == double(0.09f));
  CHECK(drawn[TranslateX].rbegin()->first == doctest::Approx(0.3 * 150 / 331 * 60).epsilon(1e-6));
  CHECK(drawn[TranslateY].begin()->first == doctest::Approx(-0.3 * 150 / 331 * 40).epsilon(1e-6));
  CHECK(drawn[Rotate].rbegin()->first == 9);
  CHECK(drawn[Posterize].begin()->first == 7);
  CHECK(drawn[Solarize].begin()->first == doctest::Approx(0.7).epsilon(1e-6));
  std::map<double, int> bits;
  each_draw(TrivialAugmentWide{}, 6000, [&](const AugmentStep& step) {
    if (step.operation == Posterize) ++bits[step.magnitude];
    if (step.operation == TranslateX) CHECK(std::abs(step.magnitude) <= 32);
  });
  CHECK((bits.size() == 7 && bits.begin()->first == 2 && bits.rbegin()->first == 8));
}

}  // namespace test::images
