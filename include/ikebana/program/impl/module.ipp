#pragma once
#include <algorithm>
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/listed.hpp>
#include <ikebana/program/module.hpp>
#include <ikebana/program/program_file.hpp>
#include <ostream>

namespace ikebana::detail::pt2 {

/// Returns values in the form that units take.
IKEBANA_INLINE ProgramValues to_unit(Values values) {
  ProgramValues result;
  for (c10::IValue& value : values) {
    if (value.isInt()) result.numbers.emplace_back(value.toInt());
    else if (value.isDouble()) result.numbers.emplace_back(value.toDouble());
    else if (value.isBool()) result.numbers.emplace_back(value.toBool());
    else result.tensors.push_back(value.isNone() ? at::Tensor() : std::move(value).toTensor());
  }
  return result;
}
/// Returns values in the form that instructions take. `is_number` says which of them are numbers.
IKEBANA_INLINE Values from_unit(const ProgramValues& values, const std::vector<bool>& is_number) {
  Values result;
  result.reserve(is_number.size());
  std::size_t tensor = 0, number = 0;
  for (const bool is : is_number) {
    if (is) std::visit([&](auto n) { result.emplace_back(n); }, values.numbers.at(number++));
    else result.emplace_back(values.tensors.at(tensor++));
  }
  return result;
}

IKEBANA_INLINE Values no_units(std::size_t, Values) {
  throw Error("Program: a unit has a unit. Report this as a defect of ikebana.");
}

/// Returns the results of the root: its outputs, with numbers as tensors, and what is written to
/// buffers.
IKEBANA_INLINE std::vector<at::Tensor> results_of(Interpreter& interpreter, const Plan& plan) {
  std::vector<at::Tensor> results;
  for (const Operand& output : plan.outputs) {
    const c10::IValue value = interpreter.value(output);
    const at::ScalarType dtype = value.isInt()    ? at::kLong
                                 : value.isBool() ? at::kBool
                                                  : at::kDouble;
    if (value.isTensor()) results.push_back(value.toTensor());
    else if (value.isScalar()) results.push_back(at::scalar_tensor(value.toScalar(), dtype));
    else results.emplace_back();
  }
  for (const WriteBack& back : plan.write_backs)
    results.push_back(interpreter.value(back.value).toTensor());
  return results;
}

IKEBANA_INLINE std::string names_of(const ProgramOutputs& outputs) {
  return listed(outputs, [](const ProgramOutput& output) { return output.name; });
}

}  // namespace ikebana::detail::pt2

namespace ikebana {

IKEBANA_INLINE ProgramValues ProgramUnitImpl::forward(const ProgramValues& inputs) {
  using namespace detail::pt2;
  const Code& code = code_->graphs.at(inputs.graph);
  const UnitPiece& unit = code.plan.units.at(inputs.call);
  Interpreter interpreter(unit.piece, code.plan.scopes, code.attributes, code_->device, no_units);
  interpreter.run(from_unit(inputs, unit.piece.input_is_number));
  return to_unit(interpreter.outputs());
}

IKEBANA_INLINE const at::Tensor& ProgramOutputs::at(const std::string& name) const {
  for (const ProgramOutput& output : *this)
    if (output.name == name) return output.tensor;
  const std::string names = detail::pt2::names_of(*this);
  throw BadValue("Program: no output is called `" + detail::escaped(name) + "`; it has " +
                 (names.empty() ? "no tensors" : names) + ". Use one of these names.");
}

IKEBANA_INLINE bool ProgramOutputs::has(const std::string& name) const {
  return std::any_of(begin(), end(), [&](auto& output) { return output.name == name; });
}

IKEBANA_INLINE ProgramImpl::ProgramImpl(detail::pt2::ProgramFile file,
                                        const ProgramOptions& options)
    : code_(std::make_shared<detail::pt2::ProgramCode>()), options_(options) {
  detail::pt2::ProgramUnits found;
  code_->graphs = compile_program(file, options, found);
  unit_names_ = std::move(found.paths);
  not_units_ = std::move(found.others);
  make_modules(file);
  const auto& mode = code_->graphs[0].plan.mode;
  if (file.models.size() == 1 && !mode.evaluation_forms.empty() && !options.evaluation_graph)
    eval();
  for (detail::pt2::NamedModel& model : file.models) model.model = {};
  file_ = std::move(file);
}

/// Returns the module with this path, and makes it if it is new.
IKEBANA_INLINE ProgramModule& ProgramImpl::module_at(const std::string& path) {
  ProgramModule* module = this;
  constexpr int max_depth = 64;  // because LibTorch visits modules by recursion
  int depth = 0;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, dot - begin);
    if (++depth > max_depth)
      throw BadFile("load_program: `" + detail::escaped(path) +
                    "` lies in more than 64 modules. Export a model with fewer.");
    const auto children = module->named_children();
    if (const auto* child = children.find(name)) {
      module = static_cast<ProgramModule*>(child->get());
    } else {
      std::shared_ptr<ProgramModule> made = std::make_shared<ProgramModule>();
      if (std::find(unit_names_.begin(), unit_names_.end(), path.substr(0, dot)) !=
          unit_names_.end()) {
        auto unit = std::make_shared<ProgramUnitImpl>();
        unit->code_ = code_;
        made = std::move(unit);
      }
      module = module->register_module(name, std::move(made)).get();
    }
    begin = dot + 1;
  }
  return *module;
}

