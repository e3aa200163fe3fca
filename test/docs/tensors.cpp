// Compiles and runs what docs/tensors.md shows and says. With IKEBANA_TENSORS set to a folder, it
// reads what Python wrote there and writes what Python reads (test/state/python/tensor_files.py).
#include <cstdlib>
#include <fstream>

#include "classes.hpp"
#include "state/folder.hpp"

namespace test::policies::tensors {

TEST_CASE("docs/tensors.md: written and read") {
  const Folder folder;
  const auto path = folder / "features.safetensors";
  at::Tensor features = at::randn({100, 16}), labels = at::randint(3, {100}, at::kLong);

  save_tensors(path, {{"features", features}, {"labels", labels}}, {{"made_by", "encoder 3"}});
  TensorFile file = load_tensors(path);
  at::Tensor loaded = file.tensors.at("features");
  std::string made_by = file.header.metadata.at("made_by");

  CHECK(same_bits(loaded, features));
  CHECK(same_bits(file.tensors.at("labels"), labels));
  CHECK((made_by == "encoder 3" && file.header.metadata.at("format") == "pt"));
}

TEST_CASE("docs/tensors.md: one tensor of a large file, and what is in it") {
  const Folder folder;
  const auto path = folder / "large.safetensors";
  save_tensors(path, {{"a", at::ones({3, 2})}, {"b", at::zeros({1000, 1000})}});

  TensorFileReader reader(system_files(), path);
  FileHeader header = reader.header();
  for (const auto& [name, entry] : header.tensors)
    std::cout << name << "  " << entry.dtype << c10::IntArrayRef(entry.shape) << '\n';
  at::Tensor a = reader.tensor(header, "a");

  CHECK(a.sum().item<float>() == 6);
  CHECK((header.tensors.at("b").shape == std::vector<std::int64_t>{1000, 1000}));
}

TEST_CASE("docs/tensors.md: what of a tensor is kept, and what is not") {
  const Folder folder;
  const auto path = folder / "all";
  const at::Tensor base = at::arange(24, at::kFloat).view({2, 3, 4});
  const at::Tensor trained = at::ones({2}).requires_grad_();
  save_tensors(path, {{"view", base.slice(1, 1, 2)},
                      {"transposed", base.transpose(0, 2)},
                      {"same", base},
                      {"again", base},
                      {"number", at::scalar_tensor(3.5, at::kDouble)},
                      {"none", at::empty({0, 7})},
                      {"conjugate", at::ones({2}, at::kComplexFloat).conj()},
                      {"wide", at::ones({2}, at::kComplexDouble)},
                      {"trained", trained}});
  const TensorFile file = load_tensors(path);
  const StateDict& t = file.tensors;
  CHECK((t.at("view").sizes() == at::IntArrayRef{2, 1, 4}));
  CHECK(t.at("view").nbytes() == 32);  // the bytes of its elements, not of all elements of `base`
  CHECK((t.at("transposed").is_contiguous() && t.at("transposed").equal(base.transpose(0, 2))));
  CHECK_FALSE(t.at("same").is_alias_of(t.at("again")));
  CHECK((t.at("number").dim() == 0 && t.at("number").item<double>() == 3.5));
  CHECK((t.at("none").sizes() == at::IntArrayRef{0, 7}));
  CHECK_FALSE(t.at("conjugate").is_conj());
  CHECK((t.at("wide").scalar_type() == at::kComplexDouble));
  CHECK(file.header.tensors.at("wide").dtype == "U8");  // which the format has no name for
  CHECK(file.header.metadata.at("ikebana.dtype.wide") == "ComplexDouble");
  CHECK_FALSE(t.at("trained").requires_grad());
  CHECK(file.header.data % 64 == 0);
  for (const auto& [name, entry] : file.header.tensors)
    CHECK(entry.begin % static_cast<std::uint64_t>(t.at(name).element_size()) == 0);
}

TEST_CASE("docs/tensors.md: what a file cannot hold is an error, and the file stays as it was") {
  const Folder folder;
  const auto path = folder / "kept";
  save_tensors(path, {{"x", at::ones({2})}});
  const std::pair<StateDict, const char*> bad[] = {
      {{{"x", at::Tensor()}}, "`x` is undefined"},
      {{{"x", at::eye(3).to_sparse()}}, "`x` is sparse"},
      {{{"x", at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8)}}, "`x` is quantized"},
      {{{"__metadata__", at::ones({2})}}, "reserved name"},
  };
  for (const auto& [tensors, words] : bad) {
    const std::string text = message_of<BadModel>([&, &all = tensors] { save_tensors(path, all); });
    CHECK_MESSAGE(contains(text, words), text);
  }
  CHECK(load_tensors(path).tensors.at("x").equal(at::ones({2})));
  CHECK(contains(message_of<FileFailed>([&] { save_tensors(folder / "no" / "x", {}); }), "no/x"));
}

