#pragma once
// Reads untrusted zip archives of stored entries, such as torch.export.save and torch.save write.
// Every field is checked. LibTorch's PyTorchStreamReader does not compare checksums. It is
// independent of LibTorch, so that a fuzzer can run it on its own.
#include <ikebana/posix/files.hpp>
#include <ikebana/state/files/zip_format.hpp>
#include <map>
#include <span>

namespace ikebana::detail {

/// Opens an archive and reads its entries one by one. Takes memory for the directory and for what
/// is read, which is never more than the file holds.
/// Throws BadFile, which names the entry and the byte, and FileFailed.
class ZipReader {
 public:
  /// Checks all records of the archive: its directory, each entry's header, and that entries
  /// neither overlap nor leave gaps.
  ZipReader(Files& files, const Files::Path& path);

  /// Returns the entries in the order of the directory, without folders. Their names, here and
  /// below, are without the root folder.
  std::span<const ZipEntry> entries() const { return entries_; }
  /// Returns the folder in which all entries are; empty if they are in no folder or in several.
  const std::string& root() const { return root_; }
  bool has(std::string_view name) const { return index_.count(name) != 0; }
  /// Throws BadFile if the archive has no entry of this name.
  const ZipEntry& entry(std::string_view name) const;
  std::uint64_t size(std::string_view name) const { return entry(name).size; }
  std::uint32_t crc(std::string_view name) const { return entry(name).crc; }

  /// Reads an entry and compares its checksum. `bytes` must be its size.
  void read(std::string_view name, void* to, std::uint64_t bytes);
  /// Reads an entry of at most `max_bytes` as a text.
  std::string text(std::string_view name, std::uint64_t max_bytes);
  /// Compares the checksums of all entries. Takes one MiB.
  void check_all();

 private:
  struct Directory {
    std::uint64_t offset = 0, bytes = 0, entries = 0;
    std::uint64_t end = 0;  // offset of the record that follows
  };
  struct Listed {
    std::string name;  // with the root folder
    ZipHeader header;
    std::uint64_t at = 0;     // offset of its record in the directory
    std::uint64_t begin = 0;  // offset of its bytes
    std::uint64_t end = 0;    // offset behind its bytes and their descriptor
  };

  Directory find_directory();
  Directory wide_directory(const Directory& narrow, std::uint64_t end);
  void check_directory(const Directory& directory) const;
  void read_directory(const Directory& directory);
  Listed listed(ZipFields& fields, std::uint64_t at) const;
  void check_listed(const Listed& item) const;
  /// Takes numbers from the extra field for zip64. Returns whether there is one.
  bool widen(ZipHeader& header, std::string_view extra, const std::string& name,
             std::uint64_t at) const;
  /// Compares the header that stands before an entry's bytes with the directory, which is at
  /// `limit`.
  void check_local(Listed& item, std::uint64_t limit);
  void check_descriptor(const Listed& item, bool is_wide, std::uint64_t limit);
  void check_layout(std::vector<Listed> items, std::uint64_t limit) const;
  void take(const std::vector<Listed>& items);

  std::string bytes_at(std::uint64_t offset, std::size_t n);
  template <class Place>
  void read_chunks(const ZipEntry& entry, Place&& place);

  /// Throws for a file that was changed or cut off.
  [[noreturn]] void damaged(const std::string& what, std::uint64_t offset) const;
  /// Throws for an archive that another program may read.
  [[noreturn]] void refuse(const std::string& what, std::uint64_t offset,
                           const std::string& cure) const;
  static std::string quoted(std::string_view name);

  Files::Path path_;
  std::unique_ptr<InputFile> file_;
  std::string root_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // the index in entries_, by name
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/zip_reader.ipp>
#endif
