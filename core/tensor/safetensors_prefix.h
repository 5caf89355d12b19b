// Writing safetensors files whose tensors are never in memory all at once.
#ifndef DPIPE_CORE_TENSOR_SAFETENSORS_PREFIX_H_
#define DPIPE_CORE_TENSOR_SAFETENSORS_PREFIX_H_

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

// Returns the prefix of a file that holds these tensors, one after another in this order: the
// header, preceded by its length. Returns InvalidArgument for an unknown dtype, an impossible
// shape, or a name that is duplicated, reserved or not UTF-8.
absl::StatusOr<std::string> SafetensorsPrefix(const std::vector<SafetensorsEntry>& tensors,
                                              const SafetensorsMetadata& metadata = {
                                                  {"format", "pt"}});

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_SAFETENSORS_PREFIX_H_
