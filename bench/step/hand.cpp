// Defines the contestants `libtorch`, `expert` and `same`, which do the same work in loops written
// by hand. Of ikebana this program uses only the function modules::attention.
#include "device.hpp"
#include "expert.hpp"
#include "idiomatic.hpp"

namespace {

bench::Contestant contestant(const bench::Setting& setting) {
  auto name = setting.text("contestant");
  auto model = bench::make_model(setting, name != "libtorch");
  bench::read_weights(setting, *model);
  return name == "libtorch" ? bench::idiomatic(setting, model)
                            : bench::expert(setting, model, name == "same");
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    if (bench::Setting(argc, argv).number("environment")) return bench::print_environment();
    return bench::serve_rows(argc, argv, contestant, bench::answer_on_device);
  });
}
