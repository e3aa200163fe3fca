// The contestants `libtorch`, `expert` and `same`: the same work in loops written by hand. Of
// ikebana this program uses only the function modules::attention.
#include "expert.hpp"
#include "idiomatic.hpp"

int main(int argc, char** argv) {
  return bench::guarded([&] {
    bench::Setting setting(argc, argv);
    if (setting.number("environment")) return bench::print_environment();
    auto name = setting.text("contestant");
    auto model = bench::make_model(setting, name != "libtorch");
    bench::read_weights(setting, *model);
    return bench::serve(setting, name == "libtorch"
                                     ? bench::idiomatic(setting, model)
                                     : bench::expert(setting, model, name == "same"));
  });
}
