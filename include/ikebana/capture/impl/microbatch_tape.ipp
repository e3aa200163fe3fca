#pragma once
#include <algorithm>
#include <cstring>
#include <ikebana/capture/microbatch_tape.hpp>
#include <ikebana/capture/tape_text.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string MicrobatchTape::text() const {
  if (tape_) return tape_->text();
  return TapeText(*captured_).text("two graphs of " + graphs_->device().str(), {});
}

IKEBANA_INLINE void MicrobatchTape::begin_recording() {
  const c10::Device device = graphs_ != nullptr ? graphs_->device() : c10::Device(at::kCPU);
  recorder_.emplace(device, first_ ? &first_->operators : nullptr);
  batch_.clear(), seeds_.clear(), gradients_.clear(), terms_.clear();
}

IKEBANA_INLINE RecordedTensor MicrobatchTape::given(const at::Tensor& t, const std::string& name) {
  if (!t.defined()) return {};
  if (!t.has_storage() || t.layout() != at::kStrided) {
    recorder_->add_problem("`" + name + "` of the batch has the layout " + c10::str(t.layout()) +
                           ", and a tape holds strided tensors. Give it as a dense tensor.");
    return {};
  }
  if (recorder_->allow(t, MemoryUse::Given, name) != MemoryUse::Given)
    recorder_->add_problem("`" + name +
                           "` of the batch shares its memory with the model, and a replay is given "
                           "other memory for it. Clone it.");
  return recorder_->kept(t);
}

IKEBANA_INLINE void MicrobatchTape::begin_gradients(const Masters& masters) {
  for (std::size_t i = 0; i < masters.values.size(); ++i)
    gradients_.push_back({given(masters.values[i].grad(), masters.names[i] + ".grad"), {}});
}

IKEBANA_INLINE void MicrobatchTape::bind_gradients(const Masters& masters) {
  if (graph_) {
    if (place_ == MicrobatchPlace::Further) graphs_->hold_gradients(masters);
    return;
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (gradients_[i].before.defined()) tape_->bind(gradients_[i].before, masters.values[i].grad());
}

IKEBANA_INLINE void MicrobatchTape::add_term(const std::string& name, const at::Tensor& sum,
                                             const Count& count, double scale) {
  const std::string loss = "the loss: " + term_text(name);
  Term term{.name = name,
            .sum = recorder_->kept(sum, loss + "sum"),
            .count = {},
            .number = {},
            .scale = scale,
            .requires_grad = sum.requires_grad()};
  if (graph_) term.graphs_sum = unowned(sum);
  if (count.on_device()) {
    const at::Tensor number = count.on_its_device();
    term.count = recorder_->kept(number, loss + "count");
    if (graph_) term.graphs_count = unowned(number);
  } else if (count.is_given()) {
    term.number = count.value();
  }
  terms_.push_back(std::move(term));
}

IKEBANA_INLINE void MicrobatchTape::own_numbers(Loss& loss) {
  std::size_t i = 0;
  auto own = [&](at::Tensor& sum, Count& count) {
    const Term& term = terms_[i++];
    if (graphs_ == nullptr && count.on_device())
      count = Count(number_on_host(count.on_its_device()));
    if (!graph_) return;
    // The sum stays the root of the backward that is captured next, and only its memory changes: a
    // clone would be an operator on another stream.
    sum.set_data(term.graphs_sum.clone());
    if (count.on_device()) count = Count(term.graphs_count.clone());
  };
  if (has_unnamed_term_) own(loss.sum, loss.count);
  for (ikebana::Term& term : loss.terms) own(term.sum, term.count);
  if (graphs_outputs_.defined()) loss.outputs = graphs_outputs_.clone();
}

IKEBANA_INLINE void MicrobatchTape::end_forward(Loss& loss) {
  if (graph_) graph_->replay(Phase::Forward);
  has_unnamed_term_ = loss.sum.defined();
  if (has_unnamed_term_) add_term({}, loss.sum, loss.count, 1);
  for (const ikebana::Term& term : loss.terms)
    add_term(term.name, term.sum, term.count, term.scale);
  outputs_ = {}, graphs_outputs_.reset();
  if (loss.outputs.defined()) {
    outputs_ = recorder_->kept(loss.outputs, "Loss::outputs");
    if (graph_) graphs_outputs_ = unowned(loss.outputs);
  }
  if (first_ && recorder_->problems().empty()) compare_loss(*first_);
  own_numbers(loss);
}

IKEBANA_INLINE void MicrobatchTape::compare_loss(const FirstRecording& first) {
  const std::vector<Term>& before = first.terms;
  if (before.size() != terms_.size())
    return recorder_->add_problem("the loss has another number of terms in each step.");
  if (!same_part(outputs_, first.outputs))
    recorder_->add_problem("Loss::outputs is another tensor in each step. Return the same result.");
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    const std::string name = term_text(terms_[i].name);
    if (before[i].name != terms_[i].name)
      recorder_->add_problem("the loss: term `" + before[i].name +
                             "` has another name in each step, `" + terms_[i].name +
                             "`. Return the same terms in the same order.");
    if (!same_part(before[i].sum, terms_[i].sum) || !same_part(before[i].count, terms_[i].count))
      recorder_->add_problem("the loss: " + name +
                             "sum or count is another tensor than before. "
                             "Return the same results in each step.");
    if (before[i].number != terms_[i].number)
      recorder_->add_problem("the loss: " + name + "count was " +
                             c10::str(before[i].number.value_or(0)) + " and is " +
                             c10::str(terms_[i].number.value_or(0)) +
                             ", a number of the host, with which every replay would go on. Return "
                             "it as a tensor, `Loss{sum, mask.sum()}`.");
    if (before[i].scale != terms_[i].scale)
      recorder_->add_problem("the loss: " + name + "scale was " + c10::str(before[i].scale) +
                             " and is " + c10::str(terms_[i].scale) +
                             ", a number of the host, with which every replay would go on. "
                             "Multiply it into the sum, as a buffer that is changed by operators.");
  }
}

