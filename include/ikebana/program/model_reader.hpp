#pragma once
// Reads models/NAME.json and the tables of weights and constants of a `.pt2` archive.
#include <ikebana/program/graph_reader.hpp>

namespace ikebana::detail {

/// An entry of data/weights/NAME_weights_config.json.
struct PayloadEntry {
  std::string path;  ///< the name of the record in its folder
  bool is_parameter = false;
  bool is_pickled = false;
  bool has_tensor = false;
  GraphTensor tensor;
};
using PayloadTable = std::map<std::string, PayloadEntry>;

/// Reads the text of a model. Throws Json::ParseError for a text that is not well-formed or lacks a
/// field that the schema requires, and for a schema whose major version is not 8.
ProgramModel read_model(std::string_view text);

/// Reads a table of weights or constants, by name. Throws Json::ParseError.
PayloadTable read_payloads(std::string_view text);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/model_reader.ipp>
#endif
