#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/ranks/full_state.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <ikebana/state/ranks/save_on_ranks.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void FullState::write(Metadata metadata) {
  begin(std::move(metadata));
  try {
    const auto sums = all_or_none<FileFailed>(group_, "the rows of a save", [&] { return rows(); });
    all_or_none<FileFailed>(group_, "the header of a save", [&] { return end(sums); });
  } catch (...) {
    if (group_.rank() == 0) remove_quietly(files_, new_path());
    throw;
  }
}

IKEBANA_INLINE void FullState::begin(Metadata metadata) {
  const auto all = all_or_none<FileFailed>(group_, "the file of a save", [&] {
    std::string own = std::to_string(slice_rank_) + "\n";
    if (group_.rank() != 0) return own;
    for (const auto& [name, t] : state_.tensors) shapes_[name] = whole(name, t);
    writer_.emplace(shapes_, std::move(metadata));
    files_.check_replaceable(path_);
    file_ = files_.create(new_path(), writer_->size());
    for (const auto& [name, slice] : state_.rows)
      own += std::to_string(writer_->offset_of(name)) + " " + Json::quoted(name) + "\n";
    return own;
  });
  std::vector<std::string> slice_ranks;
  for (const std::string& text : all) slice_ranks.push_back(lines_of(text)[0]);
  is_writer_ = writes_rows(slice_ranks, group_.rank());
  const auto lines = lines_of(all[0]);
  for (std::size_t i = 1; i < lines.size(); ++i)
    offsets_[lines[i].substr(lines[i].find(' ') + 1)] = std::stoull(lines[i]);
}

IKEBANA_INLINE at::Tensor FullState::whole(const std::string& name, const at::Tensor& t) const {
  const auto rows = state_.rows.find(name);
  const auto options = at::dtype(t.scalar_type()).device(at::kMeta);
  check_storable(name, t);
  return at::empty(rows == state_.rows.end() ? t.sizes() : at::IntArrayRef(rows->second.sizes),
                   options);
}

IKEBANA_INLINE std::string FullState::rows() {
  if (file_ == nullptr) file_ = open_shared();
  std::string sums;
  for (const auto& [name, t] : state_.tensors) {
    const auto rows = state_.rows.find(name);
    const bool is_whole = rows == state_.rows.end() || rows->second.is_whole();
    if (is_whole ? group_.rank() != 0 : !is_writer_ || t.numel() == 0) continue;
    const std::uint64_t first = is_whole ? 0 : static_cast<std::uint64_t>(rows->second.rows.first);
    const std::uint64_t row = is_whole ? 0 : t.nbytes() / static_cast<std::uint64_t>(t.size(0));
    const std::uint64_t begin =
        is_whole ? writer_->offset_of(name) : offsets_.at(Json::quoted(name));
    sums += std::to_string(first) + " " + std::to_string(t.nbytes()) + " " +
            std::to_string(write_elements(*file_, begin + first * row, t)) + " " +
            Json::quoted(name) + "\n";
  }
  file_->sync();
  return sums;
}

IKEBANA_INLINE std::unique_ptr<OutputFile> FullState::open_shared() const {
  try {
    return files_.open_to_write(new_path());
  } catch (const FileFailed& error) {
    throw FileFailed(std::string("save_full: rank 0 has created the file, and here: ") +
                     error.what() + " Name a folder that all ranks share.");
  }
}

IKEBANA_INLINE std::string FullState::end(const std::vector<std::string>& sums) {
  if (group_.rank() != 0) return file_.reset(), std::string();
  struct Sum {
    std::uint64_t bytes;
    std::uint32_t crc;
  };
  std::map<std::string, std::map<std::uint64_t, Sum>>
      all;  // keyed by quoted name, then by first row
  for (const std::string& of_rank : sums)
    for (const std::string& line : lines_of(of_rank)) {
      std::istringstream text(line);
      std::uint64_t first = 0;
      Sum sum{};
      std::string name;
      text >> first >> sum.bytes >> sum.crc, text.get(), std::getline(text, name);
      all[name][first] = sum;
    }
  for (const auto& [name, shape] : shapes_) {
    std::uint32_t crc = 0;
    for (const auto& [first, part] : all[Json::quoted(name)])
      crc = crc32_joined(crc, part.crc, part.bytes);
    writer_->set_checksum(name, crc);
  }
  writer_->write_header(*file_);
  file_->sync();
  put_in_place(files_, path_, [&](const auto& present) { return is_intact(files_, present); });
  remove_unnamed(files_, path_);
  file_.reset();
  return {};
}

IKEBANA_INLINE void save_full_on_ranks(SavedTrainer& trainer, const StateParts& parts,
                                       const Files::Path& path, Files& files) {
  trainer.together_or_not("save_full", [&] {
    const Ranks ranks = *trainer.several_ranks();
    const RankState state = trainer.rank_state(parts);
    FullState(ranks.data(), ranks.slices().rank(), state, path, files).write(metadata_of(trainer));
  });
}

}  // namespace ikebana::detail