IKEBANA_INLINE void MicrobatchTape::begin_backward(Roots& roots) {
  for (at::Tensor& seed : roots.seeds) {
    if (graph_) seed = graph_->add_given(seed);
    seeds_.push_back(given(seed, "seed"));
  }
}

IKEBANA_INLINE void MicrobatchTape::check_batch() {
  for (const RecordedTensor& t : batch_)
    if (t.defined() && recorder_->recording().memory[t.memory].is_changed)
      recorder_->add_problem("`" + recorder_->recording().memory[t.memory].name +
                             "` of the batch is changed by operators, and a graph changes a copy "
                             "of it. Change a clone.");
}

IKEBANA_INLINE void MicrobatchTape::end_backward(const Masters& masters) {
  if (graphs_ != nullptr) check_batch();
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const at::Tensor& gradient = masters.values[i].grad();
    if (gradient.defined()) {
      gradients_[i].after = recorder_->kept(gradient, "the gradient of `" + masters.names[i] + "`");
      if (graph_) gradients_[i].tensor = unowned(gradient);
    }
    const bool is_other = first_ && !same_part(gradients_[i].after, first_->gradients.at(i).after);
    if (is_other && recorder_->problems().empty())
      recorder_->add_problem("the gradient of `" + masters.names[i] +
                             "` is another result than in the step before. Call the same operators "
                             "in each step.");
  }
}

IKEBANA_INLINE void MicrobatchTape::end_recording(const std::vector<at::Tensor>& buffers) {
  Recording recording = std::move(recorder_->recording());
  recorder_.reset();
  if (!first_) {
    first_ = FirstRecording{std::move(recording), std::move(terms_), std::move(gradients_),
                            std::move(outputs_)};
    return;
  }
  if (graph_) {
    find_live_operators(recording);
    written_ = written_of(recording, buffers);
    graph_->replay(Phase::Backward);
    captured_ = std::move(recording);
    return first_.reset();
  }
  auto give_away = [&](const RecordedTensor& t) {
    if (t.defined() && recording.memory[t.memory].use == MemoryUse::Made)
      recording.memory[t.memory].use = MemoryUse::GivenAway;
  };
  give_away(outputs_);
  if (place_ == MicrobatchPlace::First)
    for (const Gradient& gradient : gradients_) give_away(gradient.after);
  auto tape = std::make_unique<OperatorTape>(std::move(recording));
  written_ = written_of(tape->recording(), buffers);
  tape_ = std::move(tape);
  first_.reset();
}

IKEBANA_INLINE void MicrobatchTape::allocate_fresh() {
  fresh_.clear();
  for (const std::uint32_t memory : tape_->given_away())
    fresh_.emplace(memory, tape_->allocate(memory));
}

IKEBANA_INLINE at::Tensor MicrobatchTape::taken(const RecordedTensor& t) {
  if (!t.defined()) return {};
  const auto found = fresh_.find(t.memory);
  if (found == fresh_.end()) return tape_->tensor(t).clone();
  return tape_->tensor(t, found->second);
}

