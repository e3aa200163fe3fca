// fit with saved states on a disk that fails, is slow, or holds damaged states.
#include <signal.h>
#include <sys/resource.h>
#include <fstream>

#include "state/fit_nets.hpp"

namespace test::fitting {

void flip(const fs::path& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  REQUIRE(file.good());
}
TEST_CASE("fit: it keeps the newest states and the best, and nothing else") {
  auto data = batches(6), valid = batches(2);
  for (const bool links : {true, false}) {
    const Folder folder;
    Disk disk([](int) { return false; }, {}, links);
    Options o = options(folder.path, valid);
    o.files = &disk, o.epochs = 5, o.keep = 2, o.keep_best = KeepBest{};
    std::map<double, StateDict> by_loss;
    auto trainer = made();
    o.on_epoch = [&](const Epoch& e) { by_loss[e.validation->loss] = trainer.state(); };
    trainer.fit(data, o);
    CHECK(names(folder.path) == std::set<std::string>{"best.safetensors", step(27), step(30)});
    StateDict best = load_tensors(folder / "best.safetensors").tensors;
    std::erase_if(best,
                  [](const auto& item) { return item.first.starts_with("ikebana.parts.fit."); });
    CHECK(same_state(best, by_loss.begin()->second));
  }
}

TEST_CASE("fit: a state that the training went back to is the newest, however many steps it has") {
  auto data = batches(6), valid = batches(2);
  const Folder folder;
  Options o = options(folder.path, valid);
  o.epochs = 1;
  auto trainer = made();
  trainer.fit(data, o);  // 6 steps
  const StateDict early = load_tensors(folder.path / step(3)).tensors;
  o.epochs = 2, o.keep = 1;
  o.on_epoch = [&](const Epoch&) { trainer.restore(early, ignore_parts); };
  trainer.fit(data, o);
  CHECK(trainer.steps() == 3);
  CHECK(names(folder.path) == std::set<std::string>{step(3)});
  o.epochs = 3, o.on_epoch = {};
  std::vector<std::int64_t> seen;
  o.on_step = [&](const Report& report) { seen.push_back(report.step); };
  made().fit(data, o);
  CHECK(seen == std::vector<std::int64_t>{3, 4, 5, 6, 7, 8});
}

TEST_CASE("fit: it resumes from the newest intact state, and warns of those that it skips") {
  auto data = batches(6), valid = batches(2);
  const Folder folder;
  Options o = options(folder.path, valid);
  o.epochs = 1;
  auto trainer = made();
  trainer.fit(data, o);
  const auto newest = folder.path / step(6), former = folder.path / step(3);
  flip(newest, fs::file_size(newest) - 5);
  std::vector<std::int64_t> seen;
  auto resumed = made();
  o.on_step = [&](const Report& report) { seen.push_back(report.step); };
  {
    const Warnings warnings;
    resumed.fit(data, o);
    CHECK(warnings.count("skipped a state") == 1);
    CHECK(warnings.count(step(6) + "` is damaged") == 1);
  }
  CHECK(seen == std::vector<std::int64_t>{3, 4, 5});
  CHECK(same_state(resumed.state(), trainer.state()));

  fs::resize_file(newest, 100), fs::resize_file(former, 0);
  const Warnings warnings;
  auto third = made();
  CHECK(contains(message_of<BadFile>([&] { third.fit(data, o); }), "none of the 2 states"));
  CHECK(third.steps() == 0);
}

TEST_CASE("fit: a damaged state never replaces an intact one that is to be kept") {
  auto data = batches(6), valid = batches(2);
  const Folder folder;
  Options o = options(folder.path, valid);
  o.epochs = 1;
  made().fit(data, o);
  fs::resize_file(folder.path / step(6), 100);
  o.save_every = 1, o.keep = 1;
  const Warnings warnings;
  auto second = made();
  CHECK_FALSE(fits(second, data, killed_after(o, 1)));
  CHECK(names(folder.path) == std::set<std::string>{step(4), step(6)});
  auto third = made();
  CHECK(fits(third, data, killed_after(o, 2)));
  CHECK(warnings.count("skipped a state") == 2);
  CHECK(names(folder.path) == std::set<std::string>{step(6)});
  CHECK_NOTHROW(load_tensors(folder.path / step(6)));
}

TEST_CASE("fit: a state of another recipe is an error and is not skipped") {
  auto data = batches(3);
  const Folder folder;
  const Options o{.progress = false, .save_to = folder.path, .resume = true};
  made().fit(data, o);
  nn::Sequential model(nn::Linear(8, 3));
  Trainer other{model, CrossEntropyLoss{}, SGD{.momentum = 0.9}};
  const auto before = other.state();
  const std::string message = message_of<BadState>([&] { other.fit(data, o); });
  for (const char* part :
       {"`ikebana.trained.0.weight` is Float[16, 8], the trainer has Float[3, 8]",
        "the state was saved with AdamW, EMA, ReduceLROnPlateau, and this recipe has SGD; `"})
    CHECK_MESSAGE(contains(message, part), message);
  CHECK(same_state(other.state(), before));
}

TEST_CASE("fit: a full disk ends no training, loses no former state, and is reported") {
  auto data = batches(6), valid = batches(2);
  auto whole = made();
  const Folder plain;
  whole.fit(data, options(plain.path, valid));
  for (const bool async : {false, true}) {
    const Folder folder;
    Disk disk([](int n) { return n == 1 || n == 2; });
    Options o = options(folder.path, valid);
    o.files = &disk, o.save_async = async;
    const Warnings warnings;
    auto trainer = made();
    trainer.fit(data, o);
    CHECK(warnings.count("was not saved; training goes on") == 2);
    CHECK(warnings.count("No space left on device. Free space") == 2);
    CHECK(same_state(trainer.state(), whole.state()));
    CHECK(names(folder.path) ==
          std::set<std::string>{step(3), step(9), step(12), step(15), step(18)});
  }
  for (const bool async : {false, true}) {
    const Folder folder;
    Disk disk([](int n) { return n > 0; });
    Options o = options(folder.path, valid);
    o.files = &disk, o.save_async = async;
    const Warnings warnings;
    auto trainer = made();
    CHECK(contains(message_of<FileFailed>([&] { trainer.fit(data, o); }), "Free space"));
    CHECK(same_state(trainer.state(), whole.state()));
    CHECK(names(folder.path) == std::set<std::string>{step(3)});
    CHECK_NOTHROW(load_tensors(folder.path / step(3)));
  }
}

TEST_CASE("fit: errors of the system are reported, before the first step if possible") {
  auto data = batches(3);
  const Folder folder;
  std::ofstream(folder / "file") << "no folder";
  auto trainer = made();
  Options o{.progress = false, .save_to = folder / "file"};
  CHECK(contains(message_of<FileFailed>([&] { trainer.fit(data, o); }), "cannot make the folder"));
  o.save_to = "/proc/ikebana";
  CHECK(contains(message_of<FileFailed>([&] { trainer.fit(data, o); }), "/proc/ikebana"));
  CHECK(trainer.steps() == 0);

  // Like a full disk: no file may have more than 1000 bytes.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto path = folder / "state.safetensors";
  const std::string message = message_of<FileFailed>([&] { trainer.save(path); });
  setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  CHECK_MESSAGE(contains(message, "state.safetensors.ikebana-new`: File too large"), message);
  CHECK(names(folder.path) == std::set<std::string>{"file"});
  trainer.save(path);
  CHECK_NOTHROW(trainer.load(path));
}

TEST_CASE("fit: one training at a time uses a folder, and removes its leftovers, no other files") {
  auto data = batches(3);
  const Folder folder;
  std::ofstream(folder / "step-000000000002.safetensors.ikebana-new") << "cut short";
  std::ofstream(folder / "best.safetensors.ikebana-new") << "cut short";
  const std::set<std::string> foreign = {"fit.lock", "model.safetensors.new",
                                         "model.safetensors.ikebana-new", "step-2.safetensors.new"};
  for (const auto& name : foreign) std::ofstream(folder.path / name) << "of another program";
  Options o{.progress = false, .save_to = folder.path};
  auto trainer = made(), other = made();
  o.on_step = [&](const Report&) {
    CHECK(
        contains(message_of<FileFailed>([&] { other.fit(data, Options{.save_to = folder.path}); }),
                 "Another process is saving to it"));
  };
  trainer.fit(data, o);
  CHECK(other.steps() == 0);
  std::set<std::string> wanted = foreign;
  wanted.insert(step(3));
  CHECK(names(folder.path) == wanted);
  for (const auto& name : foreign) CHECK(fs::file_size(folder.path / name) == 18);
}

TEST_CASE("fit: training waits for a slow disk, and warns once") {
  auto data = batches(6), valid = batches(2);
  const Folder plain, folder;
  auto whole = made();
  whole.fit(data, options(plain.path, valid));
  auto trainer = made();
  Disk disk([](int) { return false; }, std::chrono::milliseconds(200));
  Options o = options(folder.path, valid);
  o.files = &disk, o.save_async = true, o.save_every = 1;
  const Warnings warnings;
  trainer.fit(data, o);
  CHECK(warnings.count("disk is slower") == 1);
  CHECK(same_state(trainer.state(), whole.state()));
  CHECK(names(folder.path).size() == 18);
}

}  // namespace test::fitting
