// Compiles the export of models as programs of torch.export.
#include <ikebana/program/export/impl/archive.ipp>
#include <ikebana/program/export/impl/dynamic.ipp>
#include <ikebana/program/export/impl/graph.ipp>
#include <ikebana/program/export/impl/module_paths.ipp>
#include <ikebana/program/export/impl/names.ipp>
#include <ikebana/program/export/impl/nested.ipp>
#include <ikebana/program/export/impl/node_json.ipp>
#include <ikebana/program/export/impl/operator_facts.ipp>
#include <ikebana/program/export/impl/program_json.ipp>
#include <ikebana/program/export/impl/recorder.ipp>
#include <ikebana/program/export/impl/recording.ipp>
#include <ikebana/program/export/impl/replay.ipp>
#include <ikebana/program/export/impl/sample_inputs.ipp>
#include <ikebana/program/export/impl/sizes.ipp>
#include <ikebana/program/export/impl/weights.ipp>
#include <ikebana/program/impl/export.ipp>
