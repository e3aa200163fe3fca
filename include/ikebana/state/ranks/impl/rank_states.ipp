#pragma once
#include <ikebana/detail/content_hash.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/ranks/state_reader.hpp>
#include <random>
#include <thread>

namespace ikebana::detail {

IKEBANA_INLINE bool is_intact(Files& files, const Files::Path& path) {
  try {
    StateReader(files, path, /*require_checksums=*/false).check();
    return true;
  } catch (const Error&) {
    return false;
  }
}

IKEBANA_INLINE std::string RankSave::name_of(std::int64_t rank) const {
  return "save/" + token_ + "/" + std::to_string(rank);
}

IKEBANA_INLINE std::string RankSave::write(const StateDict& tensors, const StateRows& rows) const {
  Metadata metadata = metadata_;
  metadata["ikebana.rank"] = std::to_string(rank_) + " of " + std::to_string(ranks_);
  TensorFileWriter writer(tensors, metadata, rows);
  std::string checksum;
  auto all = [&](OutputFile& file) { checksum = hex8(writer.write(file)); };
  write_durably(files_, path_of(rank_), writer.size(), all, [](const auto&) { return true; });
  return checksum;
}

IKEBANA_INLINE void RankSave::commit(const std::vector<std::string>& checksums) const {
  std::vector<RankFile> all;
  for (std::int64_t r = 0; r < ranks_; ++r) {
    wait_for(r);
    all.push_back({path_of(r).filename().string(), checksums[static_cast<std::size_t>(r)]});
  }
  const StateDict none;
  for (const Files::Path& path : paths_) {
    TensorFileWriter manifest(none, with_files(metadata_, all));
    auto write = [&](OutputFile& file) { manifest.write(file); };
    write_durably(files_, path, manifest.size(), write,
                  [&](const auto& present) { return is_intact(files_, present); });
  }
}

IKEBANA_INLINE Files::Path RankSave::path_of(std::int64_t rank) const {
  return folder_of(paths_.back()) / rank_file_name(paths_.back(), token_, rank, ranks_);
}

IKEBANA_INLINE void RankSave::wait_for(std::int64_t rank) const {
  const auto end = std::chrono::steady_clock::now() + sees_within;
  while (!files_.exists(path_of(rank))) {
    if (std::chrono::steady_clock::now() > end)
      throw FileFailed("save: rank " + std::to_string(rank) + " has written `" +
                       path_of(rank).string() +
                       "`, and rank 0 does not see it. Name a folder that all ranks share.");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Makes a token that no other save has.
inline std::string new_token() {
  std::random_device device;
  return hex8(device()) + hex8(device());
}

IKEBANA_INLINE bool writes_rows(const std::vector<std::string>& slice_ranks, std::int64_t rank) {
  const auto own = slice_ranks.begin() + rank;
  return std::find(slice_ranks.begin(), own, *own) == own;
}

IKEBANA_INLINE std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    all.push_back(text.substr(at, end - at)), at = end + 1;
  }
  return all;
}

IKEBANA_INLINE std::string divide(RankGroup& group, std::int64_t slice_rank, RankState& state) {
  std::map<std::string, std::string> contents;  // the contents of each tensor that may differ among
                                                // ranks
  for (const auto& [name, t] : state.tensors)
    if (!state.rows.count(name))
      contents[name] = std::to_string(content_hash(t)) + " " + Json::quoted(name);
  std::string own = std::to_string(slice_rank) + "\n" + new_token() + "\n";
  if (group.rank() == 0)
    for (const auto& [name, content] : contents) own += content + "\n";
  std::vector<std::string> slice_ranks, first;
  for (const std::string& text : exchange_in(group, "the beginning of a save", own)) {
    slice_ranks.push_back(lines_of(text)[0]);
    if (first.empty()) first = lines_of(text);
  }
  if (group.rank() == 0) return first[1];
  const std::set<std::string> of_first(first.begin() + 2, first.end());
  const bool is_writer = writes_rows(slice_ranks, group.rank());
  std::erase_if(state.tensors, [&](const auto& item) {
    const auto rows = state.rows.find(item.first);
    if (rows == state.rows.end()) return of_first.count(contents[item.first]) != 0;
    return !is_writer || rows->second.is_whole() || rows->second.rows.count == 0;
  });
  return first[1];
}

IKEBANA_INLINE TensorFile read_whole(Files& files, const Files::Path& path,
                                     bool require_checksums) {
  StateReader reader(files, path, require_checksums);
  TensorFile file{reader.header(), {}};
  for (const std::string& name : reader.names(0, 1)) file.tensors[name] = reader.read(name, 0, 1);
  return file;
}

IKEBANA_INLINE LoadedState read_state(Files& files, const Files::Path& path, std::int64_t rank,
                                      std::int64_t ranks,
                                      const std::function<StateRows(StateDict)>& plan) {
  StateReader reader(files, path);
  LoadedState loaded{reader.header(), {}};
  StateDict names;
  for (const std::string& name : reader.names(rank, ranks)) names[name];
  loaded.state.rows = plan(names);
  for (const auto& [name, none] : names) {
    const auto wanted = loaded.state.rows.find(name);
    loaded.state.tensors[name] = wanted == loaded.state.rows.end()
                                     ? reader.read(name, rank, ranks)
                                     : reader.read_rows(name, rank, ranks, wanted->second);
  }
  return loaded;
}

}  // namespace ikebana::detail
