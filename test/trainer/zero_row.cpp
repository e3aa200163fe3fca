// Tests one row of zeros in the shapes of a batch, and batches without rows.
#include "test.hpp"

#include <ikebana/batch.hpp>
#include <span>

using namespace ikebana;

namespace test::zero_row {

struct Mixed {
  at::Tensor input, shared, absent;
  Ragged tokens;
  std::vector<std::string> titles;
  std::vector<std::int64_t> sizes;  // a list of another length than the batch, which belongs to all
                                    // rows
  std::map<std::string, at::Tensor> more;
  int number = 5;
};
Mixed mixed() {
  return {at::ones({3, 2}, at::kDouble).requires_grad_(),
          at::ones({}),
          {},
          Ragged{std::vector{at::ones({2, 4}), at::ones({5, 4}), at::ones({1, 4})}},
          {"a", "b", "c"},
          {7, 8},
          {{"ids", at::ones({3}, at::kLong)}},
          6};
}
struct Columns {
  static constexpr int batch_dim = 1;
  at::Tensor x;
  std::span<const int> lengths;
};

void check(const Mixed& row, const char* title) {
  CHECK(same_bits(row.input, at::zeros({1, 2}, at::kDouble)));
  CHECK(row.input.requires_grad());
  CHECK(same_bits(row.shared, at::ones({})));
  CHECK_FALSE(row.absent.defined());
  CHECK(row.tokens.size() == 1);
  CHECK(same_bits(row.tokens.values(), at::zeros({1, 4})));
  CHECK((row.titles == std::vector<std::string>{title}));
  CHECK((row.sizes == std::vector<std::int64_t>{7, 8}));
  CHECK(same_bits(row.more.at("ids"), at::zeros({1}, at::kLong)));
  CHECK(row.number == 6);
}
TEST_CASE("batch: one row of zeros has the shapes and dtypes of any batch, also of an empty one") {
  const Mixed batch = mixed();
  check(ikebana::zero_row(batch), "a");
  const Mixed none = ikebana::detail::without_rows(batch);
  check(ikebana::zero_row(none), "");
  CHECK(rows(batch) == 3);
  CHECK(same_bits(batch.input.detach(), at::ones({3, 2}, at::kDouble)));

  const std::vector<int> lengths{4, 5};
  const Columns columns{at::ones({3, 2}), lengths};
  const Columns row = ikebana::zero_row(columns);
  CHECK(same_bits(row.x, at::zeros({3, 1})));
  CHECK(row.lengths.size() == 1);
  CHECK(same_bits(ikebana::zero_row(ikebana::detail::without_rows(columns)).x, at::zeros({3, 1})));
}

TEST_CASE("batch: one without rows keeps all else, and no memory of the rows") {
  const Mixed batch = mixed(), none = ikebana::detail::without_rows(batch);
  CHECK(ikebana::detail::has_no_rows(none));
  CHECK_FALSE(ikebana::detail::has_no_rows(batch));
  CHECK((none.input.sizes() == at::IntArrayRef{0, 2}));
  CHECK_FALSE(none.input.is_alias_of(batch.input));
  CHECK(none.titles.empty());
  CHECK(none.number == 6);
  CHECK(contains(message_of<BadBatch>([] { ikebana::detail::without_rows(3); }),
                 "shows no field with rows"));
}

}  // namespace test::zero_row
