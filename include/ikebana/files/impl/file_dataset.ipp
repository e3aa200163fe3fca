#pragma once
#include <exception>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/files/file_dataset.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_index(const char* dataset, std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw BadValue(std::string(dataset) + ": the index is " + std::to_string(index) +
                 ", and there are " + std::to_string(size) + " samples. Use 0 to " +
                 std::to_string(size - 1) + ".");
}

IKEBANA_INLINE void rethrow_with_path(const char* what, const std::string& path) {
  const std::string where = std::string(what) + " threw for `" + path + "`: ";
  std::string why = "something that is no std::exception";
  try {
    throw;
  } catch (const BadFile& error) {
    if (std::string_view(error.what()).find(path) != std::string_view::npos) throw;
    std::throw_with_nested(BadFile(where + error.what()));
  } catch (const FileFailed& error) {
    if (std::string_view(error.what()).find(path) != std::string_view::npos) throw;
    why = error.what();
  } catch (const std::exception& error) {
    why = text_of(error);
  } catch (...) {
  }
  while (why.ends_with('.') || why.ends_with('\n')) why.pop_back();
  std::throw_with_nested(BadSample(where + why + ". Correct it, or remove the file."));
}

}  // namespace ikebana::detail
