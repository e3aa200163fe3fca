// Weights in formats of others are recognised by their contents, whatever the file is called, and
// the error says how to convert them.
#include <fstream>
#include <ikebana.hpp>

#include "state/folder.hpp"
#include "test.hpp"

using namespace ikebana;
namespace nn = torch::nn;

namespace test::foreign_files {

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
std::string bytes(std::initializer_list<int> all) {
  std::string text;
  for (int one : all) text += static_cast<char>(one);
  return text;
}

/// Returns what each way to load a file throws, which is equal for all of them.
std::vector<std::string> refused(const std::filesystem::path& path) {
  nn::Linear model(2, 2);
  const auto loss = [](auto&, nn::Linear& m, const at::Tensor& x) {
    return Loss{m(x).square().sum(), x.size(0)};
  };
  Trainer trainer{model, loss};
  trainer.step(at::ones({2, 2}));
  const StateDict before = trainer.state();
  std::vector<std::string> all{message_of<BadFile>([&] { load_tensors(path); }),
                               message_of<BadFile>([&] { load_weights(model, path); }),
                               message_of<BadFile>([&] { trainer.load_weights(path); }),
                               message_of<BadFile>([&] { trainer.load(path); })};
  for (const auto& [name, t] : trainer.state()) CHECK(same_bits(t, before.at(name)));
  return all;
}
void check_all(const std::filesystem::path& path, std::initializer_list<const char*> words) {
  for (const std::string& text : refused(path))
    for (const char* word : words) CHECK_MESSAGE(contains(text, word), text);
}

TEST_CASE("files: another format is named by its contents, with the script that converts it") {
  const Folder folder;
  const auto path = folder / "model.safetensors";  // the name says nothing
  write(path, "GGUF" + bytes({3, 0, 0, 0}) + std::string(100, '\0'));
  check_all(path, {"is a GGUF file", "gguf_to_safetensors.py", "model.safetensors` is"});
  for (int protocol : {2, 3, 4, 5}) {
    write(path, bytes({0x80, protocol, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9}));
    check_all(path, {"is a pickle", "pth_to_safetensors.py"});
  }
  const std::string zip = "PK\x03\x04" + bytes({0, 0, 8, 8, 0, 0});
  write(path, zip + std::string(3000, 'x') + "PK\x01\x02 weights/data.pkl PK\x05\x06");
  check_all(path, {"is a file of torch.save", "pth_to_safetensors.py"});
  write(path, zip + "PK\x01\x02 net/data.pkl PK\x01\x02 net/constants.pkl PK\x05\x06");
  check_all(path, {"is a TorchScript archive", "torch.jit.load", "pth_to_safetensors.py"});
  write(path, zip + "PK\x01\x02 weights/dat");
  check_all(path, {"is a zip archive", "it was cut off"});
}

TEST_CASE("files: a header whose length looks like another format is read as what it is") {
  // 640 is 0x80 0x02 in the file, as of a pickle; 0x04034b50, of a zip archive, may be a length
  // too.
  const Folder folder;
  std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(640, ' ');
  write(folder / "looks", bytes({0x80, 2, 0, 0, 0, 0, 0, 0}) + header + "a");
  CHECK(load_tensors(folder / "looks").tensors.at("w").item<int>() == 'a');
}

TEST_CASE("files: what no format explains is a damaged file, as before") {
  const Folder folder;
  write(folder / "text", "hello world, this is a text");
  CHECK(contains(message_of<BadFile>([&] { load_tensors(folder / "text"); }),
                 "is damaged or not a safetensors file"));
  write(folder / "short", "GGU");
  CHECK(contains(message_of<BadFile>([&] { load_tensors(folder / "short"); }), "ends within"));
}

TEST_CASE("weights: a folder that has pickles alone is named, with the script that converts them") {
  const Folder folder;
  nn::Linear model(2, 2);
  const auto refusal = [&] {
    return message_of<BadFile>([&] { load_weights(model, folder / "."); });
  };
  write(folder / "pytorch_model.bin.index.json", "{}");
  CHECK(contains(refusal(), "pytorch_model.bin.index.json`, which torch.save wrote"));
  write(folder / "pytorch_model.bin", "PK");
  CHECK(contains(refusal(), "pth_to_safetensors.py"));
  save_weights(model, folder / "model.safetensors");
  CHECK(load_weights(model, folder / ".").missing.empty());
}

}  // namespace test::foreign_files
