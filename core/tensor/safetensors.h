// The safetensors file format: named tensors in one file, read without copying.
//
// Layout: 8 bytes, little endian: length N of the header; then N bytes of JSON,
//   {"__metadata__": {"key": "value", ...}, "name": {"dtype": "F32", "shape": [2, 3],
//   "data_offsets": [0, 24]}, ...},
// optionally padded with spaces; then the tensors' bytes, little endian, row-major. Offsets count
// from the end of the header. Source: github.com/huggingface/safetensors, README.md, "Format".
//
// Files are untrusted. Every length is checked against the file before use; tensors must cover the
// data exactly, without overlap or gap; names are unique. Errors name the file, the tensor and both
// values.
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

// Returns the bytes per element of "F32", "BF16", "I64" and so on; 0 for a dtype unknown to the
// format.
int64_t SafetensorsElementBytes(absl::string_view dtype);

// A tensor in a file or in memory. `bytes` is not owned and may be unaligned: use memcpy.
struct SafetensorsView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  // empty: a scalar
  absl::string_view bytes;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

// A memory-mapped file, whose pages are read on first access. Immutable. Copies share the mapping,
// and views are valid while any copy lives. The file must not be truncated in that time.
class SafetensorsFile {
 public:
  // Returns NotFound if there is no such file, Unavailable if the system cannot map it, and
  // InvalidArgument if it breaks the format.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // Parses bytes in memory in the same way; errors call the file `name`.
  static absl::StatusOr<SafetensorsFile> FromBytes(std::string bytes, const std::string& name);

  // In the header's order.
  const std::vector<SafetensorsView>& tensors() const { return tensors_; }
  // Returns null if the file has no tensor with that name.
  const SafetensorsView* Find(absl::string_view name) const;
  // In the header's order.
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // The header's text exactly as in the file, with its padding; see SafetensorsWriteOptions.
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
  std::unordered_map<std::string, size_t> places_;  // index in tensors_, by name
};

struct SafetensorsWriteOptions {
  SafetensorsMetadata metadata = {{"format", "pt"}};
  // If not empty, written as the header, so that a file can be rewritten byte for byte. It must
  // describe exactly the given tensors, and `metadata` is not used.
  std::string header_text;
};

// Writes a file atomically: it appears complete or not at all. Without header_text, the layout is
// that of the reference implementation: tensors sorted by dtype in its order, then by name in byte
// order; the header padded to a multiple of 8. Returns InvalidArgument for an unknown dtype, a
// shape that does not match the bytes' size, a duplicate name, or a header_text that describes
// other tensors.
absl::Status WriteSafetensors(const std::string& path, const std::vector<SafetensorsView>& tensors,
                              const SafetensorsWriteOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_SAFETENSORS_H_