/// Registers a parameter or a buffer once, in the module that has it in Python. Returns its place
/// in the list of the module's parameters.
IKEBANA_INLINE std::size_t ProgramImpl::add_tensor(const std::string& name,
                                                   const detail::pt2::StoredTensor& stored,
                                                   bool is_parameter) {
  auto bad = [&](const std::string& what) {
    throw BadFile("load_program: `" + detail::escaped(name) + "` " + what +
                  ". Use another copy of the file, or export the model again.");
  };
  if (name.empty() || name.front() == '.' || name.back() == '.' ||
      name.find("..") != std::string::npos)
    bad("is no name of a tensor");
  const std::string path = detail::module_part(name);
  const std::string leaf = path.empty() ? name : name.substr(path.size() + 1);
  ProgramModule& module = module_at(path);
  if (!is_parameter) {
    if (!module.named_buffers(false).contains(leaf)) module.register_buffer(leaf, stored.tensor);
    return 0;
  }
  const auto& own = module.own_parameters();
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i].key() == leaf) return i;
  const bool has_gradient = at::isFloatingType(stored.tensor.scalar_type()) ||
                            at::isComplexType(stored.tensor.scalar_type());
  if (stored.requires_grad && !has_gradient) bad("requires a gradient, which its dtype has not");
  module.register_parameter(leaf, stored.tensor, stored.requires_grad);
  return own.size() - 1;
}

/// Makes the tensors that a graph reads, and the modules that hold them.
IKEBANA_INLINE void ProgramImpl::add_attributes(detail::pt2::ProgramFile& file,
                                                detail::pt2::Code& code) {
  using Kind = detail::pt2::AttributeName;
  using detail::GraphInput;
  std::vector<bool> is_written(code.plan.attributes.size());
  for (std::size_t i : code.plan.written) is_written[i] = true;
  for (std::size_t i = 0; i < code.plan.attributes.size(); ++i) {
    const Kind& attribute = code.plan.attributes[i];
    const auto weight = file.weights.find(attribute.name);
    const auto constant = file.constants.find(attribute.name);
    const bool is_parameter = attribute.kind == GraphInput::Kind::Parameter;
    const bool is_weight =
        attribute.kind != GraphInput::Kind::TensorConstant && weight != file.weights.end();
    if (!is_weight && (is_parameter || constant == file.constants.end()))
      throw BadFile("load_program: the graph reads `" + detail::escaped(attribute.name) +
                    "`, which the file does not hold. Use another copy of the file.");
    const auto& stored = is_weight ? weight->second : constant->second;
    const bool is_buffer = attribute.kind == GraphInput::Kind::Buffer;
    if (is_parameter) {
      const std::size_t place = add_tensor(attribute.name, stored, true);
      code.attributes.emplace_back(module_at(detail::module_part(attribute.name)).own_parameters(),
                                   place);
      continue;
    }
    // A buffer that is not persistent is part of Python's state only while the graph writes to it.
    if (is_buffer && (is_weight || is_written[i])) add_tensor(attribute.name, stored, false);
    code.attributes.emplace_back(stored.tensor);
    if (!is_buffer || !(is_weight || is_written[i])) code.constants.push_back(i);
  }
}

IKEBANA_INLINE void ProgramImpl::make_modules(detail::pt2::ProgramFile& file) {
  for (auto& code : code_->graphs) add_attributes(file, code);
  for (auto& code : code_->graphs) {
    calls_.emplace_back();
    for (const auto& unit : code.plan.units) {
      auto& module = static_cast<ProgramUnitImpl&>(module_at(unit.path));
      calls_.back().emplace_back(
          std::static_pointer_cast<ProgramUnitImpl>(module.shared_from_this()));
    }
    find_owners(code.plan);
  }
  for (const auto& module : modules(/*include_self=*/false)) parts_.push_back(module.get());
}

