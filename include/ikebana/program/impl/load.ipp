#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/program/load.hpp>

namespace ikebana {

IKEBANA_INLINE Program load_program(const std::filesystem::path& path,
                                    const ProgramOptions& options) {
  return Program(std::make_shared<ProgramImpl>(
      detail::pt2::read_program_file(system_files(), path, options.model), options));
}

}  // namespace ikebana
