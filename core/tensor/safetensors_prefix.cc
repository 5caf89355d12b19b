#include "core/tensor/safetensors_prefix.h"

#include "absl/strings/str_cat.h"
#include "core/tensor/safetensors_header.h"

namespace dpipe {

absl::StatusOr<std::string> SafetensorsPrefix(const std::vector<SafetensorsEntry>& tensors,
                                              const SafetensorsMetadata& metadata) {
  internal::SafetensorsHeader header;
  header.metadata = metadata;
  int64_t at = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.name == "__metadata__") {
      return absl::InvalidArgumentError("a tensor is named __metadata__, which is reserved");
    }
    const auto bytes = internal::SafetensorsBytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", tensor.name, "\": ", bytes.status().message()));
    }
    header.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, at, at + *bytes});
    at += *bytes;
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string text, internal::FormatSafetensorsHeader(header));
  // Reuses the reader's checks, which find duplicate names.
  DPIPE_RETURN_IF_ERROR(internal::ParseSafetensorsHeader(text, at).status());
  std::string prefix;
  for (int i = 0; i < 8; ++i) prefix += static_cast<char>(text.size() >> (8 * i));
  return prefix + text;
}

}  // namespace dpipe
