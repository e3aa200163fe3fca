#pragma once
// Defines load_program, which makes a LibTorch module of a model in torch.export's file.
#include <ikebana/program/module.hpp>

namespace ikebana {

/// Loads a program of `torch.export.save`, or of scripts/export_program.py, which holds a graph of
/// training and one of evaluation. It needs the memory of its tensors and of its graph's text. The
/// weights are on the CPU. Throws BadFile for a file that is damaged, BadModel with all reasons for
/// a program that cannot be run, BadValue for options that do not fit it, and FileFailed.
Program load_program(const std::filesystem::path& path, const ProgramOptions& options = {});

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/load.ipp>
#endif
