// The safetensors file format: named tensors in one file, read without copying.
//
// Layout: 8 bytes, little endian: length N of the header; N bytes of JSON,
//   {"__metadata__": {"key": "value", ...}, "name": {"dtype": "F32", "shape": [2, 3],
//   "data_offsets": [0, 24]}, ...},
// maybe with spaces at its end; then the tensors' bytes, little endian, rows first. Offsets count
// from the end of the header. Source: github.com/huggingface/safetensors, README.md, "Format".
//
// A file may come from anyone. Every length is checked against the file before it is used; tensors
// must cover the data exactly, without overlap or hole; a name occurs once. Errors name the file,
// the tensor and both values.
#ifndef DPIPE_CORE_TENSOR_SAFETENSORS_H_
#define DPIPE_CORE_TENSOR_SAFETENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Bytes of an element of "F32", "BF16", "I64" and so on; 0 for a dtype that the format does not
// have.
int64_t SafetensorsElementBytes(absl::string_view dtype);

// A tensor in a file or in memory. `bytes` is not owned and need not be aligned: copy by memcpy.
struct SafetensorsView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  // empty: a scalar
  absl::string_view bytes;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

// A file that is mapped into memory; pages are read when they are touched. Immutable; copies share
// the mapping, and views are valid while any copy lives. The file must not be cut short meanwhile.
class SafetensorsFile {
 public:
  // NotFound; Unavailable if the system cannot map it; InvalidArgument for whatever breaks the
  // format.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // The same from bytes in memory; `name` stands for the file in errors.
  static absl::StatusOr<SafetensorsFile> FromBytes(std::string bytes, const std::string& name);

  // In the header's order.
  const std::vector<SafetensorsView>& tensors() const { return tensors_; }
  // Null if the file has no tensor of that name.
  const SafetensorsView* Find(absl::string_view name) const;
  // In the header's order.
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // The header as it stands in the file, with its padding: see SafetensorsWriteOptions.
  absl::string_view header_text() const { return header_text_; }
  const std::string& name() const { return name_; }

 private:
  SafetensorsFile() = default;
  static absl::StatusOr<SafetensorsFile> Parse(std::shared_ptr<const void> owner,
                                               absl::string_view bytes, const std::string& name);

  std::shared_ptr<const void> owner_;  // keeps the bytes alive
  std::string name_;
  absl::string_view header_text_;
  SafetensorsMetadata metadata_;
  std::vector<SafetensorsView> tensors_;
  std::unordered_map<std::string, size_t> places_;  // in tensors_, by name
};

struct SafetensorsWriteOptions {
  SafetensorsMetadata metadata = {{"format", "pt"}};
  // If not empty: written as the header, so that a file that was read is written back byte for
  // byte. It must describe exactly the tensors given; `metadata` is then not used.
  std::string header_text;
};

// Writes a file that appears complete or not at all. Without header_text, the layout is that of the
// reference implementation: dtypes in its order, then names in byte order; header padded to a
// multiple of 8. InvalidArgument: an unknown dtype, a shape that is not the bytes' size, a name
// twice, or a header_text that describes other tensors.
absl::Status WriteSafetensors(const std::string& path, const std::vector<SafetensorsView>& tensors,
                              const SafetensorsWriteOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_SAFETENSORS_H_
