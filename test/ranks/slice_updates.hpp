#pragma once
// Updates by an optimizer alone, of parameters that are whole, or cut among ranks that are threads.
#include "wire.hpp"

namespace test::ranks::slice_updates {

using namespace ikebana;

/// Parameters, and their gradients in each step; undefined if it has no gradient.
struct Work {
  Tensors parameters;
  std::vector<Tensors> gradients;
};
/// Makes odd sizes, fewer rows than ranks, one row, vectors, more than two dimensions,
/// channels_last.
inline Work work(std::vector<std::vector<std::int64_t>> shapes, at::ScalarType type, int steps) {
  torch::manual_seed(3);
  Work all;
  for (const auto& shape : shapes) {
    const auto format =
        shape.size() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    auto draw = [&](double scale) {
      const auto options = at::dtype(type).memory_format(format);
      return at::empty(shape, options).copy_(at::randn(shape, at::kDouble) * scale);
    };
    all.parameters.push_back(draw(0.2));
    all.gradients.resize(static_cast<std::size_t>(steps));
    for (Tensors& step : all.gradients) step.push_back(draw(1));
  }
  all.gradients[0].back().reset();  // its first gradient comes later
  return all;
}

/// The results of an update: parameters and, for each slot in the order of names, state.
struct Left {
  Tensors parameters;
  std::map<std::string, at::Tensor> state;
};
/// Returns the masters of a rank: rows of the parameters, in memory of their own.
inline Masters masters_of(const Work& work, RankGroup* ranks) {
  Masters masters;
  masters.ranks = ranks;
  for (std::size_t i = 0; i < work.parameters.size(); ++i) {
    const at::Tensor& whole = work.parameters[i];
    Slice slice = ikebana::detail::whole_slice(whole, 0);
    if (ranks != nullptr) slice.rows = rows_of_rank(slice.sizes[0], ranks->rank(), ranks->size());
    const at::Tensor rows = whole.narrow(0, slice.rows.first, slice.rows.count);
    const at::Tensor own = at::empty_strided(rows.sizes(), whole.strides(), whole.options());
    masters.add("p" + std::to_string(i), own.copy_(rows).requires_grad_(), slice);
  }
  return masters;
}
inline StepGradients gradients_of(const Masters& masters, const Tensors& whole) {
  StepGradients gradients;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i].defined()) continue;
    const RowRange rows = masters.slices[i].rows;
    gradients.indices.push_back(i);
    const at::Tensor own =
        at::empty_strided(masters.values[i].sizes(), whole[i].strides(), whole[i].options());
    gradients.values.push_back(own.copy_(whole[i].narrow(0, rows.first, rows.count)));
  }
  gradients.divisor = at::full({}, 2.5f);
  return gradients;
}
/// Makes all steps, but prepares and undoes each for which `is_made(step)` is false.
template <class M>
Left train(M& mechanism, const Work& work, RankGroup* ranks) {
  const at::NoGradGuard no_grad;
  const Masters masters = masters_of(work, ranks);
  mechanism.begin(masters);
  for (std::size_t s = 0; s < work.gradients.size(); ++s) {
    StepGradients gradients = gradients_of(masters, work.gradients[s]);
    const double factor = 1 - 0.1 * static_cast<double>(s);
    mechanism.prepare(masters, gradients, [&](double lr) { return lr * factor; });
    mechanism.update(masters, gradients);
    Report report;
    mechanism.end_step(gradients, report);
  }
  Left left{masters.values, {}};
  Archive archive(left.state, Archive::Mode::Save);
  archive.begin_section("o");
  mechanism.state(archive, masters);
  return left;
}
/// Returns what one rank would have: the rows of all.
inline Tensors joined(const std::vector<Left>& all) {
  Tensors parameters;
  for (std::size_t i = 0; i < all[0].parameters.size(); ++i) {
    Tensors rows;
    for (const Left& one : all) rows.push_back(one.parameters[i].detach());
    parameters.push_back(at::cat(rows));
  }
  return parameters;
}

}  // namespace test::ranks::slice_updates
