// The contestants `libtorch`, `expert` and `same`: the same work in loops written by hand. This
// program knows nothing of ikebana but modules::attention, a function.
#include "expert.hpp"
#include "idiomatic.hpp"

int main(int count, char** words) {
  return bench::guarded([&] {
    bench::Setting setting(count, words);
    if (setting.number("environment")) return bench::print_environment();
    auto name = setting.text("contestant");
    auto model = bench::make_model(setting, name != "libtorch");
    bench::read_weights(setting, *model);
    return bench::serve(setting, name == "libtorch"
                                     ? bench::idiomatic(setting, model)
                                     : bench::expert(setting, model, name == "same"));
  });
}
