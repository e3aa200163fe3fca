// Saved states of several ranks whose files were changed or are missing, or that do not fit; what
// ranks do not have in common.
#include <fstream>

#include "small.hpp"

namespace {
namespace state_files {

using namespace test::ranks;
namespace fs = std::filesystem;

TEST_CASE("save: former files of ranks are removed, others stay") {
  test::Folder folder;
  const fs::path path = folder / "state";
  const auto nets = models(3);
  for (const char* other : {"state.rank-0-of-3", "state.0123456789abcdef.rank-x-of-3", "other"})
    std::ofstream(folder / other) << "x";
  std::ofstream(folder / "state.0123456789abcdef.rank-2-of-3") << "of an interrupted save";
  std::ofstream(folder / "state.0123456789abcdef.rank-1-of-3.ikebana-new") << "of another";
  on_groups(3, [&](const ProcessGroup& group) {
    auto trainer = sgd_over(group, nets[static_cast<std::size_t>(group.rank())]);
    for (int i = 0; i < 3; ++i) trainer.save(path);
    trainer.save_async(path).wait();
  });
  CHECK(names_in(folder.path).size() == 3 + 1 + 3);
  Trainer one{make<Small>(), SGD{.lr = 1e-2, .momentum = 0.9}};
  one.load(path);
  one.save(path);  // in its place
  CHECK(names_in(folder.path).size() == 3 + 1);
}

/// Changes a byte of a file.
void damage(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-5, std::ios::end);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-5, std::ios::end), file.put(byte);
}
TEST_CASE("load: a file of one rank is damaged, missing, or of another save") {
  test::Folder folder;
  const fs::path path = folder / "state";
  const auto all = batches(1, 4);
  const auto file_of = [&](const char* end) {
    for (const std::string& name : names_in(folder.path))
      if (name.ends_with(end)) return folder / name.c_str();
    throw std::runtime_error("no such file");
  };
  for (const char* what : {"damaged", "missing", "of another save"}) {
    const auto nets = models(2);
    on_groups(2, [&](const ProcessGroup& group) {
      CAPTURE(what);
      auto trainer = sgd_over(group, nets[static_cast<std::size_t>(group.rank())]);
      trainer.step(part(all[0], group.rank(), 2));
      trainer.save(path);
      const StateDict before = trainer.state();
      auto& ranks = trainer.ranks().data();
      if (group.rank() == 0) {
        const fs::path file = file_of(".rank-1-of-2");
        if (what == std::string("damaged")) damage(file);
        else fs::remove(file);
        if (what == std::string("of another save")) fs::copy_file(file_of(".rank-0-of-2"), file);
      }
      ranks.exchange("");
      CHECK_THROWS_AS(trainer.load(path), BadFile);  // it throws on rank 0 as well, which can read
                                                     // its own file
      CHECK(test::same_state(trainer.state(), before));
      trainer.step(part(all[0], group.rank(), 2));
      trainer.save(path), trainer.load(path);
    });
  }
}

TEST_CASE("load: what does not fit on one rank changes none") {
  test::Folder folder;
  const fs::path path = folder / "state";
  const auto nets = models(2);
  const auto all = batches(1, 4);
  on_groups(2, [&](const ProcessGroup& group) {
    auto trainer = sgd_over(group, nets[static_cast<std::size_t>(group.rank())]);
    trainer.step(part(all[0], group.rank(), 2));
    trainer.save(path);
  });
  auto other = models(2);
  for (auto& model : other) model->head->weight.set_data(at::zeros({2, 5}));
  on_groups(2, [&](const ProcessGroup& group) {
    auto trainer = sgd_over(group, other[static_cast<std::size_t>(group.rank())]);
    const StateDict before = trainer.state();
    std::string error;
    try {
      trainer.load(path);
    } catch (const BadState& bad) {
      error = bad.what();
    }
    CHECK(error.find("`head.weight` is Float[3, 5], the trainer has Float[2, 5]") !=
          std::string::npos);
    CHECK(test::same_state(trainer.state(), before));
  });
}

/// The values that ranks may have on their own.
struct OfRank {
  static constexpr const char* state_name = "of_rank";
  std::int64_t rank = 0, common = 7;
  void state(Archive& archive) {
    archive.number("rank", rank);
    archive.number("common", common);
  }
};
TEST_CASE("what is a rank's own is its own again on as many ranks, else rank 0's") {
  test::Folder folder;
  const fs::path path = folder / "state";
  for (const std::int64_t n : {2, 3}) {
    const auto nets = models(n);
    on_groups(n, [&](const ProcessGroup& group) {
      auto trainer = sgd_over(group, nets[static_cast<std::size_t>(group.rank())]);
      OfRank part;
      if (n == 2) {
        part = {10 + group.rank(), 8};
        trainer.save(path, part);
        part = {};
      }
      trainer.load(path, part);
      CHECK(part.rank == (n == 2 ? 10 + group.rank() : 10));
      CHECK(part.common == 8);
    });
  }
}

}  // namespace state_files
}  // namespace
