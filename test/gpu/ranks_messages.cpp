// Messages of a device's tensors over Gloo, by way of host memory; which backend carries what.
#include "ranks.hpp"

namespace gpu::ranks_messages {

using namespace ikebana;
using ikebana::detail::Connection, ikebana::detail::MessageTag, ikebana::detail::RankBackends;
using test::contains, test::message_of, test::same_bits, test::ranks::on_groups;

/// Returns six numbers of a rank.
at::Tensor numbers(std::int64_t rank) {
  return at::arange(6, at::kFloat).view({2, 3}).add(static_cast<double>(100 * rank));
}
at::Tensor on_device(const at::Tensor& t) { return t.to(device()); }
/// Returns the bytes of host memory that a call had in place of the device's.
template <class F>
std::int64_t staged_by(const ProcessGroup& group, F&& f) {
  const std::int64_t before = group.members()->staged_bytes;
  f();
  return group.members()->staged_bytes - before;
}
std::int64_t bytes_on_device(std::int64_t bytes) { return on_cpu() ? 0 : bytes; }

TEST_CASE("ranks: a device's tensors reach other ranks, and each is copied to the host once") {
  const RanksOnDevice models;
  on_groups(3, [](const ProcessGroup& group) {
    Connection connection(group);
    connection.open(device());
    const std::int64_t rank = group.rank();
    at::Tensor own = on_device(numbers(rank));
    const at::Tensor rounded = own.to(at::kBFloat16), none = at::empty({0}, own.options());
    TensorsOfRanks to(3), from(3);
    for (std::int64_t r = 0; r < 3; ++r) {
      if (r == rank) continue;
      const auto other = static_cast<std::size_t>(r);
      to[other] = {own.view({2, 3}), none, rounded};
      from[other] = {at::zeros_like(own), none, at::zeros_like(rounded)};
    }
    const std::int64_t staged = staged_by(group, [&] {
      auto transfer = connection.swap(MessageTag::update, to, from, device());
      if (!on_cpu()) own.zero_();  // what is sent was copied
      connection.wait_received(transfer);
      connection.wait(transfer);
    });
    connection.exchange("");
    CHECK(staged == bytes_on_device(3 * (24 + 12)));  // one is sent, and two are received
    for (std::int64_t r = 0; r < 3; ++r) {
      if (r == rank) continue;
      const auto& got = from[static_cast<std::size_t>(r)];
      CHECK(got[0].device() == device());
      CHECK(same_bits(got[0].cpu(), numbers(r)));
      CHECK(same_bits(got[2].cpu(), numbers(r).to(at::kBFloat16)));
      CHECK(got[0]._version() == 0);  // as of a message that arrives in place
    }
  });
}
TEST_CASE("ranks: sums, broadcasts and an optimizer's exchanges of a device's tensors") {
  const RanksOnDevice models;
  on_groups(4, [](const ProcessGroup& group) {
    Connection connection(group);
    connection.open(device());
    const std::int64_t rank = group.rank();
    const at::Tensor total = numbers(0) + numbers(1) + numbers(2) + numbers(3);
    at::Tensor own = on_device(numbers(rank));
    CHECK(staged_by(group, [&] {
            auto transfer = connection.all_reduce(MessageTag::sums, own);
            connection.wait(transfer);
          }) == bytes_on_device(24));
    CHECK(same_bits(own.cpu(), total));
    std::vector<at::Tensor> values{on_device(numbers(rank)), on_device(at::ones({}, at::kDouble))};
    connection.sum(values);
    CHECK(same_bits({values[0].cpu(), values[1].cpu()}, {total, at::full({}, 4, at::kDouble)}));
    for (const bool transposed : {false, true}) {
      const at::Tensor t = on_device(numbers(rank)), seen = transposed ? t.t() : t;
      CHECK(staged_by(group, [&] { connection.broadcast(MessageTag::weights, seen); }) ==
            bytes_on_device(24));
      connection.exchange("");
      CHECK(same_bits(t.cpu(), numbers(0)));
    }
    TensorsOfRanks to(4), from(4);  // round the ranks
    to[static_cast<std::size_t>((rank + 1) % 4)] = {on_device(numbers(rank))};
    const at::Tensor got = on_device(at::zeros({2, 3}));
    from[static_cast<std::size_t>((rank + 3) % 4)] = {got};
    connection.begin_swap(to, from);
    connection.finish_swap();
    CHECK(same_bits(got.cpu(), numbers((rank + 3) % 4)));
    connection.exchange("");  // none ends while another one sends
  });
}
TEST_CASE("ranks: a process group of one's own that is Gloo sends from host memory, too") {
  auto store = c10::make_intrusive<c10d::HashStore>();
  test::ranks::on_threads(2, [&](const std::shared_ptr<test::ranks::Wire>& wire) {
    const ProcessGroup group(
        ikebana::detail::make_gloo(store, wire->rank(), 2, std::chrono::minutes(1), true));
    Connection connection(group);
    connection.open(device());
    std::vector<at::Tensor> values{on_device(numbers(wire->rank()))};
    connection.sum(values);
    CHECK(same_bits(values[0].cpu(), numbers(0) + numbers(1)));
    CHECK((group.members()->staged_bytes > 0) == !on_cpu());
  });
}
TEST_CASE("ranks: a message that a rank does not send any more changes nothing on the device") {
  const RanksOnDevice models;
  on_groups(2, [](const ProcessGroup& group) {
    Connection connection(group);
    connection.open(device());
    connection.exchange("");
    const at::Tensor got = on_device(numbers(7));
    auto receive = [&] {
      TensorsOfRanks none(2), from(2);
      from[1] = {got};
      connection.receive(connection.swap(MessageTag::update, none, from, device()));
    };
    if (group.rank() == 1) connection.fail({"it has no gradient"});
    else {
      const std::string text = message_of<RankFailed>(receive);
      CHECK_MESSAGE(contains(text, "rank 1: it has no gradient"), text);
      CHECK(same_bits(got.cpu(), numbers(7)));
    }
    connection.open(device());  // all meet again
    if (group.rank() == 0) receive();
    TensorsOfRanks to(2), none(2);
    to[0] = {on_device(numbers(1))};
    if (group.rank() == 1) connection.keep(connection.swap(MessageTag::update, to, none, device()));
    connection.exchange("");
    CHECK(same_bits(got.cpu(), numbers(group.rank() == 0 ? 1 : 7)));
  });
}

/// Returns the backends of one of two ranks.
RankBackends backends(std::optional<Backend> backend, std::int64_t size = 2) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  return RankBackends(ProcessGroup(store, 0, size, {.backend = backend}).members());
}
TEST_CASE("ranks: a backend that cannot be is an error with words") {
  const c10::Device cuda(at::kCUDA, 0);
  for (const std::int64_t size : {1, 2}) {
    const std::string of_cpu =
        message_of<BadValue>([&] { backends(Backend::NCCL, size).check(at::kCPU); });
    CHECK_MESSAGE(contains(of_cpu, "backend is NCCL, and the model is on cpu"), of_cpu);
    const std::string missing =
        message_of<BadValue>([&] { backends(Backend::NCCL, size).check(cuda); });
    if (ikebana::detail::has_nccl) CHECK(missing == "");
    else CHECK_MESSAGE(contains(missing, "compiled without NCCL"), missing);
    CHECK_NOTHROW(backends(Backend::Gloo, size).check(cuda));
    CHECK_NOTHROW(backends(std::nullopt, size).check(at::kCPU));
  }
  CHECK_NOTHROW(backends(std::nullopt, 1).check(cuda));  // one rank sends nothing
  CHECK((message_of<BadValue>([&] { backends(std::nullopt).check(cuda); }) == "") ==
        ikebana::detail::has_nccl);
  CHECK_NOTHROW(backends(std::nullopt).check({at::kPrivateUse1, 0}));
}
/// Returns what each of two ranks says when a trainer is made of a model on `device_of(group)`.
template <class DeviceOf>
std::vector<std::string> made_by_two(const DeviceOf& device_of) {
  std::vector<std::string> texts(2);
  std::vector<torch::nn::Sequential> models;
  for (int r = 0; r < 2; ++r) models.emplace_back(torch::nn::Linear(2, 2));
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    texts[r] = message_of<Error>([&] {
      models[r]->to(device_of(group));
      Trainer trainer{models[r], MSELoss{}, Shard<DDP>{.process_group = group}};
    });
  });
  return texts;
}
TEST_CASE("ranks: what one rank's options refuse, the other hears") {
  const auto texts = made_by_two([](const ProcessGroup& group) {
    if (group.rank() == 1) group.members()->device_backend = Backend::NCCL;
    return c10::Device(at::kCPU);
  });
  for (const std::string& text : texts)
    CHECK_MESSAGE(contains(text, "backend is NCCL, and the model is on cpu"), text);
  CHECK_MESSAGE(contains(texts[0], "rank 1: "), texts[0]);
}
TEST_CASE("ranks: those on devices of other types get an error") {
  NOT_RUN_UNLESS(!on_cpu(), "all devices are CPUs");
  const auto texts = made_by_two(
      [](const ProcessGroup& group) { return group.rank() == 0 ? device() : at::kCPU; });
  for (const std::string& text : texts)
    CHECK_MESSAGE(contains(text, "rank 1 on cpu by Gloo"), text);
}
TEST_CASE("ranks: threads whose backward passes one thread runs get an error") {
  NOT_RUN_UNLESS(!on_cpu(), "a backward pass on a CPU is run by the thread that calls it");
  auto threads = [](bool common) {
    return made_by_two([=](const ProcessGroup& group) {
      if (on_simulated()) group.members()->device_backend.reset();  // Gloo by default
      c10::AutogradState::get_tls_state().set_multithreading_enabled(common);
      return device();
    });
  };
  CHECK((threads(false) == std::vector<std::string>(2)));
  for (const std::string& text : threads(true))
    CHECK_MESSAGE(contains(text, "ranks 0 and 1 are threads of one process"), text);
}

TEST_CASE("ranks: a rank of one, over NCCL") {
  NOT_RUN_UNLESS(ikebana::detail::has_nccl, "the program was compiled without NCCL");
  NOT_RUN_UNLESS(on_cuda(), "NCCL is of CUDA devices alone");
  auto store = c10::make_intrusive<c10d::HashStore>();
  auto nccl = ikebana::detail::make_nccl(store, 0, 1, std::chrono::minutes(1));
  const at::Tensor own = on_device(numbers(0)), got = on_device(at::zeros({2, 3}));
  auto sum = ikebana::detail::begin_all_reduce(*nccl, MessageTag::sums, own);
  sum.wait();
  CHECK(same_bits(own.cpu(), numbers(0)));
  auto to_itself = ikebana::detail::begin_swap(*nccl, MessageTag::update, {{own}}, {{got}});
  to_itself.wait();
  CHECK(same_bits(got.cpu(), numbers(0)));
}

}  // namespace gpu::ranks_messages
