// Tests what may be at the path of a state: links, folders, pipes, two damaged files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <ikebana.hpp>
#include <ikebana/memory/page.hpp>
#include <ikebana/memory/snapshot.hpp>

#include "state/folder.hpp"
#include "test.hpp"

using namespace ikebana;
namespace fs = std::filesystem;
namespace nn = torch::nn;

namespace test::files {

StateDict state(float value) { return {{"w", at::full({3}, value)}}; }
float value_at(const fs::path& path) {
  return ikebana::detail::load_state(system_files(), path).tensors.at("w")[0].item<float>();
}
void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST_CASE(
    "a leftover of a save is replaced and not overwritten, because it may be a link to the state") {
  const Folder folder;
  const auto path = folder / "state", new_path = folder / "state.ikebana-new";
  save_tensors(path, state(1));
  fs::create_hard_link(path, new_path);
  auto file = system_files().create(new_path, 8);
  file->write(0, "nonsense", 8);
  CHECK(value_at(path) == 1);
  CHECK(contains(message_of<FileFailed>([&] { save_tensors(path, state(2)); }), "Another process"));
  file.reset();
  save_tensors(path, state(2));
  CHECK(value_at(path) == 2);
  CHECK(!fs::exists(new_path));
}

TEST_CASE("a save and a load leave other states alone, also those named after this one") {
  const Folder folder;
  save_tensors(folder / "state.new", state(3));
  save_tensors(folder / "state.former", state(4));
  for (const float value : {1.f, 2.f}) {
    save_tensors(folder / "state", state(value));
    CHECK(value_at(folder / "state") == value);
  }
  CHECK(value_at(folder / "state.new") == 3);
  CHECK(value_at(folder / "state.former") == 4);
  fs::remove(folder / "state");
  CHECK_THROWS_AS(value_at(folder / "state"), FileFailed);  // the older state is not taken for it
}

TEST_CASE("a symbolic link under the name of a new file is not followed") {
  const Folder folder;
  write(folder / "other", "precious");
  fs::create_symlink(folder / "other", folder / "state.ikebana-new");
  auto save = [&] { save_tensors(folder / "state", state(1)); };
  CHECK(contains(message_of<FileFailed>(save), "symbolic link, which may point anywhere"));
  CHECK(fs::file_size(folder / "other") == 8);
}

TEST_CASE("a folder or a pipe is no state, and is not changed") {
  const Folder folder;
  fs::create_directory(folder / "folder");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"folder", "pipe"})
    CHECK(contains(message_of<FileFailed>([&] { load_tensors(folder / name); }), "cannot read"));
  CHECK(contains(message_of<FileFailed>([&] { save_tensors(folder / "folder", state(1)); }),
                 "It is a folder: name a file in it"));
  CHECK(fs::is_directory(folder / "folder"));
  CHECK(!fs::exists(folder / "folder.ikebana-new"));
}

TEST_CASE("files: every writer refuses what is no regular file, which stays as it is") {
  const Folder folder;
  nn::Linear model(1, 1);
  Trainer trainer{model, MSELoss{}};
  trainer.step(std::pair{at::ones({1, 1}), at::ones({1, 1})});
  const std::vector<std::pair<const char*, std::function<void(const fs::path&)>>> writers = {
      {"save", [&](auto& path) { trainer.save(path); }},
      {"save_async", [&](auto& path) { trainer.save_async(path).wait(); }},
      {"save_full", [&](auto& path) { trainer.save_full(path); }},
      {"save_weights", [&](auto& path) { save_weights(model, path); }},
      {"save_tensors", [&](auto& path) { save_tensors(path, state(1)); }},
      {"CSVLogger", [&](auto& path) { CSVLogger log(path.string()); }},
      {"page", [&](auto& path) { save_memory_page(path, MemoryRecord{}); }},
      {"snapshot", [&](auto& path) { save_memory_snapshot(path, MemoryRecord{}); }}};
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("/dev/null", folder / "null");
  for (const auto& [name, write_to] : writers)
    for (const auto& [target, kind] :
         {std::pair{"pipe", "it is a pipe"}, {"null", "or a device"}}) {
      CAPTURE(name);
      CAPTURE(target);
      const auto said = message_of<FileFailed>([&] { write_to(folder / target); });
      CHECK_MESSAGE(contains(said, kind), said);
      CHECK(contains(said, "Name a regular file"));
      CHECK(!fs::exists(folder.path / (std::string(target) + ".ikebana-new")));
      CHECK(!fs::exists(folder.path / (std::string(target) + ".ikebana-former")));
    }
  CHECK(fs::is_fifo(folder / "pipe"));
  CHECK(fs::is_symlink(folder / "null"));
  // No file is renamed to it either, nor does one begin where it is.
  write(folder / "file", "text");
  CHECK(contains(
      message_of<FileFailed>([&] { system_files().rename(folder / "file", folder / "pipe"); }),
      "it is a pipe"));
  fs::rename(folder / "pipe", folder / "state.ikebana-new");
  const int reader = ::open((folder / "state.ikebana-new").c_str(), O_RDONLY | O_NONBLOCK);
  CHECK(contains(message_of<FileFailed>([&] { save_tensors(folder / "state", state(1)); }),
                 "it is a pipe"));
  ::close(reader);
}

TEST_CASE("files: a device is not replaced by a file" * doctest::skip(::geteuid() != 0)) {
  const Folder folder;
  const fs::path device = folder / "device";
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) return;  // not allowed here
  CHECK(contains(message_of<FileFailed>([&] { save_memory_page(device, MemoryRecord{}); }),
                 "a pipe, a socket or a device"));
  CHECK(contains(message_of<FileFailed>([&] { save_tensors(device, state(1)); }),
                 "a pipe, a socket or a device"));
  CHECK(fs::is_character_file(device));
}

TEST_CASE("if the state and the former one are damaged, the error is that of the state") {
  const Folder folder;
  save_tensors(folder / "state", state(1));
  write(folder / "state.ikebana-former", "short");
  CHECK(value_at(folder / "state") == 1);
  write(folder / "state", "");
  auto load = [&] { ikebana::detail::load_state(system_files(), folder / "state"); };
  CHECK(contains(message_of<BadFile>(load),
                 "state` is damaged or not a safetensors file, at byte 0"));
}

TEST_CASE("metadata about the tensors of a loaded file are not written to the next file") {
  const Folder folder;
  save_tensors(folder / "a", {{"w", at::zeros({2}, at::kComplexDouble)}, {"v", at::ones(1)}});
  const Metadata metadata = load_tensors(folder / "a").header.metadata;
  save_tensors(folder / "b", state(3), metadata);
  CHECK(value_at(folder / "b") == 3);
}

TEST_CASE("missing folders are created, with their parents") {
  const Folder folder;
  const fs::path deep = folder / "a" / "b" / "c";
  for (int i = 0; i < 2; ++i) system_files().make_folder(deep);
  CHECK(fs::is_directory(deep));
  write(folder / "file", "");
  auto in_a_file = [&] { system_files().make_folder(folder / "file" / "a"); };
  CHECK(contains(message_of<FileFailed>(in_a_file), "A part of the path is no folder"));
  auto of_a_file = [&] { system_files().make_folder(folder / "file"); };
  CHECK(contains(message_of<FileFailed>(of_a_file), "A part of the path is no folder"));
}

}  // namespace test::files
