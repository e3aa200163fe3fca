// Lists what may be on a disk before a save: nothing, a state, two saves in a row, and what
// interrupted saves left beside it.
#include "state/campaign/scenarios.hpp"

namespace campaign {
namespace {

std::string bytes_of(int number) {
  Disk disk;
  save_number(disk, number);
  return disk.bytes(state_path);
}

/// The content of one of the paths: nothing, noise, half a state, a state, or a hard link to the
/// state.
struct Leftover {
  const char* name;
  int number = nothing;
  enum { None, Noise, Half, Whole, Link } what = None;
};

void put(Disk& disk, const std::filesystem::path& path, const Leftover& left) {
  if (left.what == Leftover::Noise) disk.put(path, std::string(1500, '\x5a'));
  if (left.what == Leftover::Half) disk.put(path, bytes_of(left.number).substr(0, 700));
  if (left.what == Leftover::Whole) disk.put(path, bytes_of(left.number));
  if (left.what == Leftover::Link && disk.exists(state_path)) disk.put_link(state_path, path);
}

void add_leftovers(std::vector<Scenario>& scenarios, FileSystem kind) {
  const Leftover states[] = {{"state", 10, Leftover::Whole},
                             {"no state", 0, Leftover::None},
                             {"half a state", 10, Leftover::Half}};
  const Leftover formers[] = {{"no former"},
                              {"former noise", 0, Leftover::Noise},
                              {"a former", 9, Leftover::Whole},
                              {"its link", 0, Leftover::Link}};
  const Leftover fresh[] = {{"no .new"},
                            {".new noise", 0, Leftover::Noise},
                            {"half a .new", 11, Leftover::Half},
                            {"a .new", 11, Leftover::Whole},
                            {".new link", 0, Leftover::Link}};
  for (const auto& a : states)
    for (const auto& b : formers)
      for (const auto& c : fresh) {
        Disk disk(kind);
        put(disk, state_path, a);
        put(disk, ikebana::detail::with_suffix(state_path, ikebana::detail::former_suffix), b);
        put(disk, ikebana::detail::with_suffix(state_path, ikebana::detail::new_suffix), c);
        const int number = number_on(disk);
        scenarios.push_back({std::string(a.name) + ", " + b.name + ", " + c.name, disk, {number}});
      }
}

}  // namespace

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> scenarios;
  for (const FileSystem kind : {FileSystem{true, true}, FileSystem{false, true},
                                FileSystem{true, false}, FileSystem{false, false}}) {
    const std::size_t first = scenarios.size();
    add_leftovers(scenarios, kind);
    Scenario two{"two in a row", Disk(kind), {nothing}};
    for (int number : {10, 11, 12}) {
      save_number(two.disk, number), two.may = {number};
      scenarios.push_back(two);
    }
    for (std::size_t i = first; i < scenarios.size(); ++i)
      scenarios[i].name +=
          std::string(kind.journal ? "" : ", no journal") + (kind.links ? "" : ", no links");
  }
  return scenarios;
}

}  // namespace campaign
