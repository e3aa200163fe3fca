// Tests fit with saved states: requests to stop, and options that contradict each other.
#include <signal.h>

#include <ikebana/posix/sigterm.hpp>

#include "state/fit_nets.hpp"

namespace test::fitting {

TEST_CASE("fit: a stop saves, and the resumed training continues within the epoch") {
  auto data = batches(6), valid = batches(2);
  const Folder plain, folder;
  auto whole = made();
  whole.fit(data, options(plain.path, valid));
  Options o = options(folder.path, valid);
  o.save_every = 0;
  std::stop_source source;
  o.stop = source.get_token();
  o.on_step = [&](const Report& report) {
    if (report.step == 7) source.request_stop();
  };
  auto first = made(), second = made();
  const History history = first.fit(data, o);
  CHECK((history.stopped && !history.terminated && history.size() == 2));
  CHECK(names(folder.path) == std::set<std::string>{step(6), step(8)});
  o.stop = {};
  CHECK(second.fit(data, o).size() == 3);
  CHECK(same_state(second.state(), whole.state()));
}

TEST_CASE("fit: a stop after a step that was saved anyway saves no second state") {
  auto data = batches(6), valid = batches(2);
  const Folder folder;
  int files = 0;
  Disk disk([&](int) { return ++files == 0; });
  Options o = options(folder.path, valid);
  o.files = &disk, o.save_every = 4, o.stop = [steps = 0]() mutable { return ++steps == 4; };
  CHECK(made().fit(data, o).stopped);
  CHECK(names(folder.path) == std::set<std::string>{step(4)});
  CHECK(files == 1);
}

TEST_CASE("fit: a stop between two epochs begins no step of the next") {
  auto data = batches(6), valid = batches(2);
  const Folder folder;
  Options o = options(folder.path, valid);
  o.save_every = 0;
  bool enough = false;
  o.stop = [&] { return enough; };
  o.on_epoch = [&](const Epoch& e) { enough = e.epoch == 1; };
  CHECK(made().fit(data, o).stopped);
  CHECK(names(folder.path) == std::set<std::string>{step(6), step(12)});
}

TEST_CASE("fit: a resumed history knows which epochs were validated, and by which metrics") {
  auto data = batches(3), valid = batches(1);
  const Folder folder;
  Options o{.progress = false, .save_to = folder.path, .resume = true};
  made().fit(data, o);
  o.epochs = 2, o.validate = valid;
  made().fit(data, o);
  o.epochs = 3, o.metrics = {Accuracy{}};
  made().fit(data, o);
  o.epochs = 4;
  const History history = made().fit(data, o);
  REQUIRE(history.size() == 4);
  CHECK_FALSE(history[0].validation.has_value());
  CHECK(std::isnan((*history[1].validation)["accuracy"]));
  for (const std::size_t e : {2, 3}) CHECK_FALSE(std::isnan((*history[e].validation)["accuracy"]));
  o.metrics.clear();
  auto trainer = made();
  CHECK(contains(message_of<BadState>([&] { trainer.fit(data, o); }),
                 "`ikebana.parts.fit.history.metrics.accuracy` was saved"));
}

TEST_CASE("fit: SIGTERM saves after the current step if save_on_sigterm is set") {
  auto data = batches(6), valid = batches(2);
  const Folder plain, folder;
  auto whole = made();
  whole.fit(data, options(plain.path, valid));
  Options o = options(folder.path, valid);
  o.save_every = 0, o.save_on_sigterm = true;
  int validations = 0;
  o.on_epoch = [&](const Epoch&) { ++validations; };
  o.on_step = [&](const Report& report) {
    if (report.step == 9) ::raise(SIGTERM);
  };
  struct sigaction before{}, after{};
  ::sigaction(SIGTERM, nullptr, &before);
  auto first = made(), second = made();
  const History history = first.fit(data, o);
  ::sigaction(SIGTERM, nullptr, &after);
  CHECK((before.sa_handler == after.sa_handler));
  CHECK((history.stopped && history.terminated));
  CHECK(validations == 1);  // SIGTERM leaves no time for another
  CHECK(names(folder.path) == std::set<std::string>{step(6), step(10)});
  o.on_step = {};
  CHECK_FALSE(second.fit(data, o).stopped);
  CHECK(same_state(second.state(), whole.state()));
}

/// The handler of SIGTERM, which counts for its lifetime.
struct Counted {
  static inline std::atomic<int> calls = 0;
  struct sigaction before{};
  Counted() {
    calls = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { ++calls; };
    ::sigaction(SIGTERM, &action, &before);
  }
  ~Counted() { ::sigaction(SIGTERM, &before, nullptr); }
  /// Returns true if SIGTERM has this handler.
  static bool is_back() {
    const int former = calls;
    ::raise(SIGTERM);
    return calls == former + 1;
  }
};

TEST_CASE("fit: SIGTERM ends all fits that run, and leaves the handler of before the first") {
  auto data = batches(3);
  const Folder outer, inner, later;
  auto options_for = [](const Folder& folder) {
    return Options{.epochs = 9, .progress = false, .save_to = folder.path, .save_on_sigterm = true};
  };
  const Counted handler;
  auto trainer = made(), nested = made(), third = made();
  History of_inner, of_later;
  Options in = options_for(inner), out = options_for(outer);
  in.on_step = [](const Report& report) {
    if (report.step == 4) ::raise(SIGTERM);
  };
  out.on_step = [&](const Report& report) {
    if (report.step != 1) return;
    of_inner = nested.fit(data, in);
    of_later = third.fit(data, options_for(later));
  };
  const History of_outer = trainer.fit(data, out);
  CHECK((of_inner.terminated && of_outer.terminated && of_later.terminated));
  CHECK((nested.steps() == 5 && trainer.steps() == 2 && third.steps() == 1));
  CHECK(names(inner.path) == std::set<std::string>{step(3), step(5)});
  CHECK(names(outer.path) == std::set<std::string>{step(2)});
  CHECK(Counted::calls == 0);
  CHECK(Counted::is_back());
}

TEST_CASE("fit: requests for SIGTERM may end in any order, and none gets lost") {
  using ikebana::detail::SigtermRequest;
  const Counted handler;
  std::optional<SigtermRequest> first(true), second(std::in_place, true);
  CHECK_FALSE(first->received());
  first.reset();
  ::raise(SIGTERM);
  first.emplace(true);
  CHECK((first->received() && second->received()));
  second.reset(), first.reset();
  CHECK(Counted::calls == 0);
  CHECK(Counted::is_back());
  first.emplace(true);
  CHECK_FALSE(first->received());
  ::raise(SIGTERM);  // after fit has looked for the last time: the former handler gets it
  first.reset();
  CHECK(Counted::calls == 2);
  CHECK(Counted::is_back());
}

TEST_CASE("fit: contradicting options are errors before the first step") {
  auto data = batches(3), valid = batches(1);
  const Folder folder;
  made().fit(data, Options{.progress = false, .save_to = folder.path});
  auto trainer = made();
  auto refused = [&](Options o, const char* why) {
    o.progress = false;
    const std::string message = message_of<BadValue>([&] { trainer.fit(data, o); });
    CHECK_MESSAGE(contains(message, why), message);
  };
  const Folder empty;
  refused({.resume = true}, "Give save_to");
  refused({.save_every = 3}, "Give save_to");
  refused({.save_to = empty.path, .save_every = -1}, "save_every is -1; it must be 0 or more");
  refused({.save_to = empty.path, .keep = 0}, "keep is 0; it must be 1 or more");
  refused({.save_to = empty.path, .keep_best = KeepBest{}}, "Give validate");
  refused({.validate = valid, .save_to = empty.path, .keep_best = KeepBest{.metric = "f1"}},
          "not which of its values is the best");
  refused({.validate = valid,
           .save_to = empty.path,
           .keep_best = KeepBest{.metric = "f1", .mode = KeepBest::max}},
          "not among metrics");
  refused({.save_to = folder.path}, "Set resume to continue it");
  CHECK(trainer.steps() == 0);
  data.pop_back();
  const Options resumed{.epochs = 2, .progress = false, .save_to = folder.path, .resume = true};
  CHECK(contains(message_of<BadState>([&] { trainer.fit(data, resumed); }),
                 "`ikebana.parts.fit.batches` is 3, here it is 2"));
  Options pairs = resumed;
  pairs.batches_per_step = 2;
  CHECK(contains(message_of<BadState>([&] { trainer.fit(data, pairs); }),
                 "`ikebana.parts.fit.batches_per_step` is 1, here it is 2"));
}

}  // namespace test::fitting
