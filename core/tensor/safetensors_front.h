// For writing a safetensors file whose tensors are never together in memory.
#ifndef DPIPE_CORE_TENSOR_SAFETENSORS_FRONT_H_
#define DPIPE_CORE_TENSOR_SAFETENSORS_FRONT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/safetensors.h"

namespace dpipe {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};

// What comes before the tensors' bytes in a file that has these tensors, one after another in this
// order: the header, and its length before it. InvalidArgument for an unknown dtype, an impossible
// shape, or a name that is given twice, is reserved or is not UTF-8.
absl::StatusOr<std::string> SafetensorsFront(const std::vector<SafetensorsEntry>& tensors,
                                             const SafetensorsMetadata& metadata = {
                                                 {"format", "pt"}});

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_SAFETENSORS_FRONT_H_
