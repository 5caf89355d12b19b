// Writing safetensors files whose tensors are never in memory all at once.
#ifndef DPIPE_CORE_TENSOR_SAFETENSORS_PREFIX_H_
#define DPIPE_CORE_TENSOR_SAFETENSORS_PREFIX_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
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

// Writes a file atomically, with the bytes that WriteSafetensors would write: `read` is called for
// one tensor after another, in the file's order, with its index in `tensors`, and returns its
// bytes, which must stay valid until the next call. Errors are those of SafetensorsPrefix and of
// `read`, and InvalidArgument if the number of bytes is wrong.
absl::Status WriteSafetensorsInTurn(
    const std::string& path, const std::vector<SafetensorsEntry>& tensors,
    const std::function<absl::StatusOr<absl::string_view>(size_t i)>& read);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_SAFETENSORS_PREFIX_H_