TEST_CASE("docs/tensors.md: a file that was changed, cut off or is none") {
  const Folder folder;
  const auto path = folder / "x.safetensors";
  save_tensors(path, {{"x", at::ones({100})}});
  const auto size = std::filesystem::file_size(path);
  auto text = [&] { return message_of<BadFile>([&] { load_tensors(path); }); };
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size) - 7);
    file.put('!');
  }
  CHECK_MESSAGE(contains(text(), "`x`: the checksum of its bytes does not match"), text());
  std::filesystem::resize_file(path, size - 1);
  CHECK_MESSAGE(contains(text(), "is damaged or not a safetensors file"), text());
  std::ofstream(path, std::ios::binary) << "\x93NUMPY\x01 and the rest";
  CHECK_MESSAGE(contains(text(), "is an array of NumPy. Convert it in Python"), text());
  std::ofstream(path, std::ios::binary) << "PK\x03\x04 arrays PK\x01\x02 features.npy PK\x05\x06";
  CHECK_MESSAGE(contains(text(), "is an archive of NumPy's arrays"), text());
  CHECK(message_of<FileFailed>([&] { load_tensors(folder / "missing"); }) != "");
}

TEST_CASE("docs/tensors.md: load_tensors reads what is at the path, load also what was before") {
  const Folder folder;
  const auto path = folder / "run.safetensors";
  Trainer trainer{net(), CrossEntropyLoss{}};
  trainer.save(path);
  std::filesystem::rename(path, folder / "run.safetensors.ikebana-former");
  CHECK(message_of<FileFailed>([&] { load_tensors(path); }) != "");
  trainer.load(path);
  trainer.save(path);
  const StateDict state = load_tensors(path).tensors;  // weights, moments, generators
  CHECK(same_bits(state.at("0.weight"), trainer.model()->parameters()[0]));
  CHECK(state.count("ikebana.trainer.step") == 1);
}

TEST_CASE("docs/tensors.md: tensors that are written to a model") {
  const Folder folder;
  const auto path = folder / "two.safetensors";
  auto model = net();
  at::Tensor matrix = at::randn({16, 4});
  save_tensors(path, {{"encoder.weight", matrix}, {"encoder.bias", at::zeros({16})}});

  StateDict tensors = load_tensors(path).tensors;
  {
    at::NoGradGuard no_grad;
    model->named_parameters()["0.weight"].copy_(tensors.at("encoder.weight"));
  }

  CHECK(same_bits(model->parameters()[0], matrix));
  auto rename = [](const std::string& name) {
    return name.starts_with("0.") ? "encoder" + name.substr(1) : name;
  };
  UnmatchedWeights rest = load_weights(model, path, {.rename = rename, .strict = false});
  CHECK((rest.missing == std::vector<std::string>{"2.weight", "2.bias"}));
}

TEST_CASE("docs/tensors.md: files of Python") {
  const char* given = std::getenv("IKEBANA_TENSORS");
  if (given == nullptr) return;
  const std::filesystem::path folder = given;
  const StateDict from_python = load_tensors(folder / "from_python.safetensors").tensors;
  save_tensors(folder / "from_cpp.safetensors", from_python, {{"made_by", "C++"}});
  torch::save(from_python.at("x"), (folder / "tensor.pt").string());
  auto model = net();
  torch::save(model, (folder / "module.pt").string());
  save_weights(model, folder / "module.safetensors");
  std::ofstream(folder / "errors.txt")
      << message_of<BadFile>([&] { load_tensors(folder / "tensor.pt"); }) << '\n'
      << message_of<BadFile>([&] { load_tensors(folder / "module.pt"); }) << '\n'
      << message_of<BadFile>([&] { load_tensors(folder / "python.pt"); }) << '\n'
      << message_of<BadFile>([&] { load_tensors(folder / "array.npy"); }) << '\n'
      << message_of<BadFile>([&] { load_tensors(folder / "arrays.npz"); }) << '\n';
}

}  // namespace test::policies::tensors
