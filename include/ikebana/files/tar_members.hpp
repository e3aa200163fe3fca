#pragma once
// Reads the headers of a tar file: which files it holds, and where.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ikebana/posix/files.hpp>
#include <string>

namespace ikebana::detail {

/// A regular file in a tar file.
struct TarMember {
  std::string name;      ///< its path in the tar file
  std::uint64_t offset;  ///< the place of its bytes in the tar file
  std::uint64_t size;    ///< their number
};

/// Reads headers of the formats ustar, pax and GNU. Every field is checked.
class TarHeaders {
 public:
  /// `path` is for errors.
  TarHeaders(InputFile& file, const std::filesystem::path& path) : file_(file), path_(path) {}

  /// Calls `f` for each regular file, and skips folders. Throws BadFile for a damaged or cut-off
  /// file, for links, sparse files and devices, for a compressed file, and for bytes behind the
  /// end.
  void each(const std::function<void(TarMember)>& f);

 private:
  struct Block {
    char bytes[512];
  };

  [[noreturn]] void fail(const std::string& what) const;
  Block read_block();
  std::string read_data(std::uint64_t size);
  std::uint64_t number(const char* field, std::size_t n) const;
  void check(const Block& block) const;
  void check_end();
  std::string name_of(const Block& block) const;
  void read_pax(const std::string& records, bool is_global);
  void pax_record(const std::string& key, const std::string& value);
  [[noreturn]] void refuse_type(char type, const std::string& name) const;
  void skip(std::uint64_t size);

  InputFile& file_;
  const std::filesystem::path& path_;
  std::uint64_t at_ = 0;
  // These were read from headers before the header of a file itself.
  std::string long_name_;
  std::uint64_t long_size_ = 0;
  bool has_size_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/tar_members.ipp>
#endif