/// Returns the module with this path, or the innermost one around it that holds tensors.
IKEBANA_INLINE const torch::nn::Module& ProgramImpl::module_around(const std::string& path) const {
  const torch::nn::Module* module = this;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const auto children = module->named_children();
    const auto* child = children.find(path.substr(begin, dot - begin));
    if (child == nullptr) break;
    module = child->get();
    begin = dot + 1;
  }
  return *module;
}

/// Finds the module whose mode each instruction obeys.
IKEBANA_INLINE void ProgramImpl::find_owners(detail::pt2::Plan& plan) {
  auto in_piece = [&](detail::pt2::Piece& piece) {
    for (auto& instruction : piece.instructions)
      instruction.owner = &module_around(instruction.module);
  };
  in_piece(plan.root);
  for (auto& unit : plan.units) in_piece(unit.piece);
  for (auto& back : plan.write_backs) {
    back.owner = &module_around(detail::module_part(plan.attributes[back.attribute].name));
  }
}

/// Moves constants to the device on which the program computes.
IKEBANA_INLINE void ProgramImpl::place_constants(c10::Device device) {
  const std::lock_guard lock(code_->mutex);
  if (code_->device == device) return;
  const at::NoGradGuard no_grad;
  for (auto& code : code_->graphs)
    for (std::size_t i : code.constants)
      code.attributes[i] = detail::pt2::AttributeTensor((*code.attributes[i]).to(device));
  code_->device = device;
}

IKEBANA_INLINE c10::Device ProgramImpl::device_of(const detail::pt2::Values& inputs) const {
  for (const auto& code : code_->graphs)
    for (std::size_t i = 0; i < code.plan.attributes.size(); ++i)
      if (code.plan.attributes[i].kind == detail::GraphInput::Kind::Parameter)
        return (*code.attributes[i]).device();
  for (const c10::IValue& input : inputs)
    if (input.isTensor()) return input.toTensor().device();
  return code_->device;
}

/// Returns the graph of the present mode. Throws BadModel if the file has no graph for it.
IKEBANA_INLINE std::size_t ProgramImpl::graph_of_mode(bool evaluating) const {
  const auto& graphs = code_->graphs;
  const auto& mode = graphs[0].plan.mode;
  if (graphs.size() == 2) {
    for (const torch::nn::Module* part : parts_)
      if (part->is_training() != is_training())
        throw BadModel(
            "Program: some of its modules are in training mode and others in evaluation mode, and "
            "each of its two graphs is of one mode. Export the graph of that mixture, and load it "
            "with {.model = \"train\"}, or call train() or eval() on the whole program.");
    return is_training() ? 0 : 1;
  }
  if (!mode.evaluation_forms.empty() && !evaluating && !options_.evaluation_graph)
    throw BadModel("Program: it was exported in evaluation mode (" + mode.evaluation_forms[0] +
                   "), and training would be without dropout, and with norms of fixed statistics. "
                   "Export it in training mode, by scripts/export_program.py or after "
                   "model.train(), or load it with {.evaluation_graph = true} if that is meant.");
  if (!is_training() && !mode.written.empty() && mode.evaluation_forms.empty())
    throw BadModel("Program: its graph writes to the buffer " + mode.written[0] +
                   ", and the file does not say whether evaluation does as well. Export both "
                   "graphs into one file, by scripts/export_program.py.");
  return 0;
}

IKEBANA_INLINE ProgramValues ProgramImpl::forward(const ProgramValues& inputs) {
  using namespace detail::pt2;
  const Code& code = code_->graphs.at(inputs.graph);
  Interpreter interpreter(code.plan.root, code.plan.scopes, code.attributes, code_->device,
                          no_units);
  interpreter.run(from_unit(inputs, code.plan.root.input_is_number));
  ProgramValues results;
  results.tensors = results_of(interpreter, code.plan);
  return results;
}

