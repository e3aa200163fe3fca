#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/files/safetensors_reader.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <set>

namespace ikebana::detail {

IKEBANA_INLINE std::string rank_file_name(const Files::Path& state, const std::string& token,
                                          std::int64_t rank, std::int64_t ranks) {
  return state.filename().string() + "." + token + ".rank-" + std::to_string(rank) + "-of-" +
         std::to_string(ranks);
}

IKEBANA_INLINE std::optional<std::string> state_of_rank_file(std::string_view name) {
  constexpr std::string_view mark = ".rank-", digits = "0123456789", hex = "0123456789abcdef";
  if (name.ends_with(new_suffix)) name.remove_suffix(std::string_view(new_suffix).size());
  const std::size_t at = name.rfind(mark), token = 16;
  if (at == name.npos || at < token + 2 || name[at - token - 1] != '.') return std::nullopt;
  const std::string_view numbers = name.substr(at + mark.size());
  const std::size_t of = numbers.find("-of-");
  auto are = [](std::string_view text, std::string_view letters) {
    return !text.empty() && text.find_first_not_of(letters) == text.npos;
  };
  if (of == numbers.npos || !are(numbers.substr(0, of), digits) ||
      !are(numbers.substr(of + 4), digits) || !are(name.substr(at - token, token), hex))
    return std::nullopt;
  return std::string(name.substr(0, at - token - 1));
}

IKEBANA_INLINE Metadata with_files(Metadata metadata, const std::vector<RankFile>& files) {
  metadata[ranks_key] = std::to_string(files.size());
  for (std::size_t r = 0; r < files.size(); ++r)
    metadata[file_prefix + std::to_string(r)] = files[r].checksum + " " + files[r].name;
  return metadata;
}

IKEBANA_INLINE std::optional<std::vector<RankFile>> files_of(const FileHeader& header,
                                                             const Files::Path& path) {
  const auto count = header.metadata.find(ranks_key);
  if (count == header.metadata.end()) return std::nullopt;
  auto damaged = [&](const std::string& key, const char* what) {
    throw BadFile("load: `" + path.string() + "` is damaged, at byte 8: `__metadata__." +
                  Json::excerpt(key) + "` " + what + ". Use another copy or an earlier state.");
  };
  const std::string& text = count->second;
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != text.npos)
    damaged(ranks_key, "is no number of ranks");
  std::vector<RankFile> files(static_cast<std::size_t>(std::stoi(text)));
  for (std::size_t r = 0; r < files.size(); ++r) {
    const std::string key = file_prefix + std::to_string(r);
    const auto found = header.metadata.find(key);
    if (found == header.metadata.end()) damaged(key, "is missing");
    const std::string& value = found->second;
    if (value.size() < 10 || value[8] != ' ' ||
        value.find_first_of(std::string("/\\\0", 3)) != value.npos)
      damaged(key, "is not a checksum and the name of a file in its folder");
    files[r] = {value.substr(9), value.substr(0, 8)};
  }
  if (files.empty()) damaged(ranks_key, "is 0");
  return files;
}

IKEBANA_INLINE void remove_unnamed(Files& files, const Files::Path& folder,
                                   c10::function_ref<bool(const std::string& name)> is_ours) {
  std::set<std::string> named;
  std::vector<std::string> found, states;
  for (const std::string& name : files.list(folder)) {
    std::string_view state = name;
    if (state.ends_with(former_suffix)) state.remove_suffix(std::string_view(former_suffix).size());
    if (const auto of = state_of_rank_file(name)) {
      if (is_ours(*of)) found.push_back(name);
    } else if (is_ours(std::string(state))) {
      states.push_back(name);
    }
  }
  if (found.empty()) return;
  for (const std::string& name : states) try {
      const auto all = files_of(TensorFileReader(files, folder / name).header(), folder / name);
      for (const RankFile& file : all.value_or(std::vector<RankFile>())) named.insert(file.name);
    } catch (const Error&) {
      return;
    }
  for (const std::string& name : found)
    if (!named.count(name)) files.remove(folder / name);
}

IKEBANA_INLINE void remove_unnamed(Files& files, const Files::Path& state) {
  remove_unnamed(files, folder_of(state),
                 [name = state.filename().string()](const auto& other) { return other == name; });
}

IKEBANA_INLINE std::vector<RankFile> named_files(Files& files, const Files::Path& path) {
  constexpr std::uint64_t largest = 8 << 20;
  try {
    if (!files.exists(path) || files.open(path)->size() > largest) return {};
    return files_of(TensorFileReader(files, path).header(), path).value_or(std::vector<RankFile>());
  } catch (const Error&) {
    return {};
  }
}

}  // namespace ikebana::detail
