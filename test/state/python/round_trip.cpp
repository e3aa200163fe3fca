// Runs the C++ side of round_trip.py: every dtype that a file can hold, in several shapes and under
// unusual names, with bytes that both sides compute.
#include <torch/torch.h>

#include <cstdio>
#include <cstring>
#include <ikebana/state/saved_state.hpp>

namespace {

using namespace ikebana;

/// Returns bytes of many values: numbers, infinities and many NaNs.
at::Tensor pattern(std::vector<std::int64_t> sizes, at::ScalarType type, std::size_t seed) {
  at::Tensor t = at::empty(sizes, type);
  auto* bytes = static_cast<unsigned char*>(t.mutable_data_ptr());
  for (std::size_t i = 0; i < t.nbytes(); ++i) {
    bytes[i] = static_cast<unsigned char>((i * 73 + seed * 29) % 251);
    if (type == at::kBool) bytes[i] &= 1;
  }
  return t;
}

/// Returns a tensor of the same elements with another memory layout.
at::Tensor laid_out(const at::Tensor& t, const std::string& how) {
  if (how == "transposed") return at::empty({5, 3}, t.options()).t().copy_(t);
  if (how == "part") return at::empty({3, 9}, t.options()).slice(1, 2, 7).copy_(t);
  if (how == "channels_last") return t.contiguous(at::MemoryFormat::ChannelsLast);
  return t;
}

const std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes = {
    {"zero_dimensional", {}}, {"empty", {0}},   {"empty_matrix", {2, 0, 3}},    {"dense", {3, 5}},
    {"transposed", {3, 5}},   {"part", {3, 5}}, {"channels_last", {2, 3, 4, 5}}};

const std::vector<std::string> names = {"",
                                        "a \"quoted\" name",
                                        "back\\slash",
                                        "\xc3\xbc, \xe6\xbc\xa2, \xf0\x9f\x8c\xb8",
                                        "\n\t\r\b\f",
                                        "\x01 \x1f \x7f",
                                        "../outside",
                                        std::string("zero\0inside", 11),
                                        "\xe2\x80\xa8",
                                        "ikebana.crc32",
                                        "x\"ikebana.crc32"};

/// Returns whether LibTorch can make tensors of a dtype; round_trip.py has the list.
bool is_made(at::ScalarType type) try {
  if (type == at::ScalarType::Undefined || c10::isQIntType(type)) return false;
  at::empty({2, 2}, type).t().contiguous();
  return true;
} catch (const c10::Error&) {
  return false;
}

StateDict made() {
  StateDict all;
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<at::ScalarType>(i);
    if (!is_made(type)) continue;
    for (const auto& [how, sizes] : shapes)
      all[std::string(c10::toString(type)) + "." + how] =
          laid_out(pattern(sizes, type, static_cast<std::size_t>(i)), how);
  }
  for (std::size_t i = 0; i < names.size(); ++i) all[names[i]] = pattern({3}, at::kFloat, i);
  return all;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = ikebana::detail::dense(a), y = ikebana::detail::dense(b);
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}
void compare(const StateDict& found, const StateDict& wanted) {
  for (const auto& [name, t] : wanted) {
    require(found.count(name) != 0, "`" + name + "` is missing");
    require(same_bits(found.at(name), t), "`" + name + "` has other bits");
  }
  require(found.size() == wanted.size(), "there are other tensors besides");
}

const Metadata metadata = {{"a \"quoted\" key", "back\\slash \xe6\xbc\xa2 \n"},
                           {"A\"ikebana.crc32", "00000000"}};

int run(const std::string& what, const char* from, const char* to) {
  if (what == "write") save_tensors(from, made(), metadata);
  else if (what == "check") compare(load_tensors(from).tensors, made());
  else if (what == "compare") compare(load_tensors(from).tensors, load_tensors(to).tensors);
  else if (what == "copy") {
    const TensorFile file = load_tensors(from);
    save_tensors(to, file.tensors, file.header.metadata);
  } else return 2;
  return 0;
}

}  // namespace

/// The calls are round_trip write|check FILE and round_trip compare|copy FILE FILE.
int main(int argc, char** argv) try {
  return argc < 3 ? 2 : run(argv[1], argv[2], argc > 3 ? argv[3] : "");
} catch (const std::exception& error) {
  std::fprintf(stderr, "round_trip: %s\n", error.what());
  return 1;
}
