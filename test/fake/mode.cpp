// Tests what a program sees of fake tensors: their lifetimes, what may be read, and what is
// refused.
#include "guarantee.hpp"

namespace test::fake {
namespace {

struct Fakes {
  std::shared_ptr<ikebana::bridge::FakeLedger> ledger =
      std::make_shared<ikebana::bridge::FakeLedger>();
  ikebana::bridge::FakeTensorMode mode{ledger};
  ikebana::bridge::FakeTensorScope scope{mode};

  at::Tensor tensor(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return mode.make(sizes, type, at::kCPU);
  }
  std::int64_t bytes() { return ledger->of(at::kCPU).now(); }
};

TEST_CASE("fake tensors: a view shares memory, and the last tensor frees it") {
  Fakes fakes;
  at::Tensor x = fakes.tensor({100, 40});
  CHECK(fakes.bytes() == 16000);
  at::Tensor view = x.t().slice(0, 0, 10);
  CHECK(fakes.bytes() == 16000);
  CHECK(detail::same_storage(view, x));
  x = at::Tensor();
  CHECK(fakes.bytes() == 16000);
  at::Tensor y = view + 1;
  CHECK(fakes.bytes() == 20000);
  view = y = at::Tensor();
  CHECK(fakes.bytes() == 0);
}

TEST_CASE("fake tensors: memory of numbers and indices that the host makes is counted, too") {
  Fakes fakes;
  {
    const at::Tensor small = torch::tensor({3, 4, 5}), grown = at::arange(2000);
    CHECK(small[1].item<std::int64_t>() == 4);
    CHECK(fakes.bytes() == 24 + 16000);
    const at::Tensor rows = fakes.tensor({100, 40}).index_select(0, small);
    CHECK(rows.sizes() == at::IntArrayRef({3, 40}));
  }
  CHECK(fakes.bytes() == 0);
}

TEST_CASE("fake tensors: what reads a value says what to do instead") {
  Fakes fakes;
  const at::Tensor x = fakes.tensor({100, 40});
  const std::string cure = "Give it a batch of real tensors, which measures instead.";
  auto refuses = [&](const std::string& name, auto read) {
    INFO(name);
    const std::string message = message_of(read);
    CHECK(contains(message, name));
    CHECK(contains(message, cure));
  };
  refuses("_local_scalar_dense", [&] { (void)x.sum().item<float>(); });
  refuses("was read", [&] { (void)x.const_data_ptr(); });
  refuses("nonzero", [&] { (void)at::nonzero(x); });
  refuses("masked_select", [&] { (void)at::masked_select(x, x > 0); });
  refuses("_unique2", [&] { (void)at::_unique2(x); });
  refuses("repeat_interleave",
          [&] { (void)at::repeat_interleave(fakes.tensor({900}, at::kLong)); });
  refuses("histc", [&] { (void)at::histc(x); });
  refuses("linalg_eig", [&] { (void)at::linalg_eig(fakes.tensor({50, 50})); });
}

TEST_CASE("fake tensors: what was there before is not written to") {
  const at::Tensor few = at::zeros({4}), many = at::zeros({5000});
  {
    Fakes fakes;
    for (const at::Tensor& t : {few, many}) {
      t.add_(1);
      at::add_out(const_cast<at::Tensor&>(t), t, 1);
      t.unsqueeze(0).fill_(2);
    }
    CHECK(few[0].item<float>() == 0);  // and small ones can be read
  }
  CHECK((few.eq(0).all().item<bool>() && many.eq(0).all().item<bool>()));
}

TEST_CASE("fake tensors: random operators draw nothing") {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  {
    Fakes fakes;
    at::Tensor x = fakes.tensor({100, 40});
    (void)x.normal_().uniform_();
    (void)at::dropout(x, 0.5, true);
    (void)at::randn({100, 40});
    (void)at::randperm(3000);
    (void)at::bernoulli(x);
    (void)at::rand({4});
  }
  CHECK(same_bits(before, at::detail::getDefaultCPUGenerator().get_state()));
}

}  // namespace
}  // namespace test::fake
