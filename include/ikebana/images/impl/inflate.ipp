#pragma once
#include <zlib.h>
#include <algorithm>
#include <ikebana/error.hpp>
#include <ikebana/images/inflate.hpp>
#include <ikebana/images/pixels.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::images::detail {

inline std::string file_bytes(const std::filesystem::path& path) {
  ikebana::detail::PosixInputFile file(path);
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

/// RAII: zlib's state of unpacking.
struct Inflater {
  z_stream stream{};
  Inflater() {
    const int code = inflateInit2(&stream, 15 + 16);  // 16: gzip
    if (code == Z_MEM_ERROR) throw_no_memory("a gzipped file");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

inline std::string inflated(std::string_view bytes, std::size_t limit,
                            const std::filesystem::path& path) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string all;
  std::size_t taken = 0;
  while (all.size() < limit) {
    const std::size_t before = all.size(), part = std::min<std::size_t>(limit - before, 1 << 20);
    all.resize(before + part);
    const std::size_t given = std::min<std::size_t>(bytes.size() - taken, 1 << 20);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()) + taken);
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(all.data()) + before;
    stream.avail_out = static_cast<uInt>(part);
    const int code = inflate(&stream, Z_NO_FLUSH);
    taken += given - stream.avail_in;
    all.resize(before + part - stream.avail_out);
    if (code == Z_MEM_ERROR) throw_no_memory("`" + path.string() + "`");
    if (code == Z_STREAM_END && taken == bytes.size()) break;
    if (code == Z_STREAM_END) inflateReset(&stream);  // another member of the file follows
    else if (code != Z_OK)
      throw BadFile("images: `" + path.string() + "` is gzipped and damaged: " +
                    (code == Z_BUF_ERROR     ? "it ends early"
                     : stream.msg != nullptr ? stream.msg
                                             : "the data are inconsistent") +
                    " (near byte " + std::to_string(taken) + " of " + std::to_string(bytes.size()) +
                    "). Replace the file.");
  }
  return all;
}

}  // namespace ikebana::images::detail
