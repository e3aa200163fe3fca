// Programs of torch.export.
#include <ikebana/program/impl/code.ipp>
#include <ikebana/program/impl/cut_units.ipp>
#include <ikebana/program/impl/effects.ipp>
#include <ikebana/program/impl/graph_compiler.ipp>
#include <ikebana/program/impl/graph_reader.ipp>
#include <ikebana/program/impl/input_check.ipp>
#include <ikebana/program/impl/interpreter.ipp>
#include <ikebana/program/impl/load.ipp>
#include <ikebana/program/impl/model_reader.ipp>
#include <ikebana/program/impl/module.ipp>
#include <ikebana/program/impl/number_functions.ipp>
#include <ikebana/program/impl/operand.ipp>
#include <ikebana/program/impl/plan.ipp>
#include <ikebana/program/impl/program_file.ipp>
#include <ikebana/program/impl/save.ipp>
#include <ikebana/program/impl/schema_json.ipp>
#include <ikebana/program/impl/trees.ipp>
