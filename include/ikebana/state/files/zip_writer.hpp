#pragma once
// Writes zip archives of stored entries that begin at multiples of 64 bytes, as torch.export.load,
// torch.load and other programs read them. zip_reader.hpp reads them, too. LibTorch's
// PyTorchStreamWriter cannot replace it. A disk that fails ends the process, because its destructor
// writes the rest of the archive and throws; it does not tell the archive's size before it writes,
// which write_durably reserves; and it needs the bytes of a whole entry in memory. It is
// independent of LibTorch.
#include <functional>
#include <ikebana/posix/files.hpp>
#include <ikebana/state/files/zip_format.hpp>
#include <set>

namespace ikebana::detail {

/// Collects the entries of an archive, and writes them. Takes memory for the texts that it is given
/// and for the directory. The same entries give the same bytes.
class ZipWriter {
 public:
  /// Takes the next bytes of an entry.
  using Sink = std::function<void(const void* bytes, std::size_t n)>;
  /// Gives all bytes of an entry to a sink, in pieces of any size.
  using Source = std::function<void(const Sink& sink)>;

  /// All entries are in the folder `root`. Throws BadValue if it is no name of a folder.
  explicit ZipWriter(std::string root);

  /// Adds an entry, whose name is without the root folder. Throws BadValue for a name that the
  /// archive has already, or that leads out of the folder.
  void add(const std::string& name, std::string text);
  /// Adds an entry of `bytes` bytes. `source` is called when the archive is written.
  void add(const std::string& name, std::uint64_t bytes, Source source);
  /// Adds the records by which PyTorch recognises its archives: the version of their layout and the
  /// order of bytes in numbers.
  void add_records_of_pytorch();

  /// Returns the size of the whole archive in bytes.
  std::uint64_t size() const;
  /// Writes the archive so that an interruption or a failing disk leaves the file at `path` as it
  /// was (write_durably). Throws FileFailed.
  void write(Files& files, const Files::Path& path);
  void write(OutputFile& file);

 private:
  struct Item {
    std::string name;         // with the root folder
    std::uint64_t size = 0;   // in bytes
    std::uint64_t at = 0;     // offset of its header
    std::uint64_t begin = 0;  // offset of its bytes
    std::uint32_t crc = 0;
    std::string text;  // its bytes if there is no source
    Source source;
    bool is_wide() const { return size >= zip_wide; }
    bool is_far() const { return at >= zip_wide; }
  };

  void append(const std::string& name, Item item);
  static void write_bytes(OutputFile& file, Item& item);
  static std::string local_header(const Item& item);
  static std::string directory_entry(const Item& item);
  /// Returns the numbers of an entry of the directory that need 64 bits, as an extra field.
  static std::string wide_extra(const Item& item);
  bool has_wide_end() const;
  std::string end_records() const;

  std::string root_;
  std::vector<Item> items_;
  std::set<std::string> names_;
  std::uint64_t end_ = 0;        // offset of the directory
  std::uint64_t directory_ = 0;  // bytes of the directory
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/zip_writer.ipp>
#endif
