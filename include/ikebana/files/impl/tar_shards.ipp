#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/number_text.hpp>
#include <ikebana/files/tar_members.hpp>
#include <ikebana/files/tar_shards.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <unordered_map>

namespace ikebana {

IKEBANA_INLINE const std::string& TarSample::operator[](const std::string& extension) const {
  const auto found = files.find(extension);
  if (found != files.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files) names.push_back(name);
  throw BadFile("TarShards: sample `" + key + "` of `" + shard.string() + "` has no file `" +
                extension + "`, only " + detail::quoted_list(names) +
                ". Correct the extension, or leave the sample out of the shard.");
}

IKEBANA_INLINE std::int64_t TarSample::integer(const std::string& extension) const {
  std::string text = (*this)[extension];
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const detail::NumberText number = detail::read_number(text);
  if (number.kind != detail::NumberText::Kind::Integer)
    throw BadFile("TarShards: file `" + extension + "` of sample `" + key + "` of `" +
                  shard.string() + "` is " + detail::quoted_value(text) +
                  ", which is no integer. Read it by `sample[\"" + extension + "\"]`.");
  return number.integer;
}

namespace detail {

IKEBANA_INLINE bool divide_name(const std::string& name, std::string& key, std::string& extension) {
  const auto slash = name.rfind('/');
  const std::size_t begin = slash == name.npos ? 0 : slash + 1;
  const auto dot = name.find('.', begin);
  if (dot == name.npos || dot == begin) return false;
  const std::string_view top = std::string_view(name).substr(0, name.find('/'));
  if (top.size() >= 4 && top.starts_with("__") && top.ends_with("__")) return false;
  key = name.substr(0, dot), extension = name.substr(dot + 1);
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return true;
}

IKEBANA_INLINE TarIndex::TarIndex(const ShardPaths& paths) {
  for (const auto& path : paths.list()) add_shard(path);
  if (samples_.empty())
    throw BadFile("TarShards: none of the " + std::to_string(shards_.size()) +
                  " shards, such as `" + shards_[0].path.string() +
                  "`, has a sample. Their files need a name with an extension: `0001.jpg`.");
}

IKEBANA_INLINE std::uint32_t TarIndex::number_of(const std::string& extension) {
  const auto found = std::find(extensions_.begin(), extensions_.end(), extension);
  const auto number = static_cast<std::uint32_t>(found - extensions_.begin());
  if (found == extensions_.end()) extensions_.push_back(extension);
  return number;
}

IKEBANA_INLINE void TarIndex::add_shard(const std::filesystem::path& path) {
  const auto file = system_files().open(path);
  const auto shard = static_cast<std::uint32_t>(shards_.size());
  shards_.push_back({path, file->size(), std::filesystem::last_write_time(path)});
  std::unordered_map<std::string, std::size_t> sample_of;
  std::string key, extension;
  TarHeaders(*file, path).each([&](const TarMember& member) {
    if (!divide_name(member.name, key, extension)) return;
    const auto number = static_cast<std::int64_t>(members_.size());
    const std::uint32_t kind = number_of(extension);
    const auto [at, is_new] = sample_of.emplace(key, samples_.size());
    if (is_new) {
      samples_.push_back(
          {keys_.size(), static_cast<std::uint32_t>(key.size()), shard, number, number});
      keys_ += key;
    } else {
      Sample& sample = samples_[at->second];
      for (std::int64_t i = sample.first; i >= 0; i = members_[std::size_t(i)].next)
        if (members_[std::size_t(i)].extension == kind)
          throw BadFile("TarShards: `" + path.string() + "` has the file " +
                        quoted_value(member.name) +
                        " twice; extensions are compared in lower case. Write each file once.");
      members_[std::size_t(sample.last)].next = number;
      sample.last = number;
    }
    members_.push_back({member.offset, member.size, kind, -1});
  });
}

IKEBANA_INLINE const TarIndex::Sample& TarIndex::sample(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw BadValue("TarShards: there is no sample " + std::to_string(index) +
                   "; indices are 0 to " + std::to_string(size() - 1) + ". Choose one of these.");
  return samples_[static_cast<std::size_t>(index)];
}

IKEBANA_INLINE std::string TarIndex::key(std::int64_t index) const {
  const Sample& found = sample(index);
  return keys_.substr(found.key_begin, found.key_size);
}

IKEBANA_INLINE TarSample TarIndex::read(std::int64_t index) const {
  const Sample& found = sample(index);
  const Shard& shard = shards_[found.shard];
  TarSample result{key(index), shard.path, {}};
  const auto file = system_files().open(shard.path);
  std::error_code code;
  const auto changed = std::filesystem::last_write_time(shard.path, code);
  if (file->size() != shard.size || changed != shard.changed || code)
    throw BadFile("TarShards: `" + shard.path.string() +
                  "` has changed since its headers were read. Make the dataset again when the "
                  "shard is written.");
  for (std::int64_t i = found.first; i >= 0; i = members_[std::size_t(i)].next) {
    const Member& member = members_[std::size_t(i)];
    std::string bytes(member.size, '\0');
    file->read(member.offset, bytes.data(), bytes.size());
    result.files.emplace(extensions_[member.extension], std::move(bytes));
  }
  return result;
}

}  // namespace detail
}  // namespace ikebana