IKEBANA_INLINE ProgramOutputs ProgramImpl::compute(std::vector<detail::pt2::GivenInput> given,
                                                   bool evaluating, RunOne run) {
  using namespace detail::pt2;
  const std::size_t graph = graph_of_mode(evaluating);
  const Code& code = code_->graphs[graph];
  Values inputs = code.inputs.arranged(std::move(given));
  place_constants(device_of(inputs));
  const auto crossing = [&](Values values, std::size_t call) {
    ProgramValues to = to_unit(std::move(values));
    to.graph = graph, to.call = call;
    return to;
  };
  const auto run_unit = [&](std::size_t call, Values values) {  // the interpreter refers to it
    return from_unit(run(&calls_[graph][call], crossing(std::move(values), call)),
                     code.plan.units[call].piece.output_is_number);
  };
  std::vector<at::Tensor> results;
  if (unit_names_.empty()) {
    results = run(nullptr, crossing(std::move(inputs), 0)).tensors;
  } else {
    Interpreter interpreter(code.plan.root, code.plan.scopes, code.attributes, code_->device,
                            run_unit);
    interpreter.run(std::move(inputs));
    results = results_of(interpreter, code.plan);
  }
  const std::size_t count = code.plan.outputs.size();
  for (std::size_t i = 0; i < code.plan.write_backs.size(); ++i) {
    const WriteBack& back = code.plan.write_backs[i];
    if (back.only_training && !back.owner->is_training()) continue;
    const at::NoGradGuard no_grad;  // backward has copies of the former values
    (*code.attributes[back.attribute]).variable_data().copy_(results[count + i]);
  }
  ProgramOutputs outputs;
  for (std::size_t i = 0; i < count; ++i)
    if (results[i].defined()) outputs.push_back({code.output_names[i], std::move(results[i])});
  return outputs;
}

/// Prints once that policies find no units, unless the user asked for no units.
IKEBANA_INLINE void ProgramImpl::note_whole() {
  if (std::exchange(noted_whole_, true) || options_.units == "none") return;
  std::string reasons;
  for (const auto& [path, reason] : not_units_) reasons += "\n  `" + path + "`: " + reason + ".";
  if (reasons.empty()) reasons = " No class of modules occurs several times.";
  TORCH_WARN(
      "Program: it has no units, so policies such as Checkpoint and Shard<FSDP> treat it as "
      "one.",
      reasons,
      "\nName modules, as load_program(path, {.units = \"*\"}), or say {.units = \"none\"}.");
}

IKEBANA_INLINE at::Tensor ProgramImpl::chosen(const ProgramOutputs& outputs) const {
  if (!options_.output.empty()) return outputs.at(options_.output);
  if (outputs.size() == 1) return outputs[0].tensor;
  const std::string names = detail::pt2::names_of(outputs);
  throw BadModel("Program: it has the outputs " + (names.empty() ? "of no tensor" : names) +
                 ", and forward returns one. Name it: load_program(path, {.output = \"...\"}).");
}

IKEBANA_INLINE Loss ProgramImpl::loss_of(const ProgramOutputs& outputs, std::int64_t rows) const {
  const at::Tensor shown = options_.output.empty() ? at::Tensor() : outputs.at(options_.output);
  if (outputs.has("sum") && outputs.has("count")) {
    const at::Tensor& count = outputs.at("count");
    const bool on_host = detail::on_host(count) && count.numel() == 1;
    return {outputs.at("sum"), on_host ? Count(count.item<double>()) : Count(count), shown};
  }
  const ProgramOutput* loss = nullptr;
  for (const ProgramOutput& output : outputs)
    if (output.name == "loss" ||
        (loss == nullptr && output.tensor.numel() == 1 && output.tensor.requires_grad()))
      loss = &output;
  if (loss == nullptr && outputs.size() == 1 && outputs[0].tensor.numel() == 1) loss = &outputs[0];
  if (loss == nullptr)
    throw BadModel(
        "Program: it returns no loss. Add an objective, as CrossEntropyLoss{}, or export "
        "a forward that returns {\"sum\": ..., \"count\": ...}.");
  if (!options_.mean_over_rows)
    throw BadModel("Program: it returns the loss `" + detail::escaped(loss->name) +
                   "`, and not over how many items it is a mean, so that microbatches and ranks "
                   "could not be weighed. Export a forward that returns {\"sum\": ..., \"count\": "
                   "...}, or load it with {.mean_over_rows = true} if each row of a batch counts "
                   "as much.");
  return Loss::mean(loss->tensor, Count(rows), shown);
}

IKEBANA_INLINE void ProgramImpl::write_program(const std::filesystem::path& path,
                                               Files& files) const {
  std::map<std::string, at::Tensor> now;
  for (const auto& item : named_parameters()) {
    if (detail::is_away(item.value()))
      throw BadModel("export_program: the parameter " + item.key() +
                     " is stored by its trainer. Give the trainer instead of the program.");
    now[item.key()] = item.value();
  }
  for (const auto& item : named_buffers()) now[item.key()] = item.value();
  detail::pt2::write_program_file(file_, now, path, files);
}

IKEBANA_INLINE void ProgramImpl::pretty_print(std::ostream& stream) const {
  stream << "ikebana::Program";
}

}  // namespace ikebana
