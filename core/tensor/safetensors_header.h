// The JSON header of a safetensors file. Internal to the safetensors files of this folder.
#ifndef DPIPE_CORE_TENSOR_SAFETENSORS_HEADER_H_
#define DPIPE_CORE_TENSOR_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/tensor/safetensors.h"

namespace dpipe::internal {

struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    int64_t begin = 0;  // offset in the data
    int64_t end = 0;
  };
  std::vector<Tensor> tensors;  // in the text's order
  SafetensorsMetadata metadata;
};

// Returns the dtype's position in the reference implementation's enumeration, its sort key; -1 if
// unknown.
int SafetensorsDtypeRank(absl::string_view dtype);

// Returns text such as "F32 [2, 3]".
std::string DescribeTensor(absl::string_view dtype, const std::vector<int64_t>& shape);

// Returns a tensor's size in bytes. InvalidArgument for an unknown dtype, a negative size, or a
// product above 2^62.
absl::StatusOr<int64_t> SafetensorsBytes(absl::string_view dtype,
                                         const std::vector<int64_t>& shape);

// Parses the text and checks it against `data_bytes`, the number of bytes that follow it; see
// safetensors.h. Memory is proportional to the text, and nesting depth is bounded. Errors do not
// name the file.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t data_bytes);

// Returns the text for `header`, padded to a multiple of 8. InvalidArgument if a name is not UTF-8.
absl::StatusOr<std::string> FormatSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace dpipe::internal

#endif  // DPIPE_CORE_TENSOR_SAFETENSORS_HEADER_H_
