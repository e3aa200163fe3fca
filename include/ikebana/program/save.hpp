#pragma once
// Writes a program back to a file as it was loaded, with the weights of now.
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/program/module.hpp>

namespace ikebana {

/// Writes a program that `load_program` has made, with its present parameters and buffers in the
/// dtypes that the file had, and everything else as it was. Python opens it by torch.export.load,
/// and one with two graphs by torch.export.pt2_archive.load_pt2. An interruption leaves the file at
/// `path` as it was. Throws BadModel if a trainer stores the weights elsewhere: give the trainer
/// then. Throws FileFailed.
void export_program(const Program& program, const std::filesystem::path& path,
                    Files& files = system_files());

template <class Model, class... Policies>
class Trainer;

/// Writes the program of a trainer with the weights that it evaluates with: averaged ones under
/// `EMA` or `SWA`, whole ones under `Shard` and `Offload`. On several ranks all call it, and rank 0
/// writes.
template <class Model, class... Policies>
  requires std::is_same_v<detail::impl_of_t<Model>, ProgramImpl>
void export_program(Trainer<Model, Policies...>& trainer, const std::filesystem::path& path,
                    Files& files = system_files()) {
  trainer.with_averaged_weights([&](auto& model) {
    if (trainer.rank() == 0) export_program(model, path, files);
  });
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/save.ipp>
#endif
