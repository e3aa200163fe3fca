// Compares the memory that recipes are estimated to take with what trainings take, for every model
// of examples/models. Prints a Markdown table; the exit status is 1 if a bar does not hold.
#include <ikebana/shard.hpp>

#include "../conditions.hpp"
#include "models.hpp"
#include "table.hpp"

namespace {

int on_ranks(int argc, char** argv, int ranks) {
  return ikebana::launch(argc, argv, ranks, [] { return bench::rank_rows() ? 0 : 1; });
}

}  // namespace

int main(int argc, char** argv) {
  if (ikebana::World::from_environment().size > 1) return on_ranks(argc, argv, 0);
  at::set_num_threads(1);
  bench::print_conditions("", 0);
  std::puts("");
  bench::print_header();
  bool all = bench::language_rows();
  all &= bench::vision_rows();
  all &= bench::gpt_rows();
  for (const int ranks : {2, 4}) all &= on_ranks(argc, argv, ranks) == 0;
  std::printf("\n%s\n", all ? "All bars hold: shapes within 5 %, the measured form within 2 %."
                            : "A BAR DOES NOT HOLD.");
  return all ? 0 : 1;
}
