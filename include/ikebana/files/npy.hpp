#pragma once
// Reads and writes numpy's .npy files.
#include <ikebana/data/dataset.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/posix/file_map.hpp>
#include <string>
#include <vector>

namespace ikebana {

namespace detail {

/// The header of a .npy file.
struct NpyHeader {
  at::ScalarType dtype = at::kFloat;
  bool is_fortran = false;  ///< the first dimension is the one that changes fastest
  std::vector<std::int64_t> shape{};
  std::uint64_t data = 0;  ///< the position of the first element, in bytes

  std::int64_t elements() const;
};

/// Returns whether a file begins as .npy files do.
bool is_npy(const FileMap& file);
/// Reads a file's header. Throws BadFile if it is no .npy file, if LibTorch has no such dtype, or
/// if the file has another length than the header says.
NpyHeader read_npy_header(const FileMap& file);

}  // namespace detail

/// Reads numpy's array from a .npy file, of versions 1 to 3. The tensor has numpy's shape, its
/// strides if the array was saved in Fortran order, and its dtype: bool, signed and unsigned
/// integers, float16, float32, float64, complex64, complex128. Costs the memory of the array.
/// Throws BadFile for a damaged file, for other dtypes (objects, texts, structs) and for bytes in
/// big-endian order; FileFailed if the file cannot be read.
at::Tensor read_npy(const std::filesystem::path& path);

/// Writes a tensor as a .npy file, which `numpy.load` reads. Throws BadValue for a dtype that numpy
/// lacks, such as BFloat16; FileFailed if the file cannot be written.
void write_npy(const std::filesystem::path& path, const at::Tensor& tensor);

/// The rows of an array in a .npy file, as a dataset: sample i is row i, which is read when it is
/// asked for. Costs no memory. Batches are (rows, ...) of the file's dtype. Join it with a dataset
/// of targets, or make tokens of it by TokenFiles. Throws as `read_npy`; BadFile for a file that
/// was changed since, and for arrays in Fortran order, whose rows do not lie together.
class NpyRows {
 public:
  /// Opens the file and reads its header.
  explicit NpyRows(std::filesystem::path path);

  /// Returns the number of rows.
  std::int64_t size() const { return header_.shape[0]; }
  /// Returns the shape of the whole array.
  const std::vector<std::int64_t>& sizes() const { return header_.shape; }
  /// Returns the dtype of rows.
  at::ScalarType dtype() const { return header_.dtype; }
  /// Returns row `index`, of the array's shape without its first dimension.
  at::Tensor get(std::int64_t index) const;
  /// Returns the rows at these indices (Long, one dimension), in their order.
  at::Tensor get_batch(const at::Tensor& indices) const;

 private:
  void read(std::int64_t index, void* to) const;

  std::shared_ptr<const detail::FileMap> file_;
  detail::NpyHeader header_;
  std::size_t row_bytes_ = 0;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/npy.ipp>
#endif
