// The JSON header of a safetensors file. Not for use by anything but safetensors.cc.
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
    int64_t begin = 0;  // of the data
    int64_t end = 0;
  };
  std::vector<Tensor> tensors;  // in the order of the text
  SafetensorsMetadata metadata;
};

// The dtype's place in the reference implementation's enumeration, by which it sorts; -1 if
// unknown.
int SafetensorsDtypeRank(absl::string_view dtype);

// "F32 [2, 3]".
std::string DescribeTensor(absl::string_view dtype, const std::vector<int64_t>& shape);

// Bytes of a tensor; InvalidArgument for an unknown dtype, a negative size, or a product above
// 2^62.
absl::StatusOr<int64_t> SafetensorsBytes(absl::string_view dtype,
                                         const std::vector<int64_t>& shape);

// Reads the text and checks it against `data_bytes`, the bytes that follow it: see safetensors.h.
// Memory is proportional to the text, and nesting cannot be deep. Errors do not name the file.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t data_bytes);

// The text for `header`, padded to a multiple of 8; InvalidArgument for a name that is not UTF-8.
absl::StatusOr<std::string> FormatSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace dpipe::internal

#endif  // DPIPE_CORE_TENSOR_SAFETENSORS_HEADER_H_
