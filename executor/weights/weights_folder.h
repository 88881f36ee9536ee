#pragma once

// The folder of a model's weights as it is published, written by many ranks at once: each writes
// the elements that it has where they belong, and nobody gathers anything. Knows no model.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "costmodel/io/files.h"
#include "costmodel/units/quantity.h"
#include "executor/weights/safetensors.h"

namespace xt {

/// The most of one file's tensors, as transformers' save_pretrained has it.
inline constexpr Bytes largest_weights_file{5'000'000'000};

/// `model.safetensors`, or numbered files and `model.safetensors.index.json`. The same on all ranks
/// that are given the same tensors. Until publish() readers see the old content.
class WeightsFolder {
 public:
  /// Assumes: dtypes are such that encode() knows them; names differ
  WeightsFolder(std::filesystem::path folder, std::vector<TensorSpec> tensors,
                Bytes largest_file = largest_weights_file);
  /// Takes temporary files that begin() made and publish() did not name away again.
  ~WeightsFolder();
  WeightsFolder(const WeightsFolder&) = delete;
  WeightsFolder& operator=(const WeightsFolder&) = delete;

  /// Makes the files, whole but for their elements, under temporary names. One rank does, before
  /// any writes.
  ///
  /// Throws: InputError if the folder cannot be one; std::system_error, as when the disk is full
  void begin();
  /// Writes `elements` of tensor `name` from its element `first` on, rounded to its dtype.
  ///
  /// Assumes: begin() was called by some rank, and the tensor has as many
  /// Throws:  std::system_error
  void write(const std::string& name, std::int64_t first, std::span<const float> elements);
  /// Waits until what this rank wrote is on disk.
  ///
  /// Throws: std::system_error
  void flush() const;
  /// Gives the files their names and takes away other weights that lay there. One rank does, when
  /// all have flushed.
  ///
  /// Throws: std::system_error
  void publish();

 private:
  struct File {
    std::string name;
    std::vector<TensorSpec> tensors;
    std::string header;
    int descriptor = -1;
  };
  struct Place {
    std::size_t file = 0;
    std::int64_t offset = 0;  ///< bytes from the file's begin
    DType dtype = DType::fp32;
  };

  [[nodiscard]] std::filesystem::path temporary(const File& file) const;
  void write_index() const;

  std::filesystem::path folder_;
  std::vector<File> files_;
  std::map<std::string, Place> places_;
  bool is_begun_ = false;  ///< here, and not published yet
};

/// Copies what turns text into the model's tokens and back, and how it is meant to be asked, from
/// the folder of one model to that of another, where it is there and has none.
///
/// Source:  Hugging Face transformers, tokenization_utils_base.py, for the names
/// Throws:  std::system_error
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to);

/// Throws: InputError when `folder` holds weights that may not be overwritten
void check_weights_folder(const std::filesystem::path& folder, Overwrite overwrite);

}  // namespace xt
