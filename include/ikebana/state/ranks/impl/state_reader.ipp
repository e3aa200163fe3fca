#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/ranks/state_reader.hpp>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE StateReader::StateReader(Files& files, const Files::Path& path,
                                        bool require_checksums)
    : files_(files), path_(path) {
  TensorFileReader first(files, path);
  header_ = first.header(require_checksums);
  if (const auto named = files_of(header_, path)) {
    for (const RankFile& file : *named) add(file);
  } else {
    parts_.push_back({path, header_});
    open_ = std::move(first), open_part_ = 0;  // the file stays the same one if it is replaced
  }
  collect();
}

IKEBANA_INLINE std::set<std::string> StateReader::names(std::int64_t rank,
                                                        std::int64_t ranks) const {
  std::set<std::string> all;
  for (const auto& [name, pieces] : pieces_) all.insert(name);
  for (const std::size_t part : parts_for(rank, ranks))
    for (const auto& [name, tensor] : parts_[part].header.tensors) all.insert(name);
  return all;
}

IKEBANA_INLINE StateReader::Layout StateReader::layout(const std::string& name) const {
  const Pieces pieces = pieces_of(name, 0, 1);
  return {pieces.type, pieces.sizes};
}

IKEBANA_INLINE at::Tensor StateReader::read(const std::string& name, std::int64_t rank,
                                            std::int64_t ranks) {
  return read(pieces_of(name, rank, ranks), name, nullptr);
}

IKEBANA_INLINE at::Tensor StateReader::read_rows(const std::string& name, std::int64_t rank,
                                                 std::int64_t ranks, Slice& wanted) {
  const Pieces pieces = pieces_of(name, rank, ranks);
  const auto sizes = std::exchange(wanted.sizes, pieces.sizes);
  if (sizes != pieces.sizes)
    return at::empty(pieces.sizes, at::dtype(pieces.type).device(at::kMeta));
  return read(pieces, name, &wanted);
}

IKEBANA_INLINE void StateReader::check() {
  for (std::size_t part = 0; part < parts_.size(); ++part)
    for (const auto& [name, tensor] : parts_[part].header.tensors)
      file_of(part).tensor(parts_[part].header, name);
}

IKEBANA_INLINE void StateReader::add(const RankFile& file) {
  Part part{folder_of(path_) / file.name, {}};
  try {
    part.header = TensorFileReader(files_, part.path).header(/*require_checksums=*/true);
  } catch (const FileFailed& error) {
    refuse_incomplete(file.name, error.what());
  }
  if (part.header.metadata.at(crc_key) != file.checksum)
    refuse_incomplete(file.name, "it is of another save.");
  parts_.push_back(std::move(part));
}

IKEBANA_INLINE TensorFileReader::Layout StateReader::layout_in(std::size_t part,
                                                               const std::string& name) const {
  return TensorFileReader::layout(parts_[part].path, parts_[part].header, name);
}

IKEBANA_INLINE TensorFileReader& StateReader::file_of(std::size_t part) {
  if (!open_ || open_part_ != part) {
    open_.emplace(files_, parts_[part].path);
    open_part_ = part;
  }
  return *open_;
}

IKEBANA_INLINE void StateReader::refuse_incomplete(const std::string& name,
                                                   const std::string& why) const {
  throw BadFile("load: the state `" + path_.string() + "` is of several files, and `" + name +
                "` is not there any more, or cannot be read: " + why +
                " Copy all of its files, to where every rank can read them.");
}

IKEBANA_INLINE std::vector<std::size_t> StateReader::parts_for(std::int64_t rank,
                                                               std::int64_t all) const {
  if (rank == 0 || all != ranks()) return {0};
  return {static_cast<std::size_t>(rank), 0};
}

IKEBANA_INLINE StateReader::Pieces StateReader::pieces_of(const std::string& name,
                                                          std::int64_t rank,
                                                          std::int64_t all) const {
  if (const auto found = pieces_.find(name); found != pieces_.end()) return found->second;
  for (const std::size_t part : parts_for(rank, all))
    if (parts_[part].header.tensors.count(name)) {
      const auto [type, sizes] = layout_in(part, name);
      Pieces one{type, sizes};
      one.all.push_back({part, {0, one.sizes.empty() ? 1 : one.sizes[0]}});
      return one;
    }
  throw BadFile("load: `" + path_.string() + "` has no `" + name + "`. Name a file that has it.");
}

IKEBANA_INLINE at::Tensor StateReader::read(const Pieces& pieces, const std::string& name,
                                            const Slice* wanted) {
  const Piece& first = pieces.all[0];
  const RowRange rows = wanted ? wanted->rows : RowRange{0, rows_of(pieces.sizes)};
  if (pieces.all.size() == 1 && rows.count == first.rows.count)
    return file_of(first.part).tensor(parts_[first.part].header, name);
  auto sizes = pieces.sizes;
  sizes[0] = rows.count;
  at::Tensor whole = TensorFileReader::allocate(path_, sizes, pieces.type, name);
  for (const Piece& piece : pieces.all) {
    const std::int64_t begin = std::max(rows.first, piece.rows.first);
    const std::int64_t end = std::min(rows.first + rows.count, piece.rows.first + piece.rows.count);
    if (begin >= end) continue;
    file_of(piece.part)
        .rows(parts_[piece.part].header, name, {begin - piece.rows.first, end - begin},
              whole.narrow(0, begin - rows.first, end - begin));
  }
  return whole;
}

IKEBANA_INLINE std::int64_t StateReader::rows_of(const std::vector<std::int64_t>& sizes) {
  return sizes.empty() ? 1 : sizes[0];
}

IKEBANA_INLINE void StateReader::collect() {
  for (std::size_t part = 0; part < parts_.size(); ++part)
    for (const auto& [key, text] : parts_[part].header.metadata)
      if (key.starts_with(rows_prefix)) add_piece(part, key.substr(rows_prefix.size()), text);
  for (auto& [name, pieces] : pieces_) {
    std::sort(pieces.all.begin(), pieces.all.end(),
              [](const Piece& a, const Piece& b) { return a.rows.first < b.rows.first; });
    std::int64_t end = 0;
    for (const Piece& piece : pieces.all) {
      if (piece.rows.first > end) break;
      end = std::max(end, piece.rows.first + piece.rows.count);
    }
    if (end != pieces.sizes[0])
      damaged(name, "has its rows from " + std::to_string(end) + " on in none of the files");
  }
}

IKEBANA_INLINE void StateReader::add_piece(std::size_t part, const std::string& name,
                                           const std::string& text) {
  std::int64_t first = 0, end = 0, all = 0;
  std::istringstream numbers(text);
  auto [type, sizes] = layout_in(part, name);
  const bool is_read = static_cast<bool>(numbers >> first >> end >> all) && numbers.peek() == EOF;
  if (!is_read || sizes.empty() || first < 0 || end > all || end - first != sizes[0])
    damaged(name, "has rows `" + Json::excerpt(text) + "`, which do not fit its shape");
  sizes[0] = all;
  Pieces& pieces = pieces_[name];
  if (pieces.all.empty()) pieces.type = type, pieces.sizes = sizes;
  if (pieces.type != type || pieces.sizes != sizes)
    damaged(name, "has another dtype or shape in one file than in another");
  pieces.all.push_back({part, {first, end - first}});
}

IKEBANA_INLINE void StateReader::damaged(const std::string& name, const std::string& what) const {
  throw BadFile("load: the state `" + path_.string() + "` is damaged: `" + Json::excerpt(name) +
                "` " + what + ". Use another copy or an earlier state.");
}

}  // namespace ikebana::detail
