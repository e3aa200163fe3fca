// Saves of several ranks that fail or are killed at any operation on files, on any rank.
#include <ikebana/state/ranks/full_state.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <ikebana/state/ranks/save_on_ranks.hpp>

#include "failing_files.hpp"
#include "small.hpp"

namespace {
namespace state_failures {

using namespace test::ranks;
namespace fs = std::filesystem;
using ikebana::detail::save_on_ranks;

/// Calls `save`, and returns the text of its error.
template <class Trainer, class Save>
std::string error_of(Trainer& trainer, const fs::path& path, FailingFiles& files,
                     const Save& save) {
  try {
    save(trainer, path, files);
  } catch (const Killed&) {
    return "killed";
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}
void check_texts(const std::vector<std::string>& errors, std::int64_t rank, std::int64_t at) {
  const std::string what = "operation " + std::to_string(at) + " fails";
  CHECK(errors[static_cast<std::size_t>(rank)].find(what) != std::string::npos);
  CHECK(errors[static_cast<std::size_t>(1 - rank)].starts_with("rank " + std::to_string(rank)));
}
/// Each operation of `rank` fails in turn. It is reported to all ranks, the file has the former
/// state or the new one, and a later save succeeds. Returns how many there are.
template <class Save>
std::int64_t check_failures(std::int64_t rank, const Save& save) {
  CAPTURE(rank);
  test::Folder folder;
  const fs::path path = folder / "state", wanted = folder / "wanted";
  const auto nets = models(2);
  const auto all = batches(1, 4);
  std::int64_t operations = 0;
  StateDict first;
  on_groups(2, [&](const ProcessGroup& group) {
    auto trainer = sgd_over(group, nets[static_cast<std::size_t>(group.rank())]);
    RankGroup& ranks = trainer.ranks().data();
    save(trainer, path, system_files());
    if (group.rank() == 0) first = whole_state(path);
    for (std::int64_t at = 0;; ++at) {
      CAPTURE(at);
      trainer.step(part(all[0], group.rank(), 2));
      trainer.save_full(wanted);
      FailingFiles files(group.rank() == rank ? at : never, /*kills=*/false);
      const auto errors = ranks.exchange(error_of(trainer, path, files, save));
      CHECK(errors[0].empty() == errors[1].empty());
      if (!errors[0].empty()) check_texts(errors, rank, at);
      if (group.rank() == 0) {
        const StateDict second = whole_state(path), expected = whole_state(wanted);
        CHECK((test::same_state(second, first) || test::same_state(second, expected)));
        first = expected;
      }
      ranks.exchange("");
      save(trainer, path, system_files());
      if (ranks.exchange(files.has_failed() ? "1" : "")[static_cast<std::size_t>(rank)].empty()) {
        if (group.rank() == rank) operations = at;
        return;
      }
    }
  });
  return operations;
}
/// Saves twice; kills `rank` at its operation `at` of the second save. Returns whether there is
/// one.
template <class Save>
bool save_twice(const fs::path& path, std::int64_t rank, std::int64_t at, const Save& save) {
  const auto nets = models(2);
  const auto all = batches(1, 4);
  bool was_killed = false;
  on_groups(2, [&](const ProcessGroup& group) {
    auto trainer = sgd_over(group, nets[static_cast<std::size_t>(group.rank())]);
    save(trainer, path, system_files());
    trainer.step(part(all[0], group.rank(), 2));
    FailingFiles files(group.rank() == rank ? at : never, /*kills=*/true);
    error_of(trainer, path, files, save);
    if (group.rank() == rank) was_killed = files.has_failed();
  });
  return was_killed;
}
/// The file has the former state or the new one.
template <class Save>
std::int64_t check_kills(std::int64_t rank, const Save& save) {
  CAPTURE(rank);
  test::Folder folder;
  save_twice(folder / "last", rank, never, save);
  const StateDict last = whole_state(folder / "last");
  for (std::int64_t at = 0;; ++at) {
    CAPTURE(at);
    const fs::path path = folder / std::to_string(at).c_str();
    if (!save_twice(path, rank, at, save)) return at;
    const StateDict found = whole_state(path);
    if (found.at("ikebana.trainer.step").item<std::int64_t>() != 0) check_same(found, last);
  }
}

const auto save_each = [](auto& trainer, const fs::path& path, Files& files) {
  ikebana::detail::SavedTrainerOf saved(trainer);
  save_on_ranks(saved, {}, {path}, files,
                [&, path] { ikebana::detail::remove_unnamed(files, path); });
};
const auto save_one = [](auto& trainer, const fs::path& path, Files& files) {
  ikebana::detail::SavedTrainerOf saved(trainer);
  ikebana::detail::save_full_on_ranks(saved, {}, path, files);
};

template <class Save>
void check_all(const Save& save) {
  for (const std::int64_t rank : {0, 1}) {
    const std::int64_t operations = check_failures(rank, save);
    CHECK(operations >= 3);
    CHECK(check_kills(rank, save) == operations);
  }
}
TEST_CASE("save: an operation on files fails or kills, on any rank") { check_all(save_each); }
TEST_CASE("save_full: an operation on files fails or kills, on any rank") { check_all(save_one); }

}  // namespace state_failures
}  // namespace