IKEBANA_INLINE at::Tensor MicrobatchTape::sum_of(const Term& term) {
  if (graph_) return term.graphs_sum.clone().set_requires_grad(term.requires_grad);
  const void* from = tape_->data_of(term.sum);
  at::Tensor own = at::detail::scalar_tensor_static(0, term.sum.dtype, at::kCPU);
  std::memcpy(own.mutable_data_ptr(), from, c10::elementSize(term.sum.dtype));
  if (!term.sum.sizes.empty()) own = own.reshape(term.sum.sizes);
  return term.requires_grad ? own.set_requires_grad(true) : own;
}

IKEBANA_INLINE Count MicrobatchTape::count_of(const Term& term) {
  if (!term.count.defined()) return term.number ? Count(*term.number) : Count();
  if (graph_) return Count(term.graphs_count.clone());
  const void* data = tape_->data_of(term.count);
  if (term.count.dtype == at::kLong) return *static_cast<const std::int64_t*>(data);
  if (term.count.dtype == at::kDouble) return *static_cast<const double*>(data);
  return *static_cast<const float*>(data);
}

IKEBANA_INLINE Loss MicrobatchTape::replayed_forward() {
  if (graph_) {
    graph_->replay(Phase::Forward);
  } else {
    allocate_fresh();
    tape_->replay(Phase::Forward);
  }
  Loss loss;
  std::size_t i = 0;
  if (has_unnamed_term_) loss.sum = sum_of(terms_[0]), loss.count = count_of(terms_[0]), ++i;
  for (; i < terms_.size(); ++i)
    loss.terms.push_back({terms_[i].name, sum_of(terms_[i]), count_of(terms_[i]), terms_[i].scale});
  if (!graph_) loss.outputs = taken(outputs_);
  else if (graphs_outputs_.defined()) loss.outputs = graphs_outputs_.clone();
  return loss;
}

IKEBANA_INLINE void MicrobatchTape::hold_gradients(const Masters& masters) {
  if (place_ == MicrobatchPlace::Only) return;
  graphs_->hold_gradients(masters);
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    gradients_[i].tensor = masters.values[i].grad();
}

IKEBANA_INLINE void MicrobatchTape::replay_graph(const Roots& roots, const Masters& masters) {
  for (std::size_t i = 0; i < seeds_.size(); ++i) graph_->give(batch_.size() + i, roots.seeds[i]);
  graph_->replay(Phase::Backward);
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (gradients_[i].after.defined()) masters.values[i].mutable_grad() = gradients_[i].tensor;
}

IKEBANA_INLINE void MicrobatchTape::replay_backward(const Roots& roots, const Masters& masters) {
  if (graph_) return replay_graph(roots, masters);
  for (std::size_t i = 0; i < seeds_.size(); ++i) tape_->bind(seeds_[i], roots.seeds[i]);
  tape_->replay(Phase::Backward);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    Gradient& one = gradients_[i];
    if (!one.after.defined() || one.after == one.before) continue;
    if (place_ == MicrobatchPlace::Only) {
      if (!one.tensor.defined()) one.tensor = tape_->tensor(one.after);
      masters.values[i].mutable_grad() = one.tensor;
    } else {
      masters.values[i].mutable_grad() = taken(one.after);
    }
  }
  fresh_.clear();
}

IKEBANA_INLINE MicrobatchTape& Tapes::add(const BatchForm& form, MicrobatchPlace place,
                                          std::int64_t most) {
  return tapes_.add(std::make_shared<MicrobatchTape>(form, place, graphs_ ? &*graphs_ : nullptr),
                    most);
}

IKEBANA_INLINE void Tapes::attach(c10::Device device) {
  if (!device.is_cpu()) graphs_.emplace(device);
}

IKEBANA_INLINE void Tapes::open(MicrobatchTape& tape) {
  if (graphs_) return;
  if (arena_.bytes() < tape.tape()->arena_bytes()) {
    std::size_t bytes = 0;
    for (const auto& one : tapes_.all())
      if (one->is_ready()) bytes = std::max(bytes, one->tape()->arena_bytes());
    arena_.reserve(bytes);
  }
  tape.tape()->use(arena_.data());
}

IKEBANA_INLINE void Tapes::release_memory() noexcept { arena_.release(); }

IKEBANA_INLINE void Tapes::clear() noexcept {
  tapes_.clear(), arena_.release();
  if (graphs_) graphs_->forget_gradients();
}

}  // namespace ikebana::detail
