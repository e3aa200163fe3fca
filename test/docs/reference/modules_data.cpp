// Examples of the reference: modules for packed sequences and for tables.
#include <ikebana/modules/attention.hpp>
#include <ikebana/modules/standard_scaler.hpp>

#include "policies.hpp"

namespace test::reference::of_modules_data {

TEST_CASE("reference: attention within documents") {
  const at::Tensor query = at::randn({1, 4, 10, 16}), key = query.clone(), value = query.clone();
  // example: modules::DocumentOffsets
  modules::DocumentOffsets documents = at::tensor({0, 3, 10});  // two, of 3 and 7 tokens
  at::Tensor out = modules::attention(query, key, value, {.is_causal = true, .offsets = documents});
  std::vector<std::int64_t> lengths = documents.lengths();  // {3, 7}
  // end
  CHECK((out.sizes() == query.sizes() && lengths[1] == 7));
  const at::Tensor first = out.narrow(2, 3, 1), own = value.narrow(2, 3, 1);
  CHECK(at::allclose(first, own));  // the first token of a document sees only itself
}

TEST_CASE("reference: a scaler") {
  const at::Tensor x = at::rand({20, 4}) * 100;
  // example: modules::StandardScaler
  at::Tensor training_rows = x.slice(0, 0, 16);
  auto scaler = modules::StandardScaler::fit(training_rows);
  nn::Sequential model(scaler, nn::Linear(4, 1));  // saved with the model
  at::Tensor back = scaler->inverse_transform(scaler->transform(x));
  // end
  CHECK((at::allclose(back, x) && model->buffers().size() == 3));
}

}  // namespace test::reference::of_modules_data
