// For libFuzzer: reads the bytes of a zip archive. No archive may crash the reader or make it read
// behind the file's end; an accepted one has consistent entries, which are the same after they are
// written and read again. An empty corpus folder is filled with seeds.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ikebana/state/files/zip_reader.hpp>
#include <ikebana/state/files/zip_writer.hpp>

#include "../sparse_files.hpp"
#include "../zip_records.hpp"

using ikebana::detail::ZipEntry;
using ikebana::detail::ZipReader;
using ikebana::detail::ZipWriter;
using test::SparseFiles;
using Texts = std::map<std::string, std::string>;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

Texts read(SparseFiles& files) {
  ZipReader reader(files, "a");
  Texts texts;
  for (const ZipEntry& e : reader.entries()) {
    require(reader.has(e.name) && reader.size(e.name) == e.size, "an entry that is not found");
    require(e.size <= files.size("a"), "an entry that is larger than the file");
    texts[e.name] = reader.text(e.name, e.size);
  }
  require(texts.size() == reader.entries().size(), "two entries of one name");
  return texts;
}

std::string seed(bool is_wide, bool is_described) {
  test::zip_records::Archive archive({{"m/a", "first"}, {"m/data/b", ""}});
  for (test::zip_records::Entry& e : archive.entries) {
    if (is_wide) {
      for (test::zip_records::Fields* f : {&e.local, &e.listed}) {
        f->extra = test::zip_records::u16(1) + test::zip_records::u16(16) +
                   test::zip_records::u64(f->size) + test::zip_records::u64(f->size);
        f->size = f->packed = 0xffffffff;
      }
    } else if (is_described) {
      e.local.flags = e.listed.flags = 0x808;
      e.behind = "PK\7\x08" + test::zip_records::u32(e.local.crc) +
                 test::zip_records::u32(e.data.size()) + test::zip_records::u32(e.data.size());
      e.local.crc = e.local.size = e.local.packed = 0;
    }
  }
  if (is_wide) {
    const std::size_t end = archive.text().size() - 22, bytes = end - archive.directory;
    archive.wide = test::zip_records::wide_end(end, 2, bytes, archive.directory);
  }
  return archive.text();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::filesystem::path folder = (*argv)[*argc - 1];
  if (*argc < 2 || !std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder))
    return 0;
  const std::string seeds[] = {seed(false, false), seed(true, false), seed(false, true)};
  for (std::size_t i = 0; i < std::size(seeds); ++i)
    std::ofstream(folder / std::to_string(i), std::ios::binary) << seeds[i];
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  SparseFiles files;
  files.put("a", {reinterpret_cast<const char*>(data), size});
  Texts texts;
  try {
    texts = read(files);
  } catch (const ikebana::BadFile&) {
    return 0;
  }
  ZipWriter writer("m");
  for (const auto& [name, text] : texts) writer.add(name, text);
  if (texts.empty()) return 0;  // folders alone
  writer.write(files, "a");
  require(read(files) == texts, "contents that differ when they are written again");
  return 0;
}
